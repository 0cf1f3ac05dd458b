"""Products and what the cube core needs around them."""
