"""The scalar unit: loops element by element, output of a kernel."""
