"""Views of lanes, and instructions that move lanes to where others can read them."""
