"""Flags and barriers: which edges, which ids, where."""
