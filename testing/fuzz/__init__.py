"""Random kernels from source text to results: compiler and machine model against the reference interpreter.

`python -m testing.fuzz SEED` checks one seed, `python -m testing.fuzz FIRST LAST` a range; a failing seed is reduced
and printed as a script that reproduces it.
"""
