"""Passes, one per file; `pipeline.py` is the list."""
