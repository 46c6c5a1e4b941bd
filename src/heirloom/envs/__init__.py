"""Tasks of the paper and of practice."""
