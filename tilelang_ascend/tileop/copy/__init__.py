"""Transfers between two memories."""
