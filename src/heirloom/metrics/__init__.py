"""Distances between exact tasks, and between their states."""
