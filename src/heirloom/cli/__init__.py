"""The command-line interface: parses arguments, calls the library, prints results."""
