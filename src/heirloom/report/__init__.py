"""The HTML report of one or several runs: one file that opens from disk, without a network."""
