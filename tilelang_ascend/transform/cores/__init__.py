"""One program for each kind of core."""
