"""The paper's experiments: one file each, with its settings, its claims and its report."""
