"""Replays of recorded learning: pages in which one sees how an agent learned a task."""
