"""Exact tasks: what they are, how they are solved, where they come from."""
