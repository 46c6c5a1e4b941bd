"""Experiments: specs, task families and algorithms by name, jobs, and measures."""
