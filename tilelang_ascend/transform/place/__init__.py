"""A core for every statement, a memory for every buffer."""
