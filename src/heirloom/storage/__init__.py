"""Files and folders: written whole, checked when read."""
