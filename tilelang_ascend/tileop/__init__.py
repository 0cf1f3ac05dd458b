"""Lowerings of tile ops to instructions."""
