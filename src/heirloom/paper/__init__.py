"""The experiments of the paper, one module each: settings, claims and report."""
