"""Experiments of our own, in the same form and registry as those of the paper."""
