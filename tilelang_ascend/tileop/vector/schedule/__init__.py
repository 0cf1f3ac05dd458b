"""Which value is computed when and where it lies."""
