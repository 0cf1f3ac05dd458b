"""Element-wise loops work on tiles; blocks and cores divide the work."""
