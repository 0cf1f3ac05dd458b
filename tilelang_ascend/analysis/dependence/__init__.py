"""The instructions of a kernel, what each reads and writes, what must come after what, and whether flags see to it."""
