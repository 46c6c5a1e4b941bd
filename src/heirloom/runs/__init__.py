"""Run experiments: distribute jobs to workers, store and export their results."""
