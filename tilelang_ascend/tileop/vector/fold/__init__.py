"""Reductions of lanes."""
