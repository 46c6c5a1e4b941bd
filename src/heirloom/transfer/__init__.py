"""How far tasks are from each other, and what that says of their values."""
