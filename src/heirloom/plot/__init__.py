"""Figures of results, as Matplotlib figures that are drawn without a window."""
