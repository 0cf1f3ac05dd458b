"""Random programs: loops around gemm that may not run, values carried from iteration to iteration, atomics, tile ops on every operand.

`cells` says what a program means, one element after the other; `writer` holds the state of a program under construction; the other
modules write scenes of one kind each; `generate` puts scenes together and keeps those that mean something.
"""
