"""Solvers for exact tasks, with a certified error."""
