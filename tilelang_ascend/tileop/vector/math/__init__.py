"""Elementary functions as sequences of operations."""
