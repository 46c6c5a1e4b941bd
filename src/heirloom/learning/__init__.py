"""Where an agent meets tasks: one task, and several in a row."""
