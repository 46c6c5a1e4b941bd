"""Running experiments: jobs, workers, and results on disk."""
