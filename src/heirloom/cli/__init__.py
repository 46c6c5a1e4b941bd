"""The command `heirloom`: parse, call, print."""
