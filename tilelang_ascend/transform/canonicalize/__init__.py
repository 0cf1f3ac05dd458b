"""Passes on what the user said: fewer ways of saying it."""
