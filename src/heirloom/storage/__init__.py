"""Files and folders: atomic writes, and checks when files are read."""
