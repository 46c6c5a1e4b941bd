"""Transfer from knowledge of how far the models of tasks can differ."""
