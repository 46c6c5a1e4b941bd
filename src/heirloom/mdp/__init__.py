"""Exact tasks, the forms they are read from, and models that an agent learns."""
