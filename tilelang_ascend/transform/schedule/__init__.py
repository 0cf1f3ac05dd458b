"""The order of independent instructions."""
