"""Distances between exact tasks."""
