"""Solving exact tasks, with a certificate of the error."""
