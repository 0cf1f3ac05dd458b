"""From tile ops to instructions, and what instructions need around them."""
