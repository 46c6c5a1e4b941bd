"""Where agents meet tasks."""
