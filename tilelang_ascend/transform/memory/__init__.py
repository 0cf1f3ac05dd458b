"""Versions of tiles, and an address for every buffer."""
