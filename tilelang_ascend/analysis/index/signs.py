"""What is known of the sign and of the size of integer expressions."""

from __future__ import annotations

from ...ir import Bind, For, IntImm, TensorLoad, Var, dtype_of, itemsize, tirx
from ...ir.functions import is_core_index
from .data_names import DataNames
from .magnitude import loop_magnitude, magnitude

UNKNOWN = 1 << 10
"""What an index of unknown size counts as in a product: enough for strides of run time, and little against the factors of hashes."""


MOST_CORES = 1 << 16


class Known:
    """What the walk over a program has learnt of its variables: which are not negative, and bounds of absolute values. `data`: which are made of
    data."""

    def __init__(self, data: DataNames):
        self.nonnegative: set = set()
        self.bounds: dict = {}
        self.data = data

    def bind(self, s: Bind) -> None:
        """A let holds its value."""
        if is_core_index(s.value) or is_nonnegative(s.value, self):
            self.nonnegative.add(s.var)
        bound = MOST_CORES if is_core_index(s.value) else magnitude(s.value, self.bounds) if "int" in dtype_of(s.var) else None
        if bound is not None:
            self.bounds[s.var] = bound

    def loop(self, s: For) -> None:
        """A loop variable walks from `min` on."""
        if is_nonnegative(s.min, self):
            self.nonnegative.add(s.loop_var)
        bound = loop_magnitude(s, self.bounds)
        if bound is not None:
            self.bounds[s.loop_var] = bound


def is_nonnegative(e, known: Known) -> bool:
    """True when an integer expression cannot be negative. Sums and products of unknown variables and small numbers are indices, which do not
    overflow; with large numbers they are hashes, which wrap, and so may those of data."""
    if isinstance(e, IntImm):
        return int(e.value) >= 0
    if isinstance(e, (Var, TensorLoad)):
        return e in known.nonnegative or dtype_of(e).startswith("uint")
    if isinstance(e, tirx.Cast):
        source, target = dtype_of(e.value), dtype_of(e)
        # Half of the unsigned numbers of a width are negative as signed ones.
        spare = 1 if source.startswith("uint") and target.startswith("int") else 0
        return "int" in source and itemsize(source) + spare <= itemsize(target) and is_nonnegative(e.value, known)
    if isinstance(e, tirx.FloorMod):
        return is_nonnegative(e.b, known)
    if isinstance(e, (tirx.Add, tirx.Mul)) and not dtype_of(e).startswith("uint"):
        if magnitude(e, known.bounds, None if known.data.is_data(e) else UNKNOWN) is None:
            return False
    if isinstance(e, (tirx.Add, tirx.Mul, tirx.Div, tirx.Mod, tirx.FloorDiv, tirx.Min)):
        return is_nonnegative(e.a, known) and is_nonnegative(e.b, known)
    if isinstance(e, tirx.Max):
        return is_nonnegative(e.a, known) or is_nonnegative(e.b, known)
    return False


def is_below(e, limit: int) -> bool:
    """True when an integer expression is known to lie in 0 … limit - 1."""
    if isinstance(e, IntImm):
        return 0 <= int(e.value) < limit
    if isinstance(e, tirx.FloorMod):
        return isinstance(e.b, IntImm) and 0 < int(e.b.value) <= limit
    if isinstance(e, tirx.BitwiseAnd):
        return any(isinstance(x, IntImm) and 0 <= int(x.value) < limit for x in (e.a, e.b))
    if isinstance(e, tirx.Mul):
        return isinstance(e.b, IntImm) and int(e.b.value) > 0 and is_below(e.a, (limit - 1) // int(e.b.value) + 1)
    return isinstance(e, tirx.Cast) and "int" in dtype_of(e.value) and is_below(e.value, min(limit, 128))


def is_nonzero(e) -> bool:
    """True when an integer expression cannot be 0."""
    if isinstance(e, IntImm):
        return int(e.value) != 0
    if isinstance(e, tirx.Max):
        return any(isinstance(x, IntImm) and int(x.value) > 0 for x in (e.a, e.b))
    widens = isinstance(e, tirx.Cast) and "int" in dtype_of(e.value) and itemsize(dtype_of(e.value)) <= itemsize(dtype_of(e))
    return widens and is_nonzero(e.value)
