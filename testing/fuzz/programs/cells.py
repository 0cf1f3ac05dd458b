"""What programs mean: memory element by element, statement by statement, one block after the other.

A reference is Python text with the control flow of the program. Numbers are exact: an operation whose result its dtype does not hold
raises `Discard`, as do reads of undefined elements, accesses outside of a tile, races between the iterations of a `T.Parallel` and
between blocks, and divisions by zero. A program that does any of that has no single meaning and is no case.
"""

from __future__ import annotations

import math

import numpy as np

from ..memory import Memory
from ..numbers import numpy_dtype

FLOAT_BITS = {"float32": 24, "float16": 11, "bfloat16": 8, "float8_e4m3fn": 4, "float8_e5m2": 3}
"""Bits of a significand."""
MOST_STEPS = 4000
"""Iterations of all while loops of a reference together: beyond, the program is taken for one that does not end."""


class Discard(Exception):
    """The program means nothing definite."""


def is_float(dtype: str) -> bool:
    """Whether `dtype` is a float."""
    return dtype in FLOAT_BITS


# ---- scalars ---------------------------------------------------------------------------------------------------------


def _held(dtype: str, v) -> bool:
    """Whether a dtype holds `v` exactly."""
    if not is_float(dtype):
        if dtype == "bool":
            return True
        info = np.iinfo(dtype)
        return info.min <= v <= info.max
    if math.isinf(v):
        return dtype in ("float32", "bfloat16")
    if math.isnan(v):
        return False
    m, e = math.frexp(v)
    largest, smallest = {"float16": (16, -13), "float8_e4m3fn": (8, -5), "float8_e5m2": (15, -13)}.get(dtype, (120, -120))
    return (m * (1 << FLOAT_BITS[dtype])).is_integer() and e <= largest and (v == 0 or e >= smallest)


