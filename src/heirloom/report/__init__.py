"""HTML pages that open from disk: the report of runs, and the replay of recorded learning."""
