"""From Ascend IR to a program of the machine model, and the machine model itself."""