class Num:
    """A scalar of a dtype."""

    __slots__ = ("dtype", "v")

    def __init__(self, dtype: str, v):
        if not _held(dtype, v):
            raise Discard(f"{v} is no {dtype}")
        self.dtype, self.v = dtype, v

    def _other(self, other):
        """(dtype of the result, the other value)"""
        if isinstance(other, Num):
            return promoted(self.dtype, other.dtype), other.v
        if isinstance(other, (bool, np.bool_)):
            raise Discard("a condition as a number")
        if isinstance(other, float) and not is_float(self.dtype):
            raise Discard("an integer and a float constant")
        return self.dtype, float(other) if is_float(self.dtype) else int(other)

    def _do(self, other, function, turned=False):
        dtype, v = self._other(other)
        if dtype == "bool":
            raise Discard("arithmetic of bool")
        a, b = (v, self.v) if turned else (self.v, v)
        if is_float(dtype):
            a, b = float(a), float(b)
            if math.isinf(a) or math.isinf(b):
                raise Discard("arithmetic of infinity")
        return Num(dtype, function(a, b))

    def __add__(self, other):
        return self._do(other, lambda a, b: a + b)

    __radd__ = __add__

    def __sub__(self, other):
        return self._do(other, lambda a, b: a - b)

    def __rsub__(self, other):
        return self._do(other, lambda a, b: a - b, turned=True)

    def __mul__(self, other):
        return self._do(other, lambda a, b: a * b)

    __rmul__ = __mul__

    def _whole(self, other, function, turned=False):
        if is_float(self.dtype):
            raise Discard("integer division of floats")
        dtype, v = self._other(other)
        a, b = (v, self.v) if turned else (self.v, v)
        if b == 0:
            raise Discard("division by zero")
        return Num(dtype, function(a, b))

    def __floordiv__(self, other):
        return self._whole(other, lambda a, b: a // b)

    def __mod__(self, other):
        return self._whole(other, lambda a, b: a % b)

    def __neg__(self):
        return Num(self.dtype, -self.v)

    def __and__(self, other):
        return self._do(other, lambda a, b: a & b)

    def __or__(self, other):
        return self._do(other, lambda a, b: a | b)

    def __xor__(self, other):
        return self._do(other, lambda a, b: a ^ b)

    def __lt__(self, other):
        return self.v < self._other(other)[1]

    def __le__(self, other):
        return self.v <= self._other(other)[1]

    def __gt__(self, other):
        return self.v > self._other(other)[1]

    def __ge__(self, other):
        return self.v >= self._other(other)[1]

    def __eq__(self, other):
        return self.v == self._other(other)[1]

    def __ne__(self, other):
        return self.v != self._other(other)[1]

    __hash__ = None

    def __bool__(self):
        return bool(self.v)

    def __index__(self):
        if is_float(self.dtype):
            raise Discard("a float as an index")
        return int(self.v)

    __int__ = __index__


def promoted(a: str, b: str) -> str:
    """The dtype in which two operands meet."""
    if a == b:
        return a
    if is_float(a) and is_float(b):
        if "float32" in (a, b):
            return "float32"
        raise Discard(f"{a} meets {b}")
    if is_float(a) or is_float(b):
        return a if is_float(a) else b
    if "bool" in (a, b) or a.startswith("u") != b.startswith("u"):
        raise Discard(f"{a} meets {b}")
    return max(a, b, key=lambda d: np.iinfo(d).bits)


def num(dtype: str, v) -> Num:
    """A value converted to a dtype, as stores and variables do: exactly, or not at all."""
    if isinstance(v, Num):
        v = v.v
    if dtype == "bool":
        return Num(dtype, bool(v))
    if is_float(dtype):
        return Num(dtype, float(v))
    if isinstance(v, float) and not math.isfinite(v):
        raise Discard("infinity as an integer")
    return Num(dtype, int(v))  # int() truncates as the cast does


def larger(a, b):
    """T.max."""
    return _chosen(a, b, max)


def smaller(a, b):
    """T.min."""
    return _chosen(a, b, min)


def _chosen(a, b, function):
    if not isinstance(a, Num) and not isinstance(b, Num):
        return function(a, b)
    x, y = (a, b) if isinstance(a, Num) else (b, a)
    dtype, v = x._other(y)
    return num(dtype, function(x.v, v))


def choice(condition, a, b):
    """T.if_then_else; a and b are functions, of which one is called."""
    return a() if condition else b()


_steps = 0


def going(condition) -> bool:
    """The condition of a while loop."""
    global _steps
    _steps += 1
    if _steps > MOST_STEPS:
        raise Discard("no end")
    return bool(condition)


# ---- who runs --------------------------------------------------------------------------------------------------------

NONE = -1


class Run:
    """The block and the iteration of a `T.Parallel` that run now, and the first of this launch and of this `T.Parallel`, by number."""

    block = 0
    first_block = 0
    iteration = NONE
    first = 0
    last = 0


def start() -> None:
    """Begin with a reference."""
    global _steps
    _steps = 0
    Run.block, Run.first_block, Run.iteration, Run.first, Run.last = NONE, 0, NONE, 0, 0


def grid(*extents):
    """Blocks: the first dimension varies fastest, as on a GPU. All of an earlier launch have ended."""
    Run.first_block = Run.block + 1
    for number, at in enumerate(np.ndindex(*extents[::-1])):
        Run.block = Run.first_block + number
        yield at[::-1] if len(extents) > 1 else int(at[0])


def parallel(*extents):
    """The iterations of a T.Parallel."""
    if Run.iteration != NONE:
        raise Discard("T.Parallel in T.Parallel")
    Run.first = Run.last + 1
    for at in np.ndindex(*(int(n) for n in extents)):
        Run.last += 1
        Run.iteration = Run.last
        yield at if len(extents) > 1 else at[0]
    Run.iteration = NONE


class Marks:
    """Who wrote, read and updated each element last; two readers and updaters, so that nobody takes himself for the only one."""

    __slots__ = ("reader", "reader2", "updater", "updater2", "writer")

    def __init__(self, shape):
        for name in self.__slots__:
            setattr(self, name, np.full(shape, NONE, np.int64))

    def reshaped(self, shape):
        """The same marks for a view."""
        out = object.__new__(Marks)
        for name in self.__slots__:
            setattr(out, name, getattr(self, name).reshape(shape))
        return out

    def _other(self, at, who, first, names):
        for name in names:
            m = getattr(self, name)[at]
            if np.any((m >= first) & (m != who)):
                raise Discard("a race")

    def _note(self, at, who, name):
        one, two = getattr(self, name), getattr(self, name + "2")
        two[at] = np.where(one[at] != who, one[at], two[at])
        one[at] = who

    def read(self, at, who, first):
        self._other(at, who, first, ("writer", "updater", "updater2"))
        self._note(at, who, "reader")

    def write(self, at, who, first):
        self._other(at, who, first, ("writer", "reader", "reader2", "updater", "updater2"))
        self.writer[at] = who

    def update(self, at, who, first):
        self._other(at, who, first, ("writer", "reader", "reader2"))
        self._note(at, who, "updater")


# ---- memory ----------------------------------------------------------------------------------------------------------


class Cells:
    """A tensor or a tile: values in their dtype, which of them are defined, and who touched them."""

    def __init__(self, dtype: str, v: np.ndarray, known: np.ndarray, gm: bool, marks=None, blocks=None, mass=None):
        self.dtype, self.v, self.known, self.gm = dtype, v, known, gm
        self.marks = marks or Marks(v.shape)
        self.blocks = blocks or (Marks(v.shape) if gm else None)
        self.mass = np.zeros(v.shape) if mass is None else mass
        """What atomics have added, sign left out: while the dtype holds it, their order does not matter."""

    @property
    def shape(self):
        return self.v.shape

    def _at(self, key):
        """(index, inside): indices of a tensor may leave it, those of a tile may not."""
        key = tuple(int(k) for k in (key if isinstance(key, tuple) else (key,)))
        if len(key) != len(self.shape):
            raise Discard("not all indices")
        inside = all(0 <= k < n for k, n in zip(key, self.shape))
        if not inside and not self.gm:
            raise Discard("outside")
        return key, inside

    def _mark(self, key, kind):
        if Run.iteration != NONE:
            getattr(self.marks, kind)(key, Run.iteration, Run.first)
        if self.blocks:
            getattr(self.blocks, kind)(key, Run.block, Run.first_block)

    def __getitem__(self, key) -> Num:
        key, inside = self._at(key)
        if not inside:
            return num(self.dtype, 0)
        if not self.known[key].all():
            raise Discard("undefined")
        self._mark(key, "read")
        return num(self.dtype, self.v[key].item())

    def __setitem__(self, key, value):
        key, inside = self._at(key)
        value = num(self.dtype, value)
        if inside:
            self._mark(key, "write")
            self.v[key] = value.v
            self.known[key] = True

    def box(self, origin, extents):
        """(the part inside as slices of the memory, as slices of the box)"""
        origin = [int(o) for o in origin]
        if any(n <= 0 for n in extents):
            raise Discard("an empty box")
        if not self.gm and any(o < 0 or o + n > size for o, n, size in zip(origin, extents, self.shape)):
            raise Discard("outside")
        inside = tuple(slice(*(min(max(e, 0), size) for e in (o, o + n))) for o, n, size in zip(origin, extents, self.shape))
        return inside, tuple(slice(s.start - o, s.stop - o) if s.start < s.stop else slice(0, 0) for s, o in zip(inside, origin))


class Part:
    """A region of a memory: `extents` elements from `origin` on."""

    def __init__(self, memory: Cells, origin, extents):
        self.memory, self.origin, self.extents = memory, origin, tuple(int(n) for n in extents)
        self.inside, self.part = memory.box(origin, self.extents)
        if Run.iteration != NONE:
            raise Discard("a tile op in T.Parallel")

    def read(self, shape=None) -> np.ndarray:
        """Its values; zero outside of a tensor."""
        m, out = self.memory, np.zeros(self.extents)
        if not is_float(m.dtype):
            out = np.zeros(self.extents, np.int64)
        if not m.known[self.inside].all():
            raise Discard("undefined")
        if m.blocks:
            m.blocks.read(self.inside, Run.block, Run.first_block)
        out[self.part] = m.v[self.inside].astype(out.dtype)
        return out if shape is None else out.reshape(shape)

    def write(self, v: np.ndarray) -> None:
        """Store values, converted to its dtype exactly."""
        m = self.memory
        v = converted(v.reshape(self.extents), m.dtype)
        if m.blocks:
            m.blocks.write(self.inside, Run.block, Run.first_block)
        m.v[self.inside] = v[self.part]
        m.known[self.inside] = True

    def overlaps(self, other: Part) -> bool:
        """Whether it shares elements with another."""
        return np.shares_memory(self.memory.v[self.inside], other.memory.v[other.inside])


def part(memory, origin=None, extents=None) -> Part:
    """A region; the whole memory if nothing else is said."""
    return Part(memory, origin or (0,) * len(memory.shape), extents or memory.shape)


def converted(v: np.ndarray, dtype: str) -> np.ndarray:
    """Values in another dtype, if it holds them."""
    if dtype == "bool":
        return v != 0
    if not is_float(dtype):
        if not np.isfinite(v).all():
            raise Discard("infinity as an integer")
        w = np.trunc(v).astype(np.int64)
        if (w != w.astype(numpy_dtype(dtype)).astype(np.int64)).any():
            raise Discard(f"no {dtype}")
        return w
    with np.errstate(all="ignore"):
        w = v.astype(np.float32).astype(numpy_dtype(dtype))
    if (w.astype(np.float64) != v).any():
        raise Discard(f"no {dtype}")
    return w


def tensor(array: np.ndarray, dtype: str) -> Cells:
    """A tensor in GM."""
    v = array.astype(numpy_dtype(dtype)).copy()
    return Cells(dtype, v, np.ones((*v.shape, v.itemsize), bool), gm=True)


def tile(shape, dtype: str) -> Cells:
    """A fresh buffer on chip."""
    v = np.zeros(shape, numpy_dtype(dtype))
    return Cells(dtype, v, np.zeros((*v.shape, v.itemsize), bool), gm=False)


def view(m: Cells, shape, dtype: str = "") -> Cells:
    """T.reshape and T.view: the same storage."""
    dtype = dtype or m.dtype
    v = m.v.reshape(-1).view(numpy_dtype(dtype)).reshape(shape)
    known = m.known.reshape(*v.shape, v.itemsize)
    if not np.shares_memory(v, m.v):
        raise Discard("a view of a copy")
    if v.itemsize != m.v.itemsize:
        return Cells(dtype, v, known, m.gm)
    return Cells(dtype, v, known, m.gm, m.marks.reshaped(shape), m.blocks and m.blocks.reshaped(shape), m.mass.reshape(shape))


def results(made: dict[str, Cells]) -> dict[str, Memory]:
    """Tensors as the comparison wants them."""
    return {n: Memory(m.dtype, *_plain(m), tile=False) for n, m in made.items() if isinstance(m, Cells)}


def _plain(m: Cells):
    v = m.v.astype(np.float64 if is_float(m.dtype) else bool if m.dtype == "bool" else np.int64)
    return v, np.zeros(v.shape)


# ---- statements ------------------------------------------------------------------------------------------------------


def _region(x) -> Part:
    return x if isinstance(x, Part) else part(x)


def copy(src, dst) -> None:
    """T.copy."""
    s, d = _region(src), _region(dst)
    if s.overlaps(d):
        raise Discard("a copy onto itself")
    d.write(s.read())


def fill(dst, value) -> None:
    """T.fill."""
    d = _region(dst)
    value = num(d.memory.dtype, value)
    d.write(np.full(d.extents, value.v))


def _exact_sum(x: np.ndarray, axis, limit=2.0**24) -> None:
    """Sums of x do not depend on their order."""
    if x.dtype != np.int64 and (not np.isfinite(x).all() or (np.abs(x).sum(axis=axis) >= limit / 64).any() or (x * 64 % 1 != 0).any()):
        raise Discard("an inexact sum")


def reduce(kind: str, src, dst, dim: int, clear: bool = True) -> None:
    """T.reduce_<kind>: combined in the dtype of the destination with what that holds, if `clear` is False."""
    s, d = _region(src), _region(dst)
    if s.overlaps(d):
        raise Discard("a reduction onto itself")
    x = s.read()
    if kind.startswith("abs"):
        x, kind = np.abs(x), kind[3:]
    if kind == "sum":
        _exact_sum(x, dim)
    r = {"sum": np.sum, "max": np.max, "min": np.min}[kind](x, axis=dim)
    converted(r, s.memory.dtype)
    if not clear:
        old = d.read().reshape(r.shape)
        r = {"sum": np.add, "max": np.maximum, "min": np.minimum}[kind](old, r)
    d.write(r)


def scan(kind: str, src, dst, dim: int, reverse: bool) -> None:
    """T.cumsum and T.cummax."""
    s, d = _region(src), _region(dst)
    x = s.read()
    x = np.flip(x, dim) if reverse else x
    if kind == "sum":
        _exact_sum(x, dim)
        r = np.cumsum(x, axis=dim)
    else:
        r = np.maximum.accumulate(x, axis=dim)
    converted(r, s.memory.dtype)
    d.write(np.flip(r, dim) if reverse else r)


def transpose(src, dst) -> None:
    """T.transpose."""
    s, d = _region(src), _region(dst)
    if s.overlaps(d):
        raise Discard("a transpose onto itself")
    d.write(s.read().T)


def sort(src, dst, dim: int, descending: bool) -> None:
    """T.sort."""
    s, d = _region(src), _region(dst)
    x = np.sort(s.read(), axis=dim)
    d.write(np.flip(x, dim) if descending else x)


def matrix(p: Part) -> np.ndarray:
    """The last two dimensions."""
    x = p.read()
    return x.reshape(x.shape[-2:])


def gemm(a, b, c, transpose_a=False, transpose_b=False, clear=False) -> None:
    """T.gemm."""
    a, b, c = _region(a), _region(b), _region(c)
    x, y = matrix(a), matrix(b)
    x, y = x.T if transpose_a else x, y.T if transpose_b else y
    old = np.zeros((x.shape[0], y.shape[1])) if clear else matrix(c)
    if (np.abs(old) + np.abs(x) @ np.abs(y) >= 2.0**16).any() or any((z * 16 % 1 != 0).any() for z in (x, y, old)):
        raise Discard("an inexact product")
    c.write(old + x @ y)


def _updated(m: Cells, key, value: Num, kind: str) -> None:
    """One atomic update of an element inside."""
    if not m.known[key].all():
        raise Discard("undefined")
    old = m.v[key].item()
    if kind == "add":
        if m.mass[key] == 0:
            m.mass[key] = abs(old)
        m.mass[key] += abs(value.v)
        num(m.dtype, m.mass[key] if is_float(m.dtype) else int(m.mass[key]))
    m.v[key] = num(m.dtype, {"add": lambda: old + value.v, "max": lambda: max(old, value.v), "min": lambda: min(old, value.v)}[kind]()).v


def atomic(m: Cells, key, value, kind: str) -> Num:
    """T.atomic_<kind> of an element; returns what it held."""
    key, inside = m._at(key)
    value = num(m.dtype, value)
    if not inside:
        return num(m.dtype, 0)
    m._mark(key, "update")
    old = num(m.dtype, m.v[key].item())
    _updated(m, key, value, kind)
    return old


def atomic_tile(dst, src, kind: str) -> None:
    """T.atomic_<kind> of a region."""
    d, s = _region(dst), _region(src)
    v = s.read().reshape(d.extents)
    if d.memory.blocks:
        d.memory.blocks.update(d.inside, Run.block, Run.first_block)
    v = v[d.part]
    for offset in np.ndindex(*v.shape):
        key = tuple(s.start + o for s, o in zip(d.inside, offset))
        _updated(d.memory, key, num(d.memory.dtype, v[offset].item()), kind)


# ---- references ------------------------------------------------------------------------------------------------------


def interpret(source: str):
    """The `reference` function of a text."""
    scope = dict(globals())
    exec(compile(source, "<reference>", "exec"), scope)  # noqa: S102
    return scope["reference"]


def expected(func, reference, inputs: dict) -> dict[str, Memory]:
    """What `reference` leaves in the tensors; raises `Discard` if the program means nothing."""
    dtypes = func if isinstance(func, dict) else {p.name: str(getattr(p.ty, "dtype", "")) for p in func.params}
    made = {n: tensor(a, dtypes[n]) if a.ndim else num(dtypes[n], a.item()) for n, a in inputs.items()}
    start()
    try:
        reference(**made)
    except (IndexError, OverflowError, TypeError, ValueError, ZeroDivisionError) as error:
        raise Discard(str(error)) from error
    return results(made)


def values(seed: int, number: int, shape, dtype: str, role: str, limit: int) -> np.ndarray:
    """Values of parameter `number`: small whole numbers, whose sums and products are exact in every order.

    `role`: ``in`` and ``out`` numbers of size up to `limit`, ``index`` numbers below `limit`, ``permutation``, ``mask`` zeros and ones.
    """
    rng = np.random.default_rng((seed, number))
    if role == "permutation":
        v = rng.permutation(shape[0])
    elif role == "index":
        v = rng.integers(0, max(limit, 1), shape)
    elif role == "mask":
        v = rng.integers(0, 2, shape)
    elif dtype == "bool":
        v = rng.integers(0, 2, shape)
    else:
        v = rng.integers(0 if dtype.startswith("u") else -limit, limit + 1, shape)
    return np.asarray(v).astype(np.float64).astype(numpy_dtype(dtype))


__all__ = [
    "atomic", "atomic_tile", "choice", "copy", "fill", "gemm", "going", "grid", "larger", "num", "parallel", "part", "reduce", "scan",
    "smaller", "sort", "tensor", "tile", "transpose", "values", "view",
]  # fmt: skip
