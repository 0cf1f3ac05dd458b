"""Where the time of a simulated kernel goes: critical path, waits, traffic, and how far all that can be believed."""
