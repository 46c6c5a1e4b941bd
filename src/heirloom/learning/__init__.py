"""Let an agent learn one task, or several tasks one after the other."""
