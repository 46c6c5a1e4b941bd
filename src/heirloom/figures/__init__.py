"""Figures: each function draws what was computed, and computes nothing."""
