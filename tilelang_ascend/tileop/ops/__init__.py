"""Fills, reductions, scans and sorts, and the table of all lowerings of the vector core."""
