"""Every tile op on every kind of operand: kernels, what NumPy makes of them, and which of them are refused.

An operand is a part of a container: the container lies in global memory, in a shared tile or in a fragment, is declared as it is used or is a
view of something of another shape or dtype; the part is all of it, a plane, some rows, some columns, or what stands at an element. What
surrounds the part has to stay what it was. The rows come from the records of the tile ops (`tile/table.py`): `UNTRIED` says why a record has
no row of its own.
"""

from __future__ import annotations

import functools
import random
import re
from dataclasses import dataclass

import ml_dtypes
import numpy as np

import tilelang_ascend.language as T
from tilelang_ascend import tile

M, N, K = 9, 20, 12
FLOATS = ("float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2")
INTEGERS = ("int32", "int64", "int8", "uint8", "int16", "uint16", "uint32")
DTYPES = (*FLOATS, *INTEGERS, "bool")
MEMORIES = ("gm", "shared", "fragment")
PARTS = ("whole", "plane", "rows", "columns", "element", "view", "bits", "bytes")
KINDS = tuple(f"{m}.{p}" for m in MEMORIES for p in PARTS)
CHIPS = ("a2", "a3", "a5")
SEEN = ("view", "bits", "bytes")
"""Parts whose container is a view: of one dimension, of another dtype of the same width, of bytes."""


def numpy_dtype(name):
    return np.dtype(getattr(ml_dtypes, name, None) or name)


def part_of(kind: str) -> str:
    return kind.split(".")[1]


def container(kind: str, shape: tuple) -> tuple:
    """Shape of the container of a part of `shape`."""
    return {
        "plane": (2, *shape), "rows": (shape[0] + 3, *shape[1:]), "columns": (*shape[:-1], shape[-1] + 7),
        "element": tuple(n + 4 for n in shape),
    }.get(part_of(kind), shape)  # fmt: skip


def place(kind: str, shape: tuple) -> tuple:
    """The slices of the part in its container."""
    part, own = part_of(kind), [slice(0, n) for n in shape]
    if part == "plane":
        return (1, *own)
    if part == "rows":
        return (slice(2, 2 + shape[0]), *own[1:])
    if part == "columns":
        return (*own[:-1], slice(3, 3 + shape[-1]))
    if part == "element":
        return tuple(slice(2, 2 + n) for n in shape)
    return tuple(own)


_SAME_BITS = {
    "float32": "int32", "int32": "float32", "uint32": "float32", "float16": "int16", "bfloat16": "int16", "int16": "float16", "uint16": "int16",
    "int8": "uint8", "uint8": "int8", "bool": "uint8", "float8_e4m3fn": "uint8", "float8_e5m2": "int8", "int64": "float64",
}  # fmt: skip


def stored(kind: str, shape: tuple, dtype: str) -> tuple:
    """(shape, dtype) of the storage behind a container."""
    shape, part = container(kind, shape), part_of(kind)
    if part == "view":
        return (int(np.prod(shape)),), dtype
    if part == "bits":
        return shape, _SAME_BITS[dtype]
    if part == "bytes":
        return (*shape[:-1], shape[-1] * numpy_dtype(dtype).itemsize), "uint8" if dtype != "uint8" else "int8"
    return shape, dtype


# ---- the ops ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Op:
    """`emit(s, d, o)` writes the op; `expected(s, d, o)` is what the destination holds then, from wide values.

    shapes: of source, destination, and of the third operand, a whole tile that varies not. result: dtype of the destination from that of the
    source. heads: operands ("s", "d") whose element stands for what begins there; elsewhere an element is one element, and all shapes are
    ones. needs_source, needs_destination: False if there is none. values_only: it takes numbers, no tiles. fresh: its destination is cleared,
    not loaded.
    """

    name: str
    record: tile.TileOp
    emit: object
    expected: object
    shapes: tuple = ((M, N), (M, N))
    dtypes: tuple = DTYPES
    result: object = lambda dtype: dtype
    heads: str = ""
    needs_source: bool = True
    needs_destination: bool = True
    values_only: bool = False
    fresh: bool = False


def _wide(x):
    return x.astype(np.float64) if x.dtype.kind not in "iub" else x.astype(np.int64)


def _reduce(kind, function, dim, dtypes, clear=True, join=None):
    shape = (N,) if dim == 0 else (M,)

    def expected(s, d, o):
        found = function(_wide(s), dim)
        return found if clear else join(found, _wide(d))

    def emit(s, d, o):
        T.reduce(s, d, kind, dim - 2, clear)

    return Op(f"reduce_{kind}{dim}{'' if clear else '_keep'}", tile.REDUCE, emit, expected, ((M, N), shape), dtypes)


NUMBERS = (*FLOATS, *INTEGERS)
SIGNED = tuple(d for d in NUMBERS if not d.startswith("uint"))
SORTED = tuple(d for d in NUMBERS if d != "int64")
UPDATED = ("float32", "float16", "bfloat16", "int32", "int16", "int8")
MULTIPLIED = ("float32", "float16", "bfloat16", "int8", "float8_e4m3fn", "float8_e5m2")


def _max(x, d):
    return x.max(d)


def _order(s):
    return np.argsort(-_wide(s), axis=-1, kind="stable")


def _sum_of(dtype):
    return "int32" if dtype == "int8" else "float32"


def _gemm(operand, turned=False, fresh=True):
    """A product in which one of the operands A and B varies, and C."""
    rows = M if operand == "A" else 16
    own, other = ((rows, K), (K, N)) if operand == "A" else ((K, N), (rows, K))
    own, other = (own[::-1], other[::-1]) if turned else (own, other)

    def emit(s, d, o):
        a, b = (s, o) if operand == "A" else (o, s)
        T.gemm(a, b, d, transpose_A=turned, transpose_B=turned)

    def expected(s, d, o):
        a, b = (_wide(x).T if turned else _wide(x) for x in ((s, o) if operand == "A" else (o, s)))
        return _wide(d) + a @ b

    name = f"gemm_{operand}{'_turned' if turned else ''}{'' if fresh else '_onto'}"
    return Op(name, tile.GEMM, emit, expected, (own, (rows, N), other), MULTIPLIED, _sum_of, fresh=fresh)


IMAGE = (1, 3, 4, 16)


def _patches(s, d, o):
    padded = np.zeros((1, 5, 6, 16), s.dtype)
    padded[:, 1:4, 1:5] = s
    rows = [padded[0, y : y + 3, x : x + 3].reshape(-1) for y in range(3) for x in range(4)]
    return np.concatenate([np.stack(rows)[:, :32], np.zeros((4, 32), s.dtype)])


def _atomic(name, record, function):
    return Op(
        f"atomic_{name}", record, lambda s, d, o: getattr(T, f"atomic_{name}")(d, s), lambda s, d, o: function(_wide(d), _wide(s)),
        dtypes=UPDATED, heads="d",
    )  # fmt: skip


def _shown(s, d, o):
    """Nothing is written."""
    return d


OPS = [
    Op("copy", tile.COPY, lambda s, d, o: T.copy(s, d), lambda s, d, o: s, heads="sd"),
    Op("fill", tile.FILL, lambda s, d, o: T.fill(d, 1), lambda s, d, o: np.ones_like(d), needs_source=False),
    Op("clear", tile.FILL, lambda s, d, o: T.clear(d), lambda s, d, o: np.zeros_like(d), needs_source=False),
    *(_reduce("sum", lambda x, d: x.sum(d), dim, NUMBERS) for dim in (0, 1)),
    *(_reduce("max", _max, dim, NUMBERS) for dim in (0, 1)),
    _reduce("min", lambda x, d: x.min(d), 1, NUMBERS),
    _reduce("absmax", lambda x, d: np.abs(x).max(d), 1, SIGNED),
    _reduce("abssum", lambda x, d: np.abs(x).sum(d), 0, SIGNED),
    _reduce("max", _max, 1, NUMBERS, False, np.maximum),
    _reduce("sum", lambda x, d: x.sum(d), 0, NUMBERS, False, np.add),
    _reduce("any", lambda x, d: (x != 0).any(d), 1, ("bool",)),
    _reduce("all", lambda x, d: (x != 0).all(d), 0, ("bool",)),
    *(_reduce(k, f, 1, INTEGERS) for k, f in (
        ("bitand", lambda x, d: np.bitwise_and.reduce(x, d)), ("bitor", lambda x, d: np.bitwise_or.reduce(x, d)),
        ("bitxor", lambda x, d: np.bitwise_xor.reduce(x, d)))),
    Op("cumsum0", tile.CUMSUM, lambda s, d, o: T.cumsum(s, d, dim=-2), lambda s, d, o: _wide(s).cumsum(0), dtypes=NUMBERS),
    Op("cumsum1", tile.CUMSUM, lambda s, d, o: T.cumsum(s, d, dim=-1, reverse=True), lambda s, d, o: _wide(s)[:, ::-1].cumsum(1)[:, ::-1], dtypes=NUMBERS),
    Op("cummax0", tile.CUMMAX, lambda s, d, o: T.cummax(s, d, dim=-2, reverse=True), lambda s, d, o: np.maximum.accumulate(_wide(s)[::-1], 0)[::-1], dtypes=NUMBERS),
    Op("cummax1", tile.CUMMAX, lambda s, d, o: T.cummax(s, d, dim=-1), lambda s, d, o: np.maximum.accumulate(_wide(s), 1), dtypes=NUMBERS),
    Op("sort", tile.ARGSORT, lambda s, d, o: T.sort(s, d, descending=True), lambda s, d, o: np.sort(_wide(s), 1)[:, ::-1], dtypes=SORTED),
    Op("topk", tile.ARGSORT, lambda s, d, o: T.topk(s, d), lambda s, d, o: np.sort(_wide(s), 1)[:, ::-1][:, :5], ((M, N), (M, 5)), SORTED),
    Op("argsort", tile.ARGSORT, lambda s, d, o: T.argsort(s, d, descending=True), lambda s, d, o: _order(s), dtypes=SORTED, result=lambda dtype: "int32"),
    _atomic("add", tile.ATOMIC_ADD, np.add), _atomic("max", tile.ATOMIC_MAX, np.maximum), _atomic("min", tile.ATOMIC_MIN, np.minimum),
    _gemm("A"), _gemm("B"), _gemm("A", True), _gemm("B", True), _gemm("A", fresh=False),
    Op("im2col", tile.IM2COL, lambda s, d, o: T.im2col(s, d, 0, 0, 3, 1, 1, 1), _patches, (IMAGE, (16, 32)), MULTIPLIED),
    Op("print", tile.PRINT, lambda s, d, o: T.print(s), _shown, needs_destination=False),
    Op("printf", tile.PRINTF, lambda s, d, o: T.printf("value = %f\n", T.cast(s, "float32")), _shown, ((1, 1), (1, 1)), needs_destination=False, values_only=True),
    Op("device_assert", tile.DEVICE_ASSERT, lambda s, d, o: T.device_assert(T.cast(s, "float32") < 100.0), _shown, ((1, 1), (1, 1)), needs_destination=False, values_only=True),
    Op("assume", tile.ASSUME, lambda s, d, o: T.assume(T.cast(s, "float32") < 100.0), _shown, ((1, 1), (1, 1)), needs_destination=False, values_only=True),
    # Element-wise nests that the front end writes: no records, but operands like theirs.
    Op("transpose", None, lambda s, d, o: T.transpose(s, d), lambda s, d, o: s.T, ((M, N), (N, M))),
    Op("exp", None, lambda s, d, o: T.exp(s, d), lambda s, d, o: np.exp(_wide(s)), dtypes=("float32", "float16", "bfloat16")),
]  # fmt: skip
BY_NAME = {op.name: op for op in OPS}
UNTRIED = {
    tile.ZERO_ACCUMULATOR: "made by fold_clears only, for products that start from zero: every row of gemm after a fill",
    tile.VIEW: "stands for no work: the parts `view`, `bits` and `bytes` of all other rows",
}


def values(shape, dtype, rng):
    if dtype == "bool":
        return rng.random(shape) < 0.7
    if dtype in FLOATS:
        return (rng.integers(-6, 7, shape) / 2).astype(numpy_dtype(dtype))
    return rng.integers(0 if dtype.startswith("uint") else -3, 4, shape).astype(dtype)


# ---- cases -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """One op on two operands."""

    op: str
    src: str
    dst: str
    dtype: str
    chip: str = "a2"

    def __str__(self) -> str:
        return "-".join((self.op, self.src, self.dst, self.dtype, self.chip))


def meaningful(op: Op, src: str, dst: str) -> bool:
    """An op that has no source or no destination is tried once for it; a value is an element."""
    if not op.needs_source and src != "gm.whole" or not op.needs_destination and dst != "gm.whole":
        return False
    return not op.values_only or part_of(src) == "element"


def shapes_of(op: Op, src: str, dst: str) -> tuple:
    """Shapes of the operands: ones if one of them is an element and stands for nothing else."""
    s, d, *other = op.shapes
    elements = {role for role, kind in (("s", src), ("d", dst)) if part_of(kind) == "element"}
    ones = tuple((1,) * len(shape) for shape in op.shapes)
    if op.name.startswith("atomic") and elements == {"s"}:
        return (ones[0], d)  # A number that meets every element.
    if elements and (elements == {"s", "d"} or elements - set(op.heads)) and op.record is not tile.IM2COL:
        return ones
    return op.shapes


def kernel(case: Case):
    """The kernel of one case: parameters X (storage of the source), Y (storage of the destination, in and out) and perhaps W (the third)."""
    op, dtype = BY_NAME[case.op], case.dtype
    result = op.result(dtype)
    shapes = shapes_of(op, case.src, case.dst)

    def operand(role, kind, tensor, shape, dtype, fresh=False):
        """The operand, and the tile to store at the end."""
        memory, part = kind.split(".")
        box = room = tensor
        if memory != "gm":
            alloc = T.alloc_fragment if memory == "fragment" else T.alloc_shared
            box = room = alloc(*rooms[role])
        if part in SEEN:
            box = T.view(box, shape, dtype)
        if memory != "gm" and fresh:
            T.clear(room)
        elif memory != "gm":
            T.copy(tensor, room)
        if part == "element":
            box = box[tuple(2 for _ in shape)]
        elif part in ("plane", "rows", "columns"):
            box = box[place(kind, shape)]
        return box, None if memory == "gm" else room

    rooms = {"s": stored(case.src, shapes[0], dtype), "d": stored(case.dst, shapes[1], result)}
    third = (shapes[2], dtype) if len(shapes) > 2 else ((1,), "int32")

    @T.prim_func
    def main(X: T.Tensor(*rooms["s"]), Y: T.Tensor(*rooms["d"]), W: T.Tensor(*third)):
        with T.Kernel(1):
            o = None
            if len(shapes) > 2:
                o = T.alloc_shared(*third)
                T.copy(W, o)
            s, _ = operand("s", case.src, X, shapes[0], dtype)
            d, box = operand("d", case.dst, Y, shapes[1], result, op.fresh)
            op.emit(s, d, o)
            if box is not None:
                T.copy(box, Y)

    return main


def arrays_of(case: Case, seed: int):
    """(arrays of the call, the destination as it should be, what is printed)."""
    rng, op = np.random.default_rng(seed), BY_NAME[case.op]
    result = op.result(case.dtype)
    shapes = shapes_of(op, case.src, case.dst)

    x, y = values(container(case.src, shapes[0]), case.dtype, rng), values(container(case.dst, shapes[1]), result, rng)
    w = values(shapes[2], case.dtype, rng) if len(shapes) > 2 else np.zeros(1, np.int32)
    if op.fresh:
        y[...] = 0
    want = y.copy()
    at, source = place(case.dst, shapes[1]), x[place(case.src, shapes[0])]
    with np.errstate(all="ignore"):
        want[at] = np.asarray(op.expected(source, want[at], w)).astype(numpy_dtype(result))

    def storage(kind, array, shape, dtype):
        room, named = stored(kind, shape, dtype)
        return np.ascontiguousarray(array).reshape(-1).view(numpy_dtype(named)).reshape(room)

    arrays = {"X": storage(case.src, x, shapes[0], case.dtype), "Y": storage(case.dst, y, shapes[1], result), "W": w}
    # Chips without 8-bit floats print their bytes, and say so; a scalar is a number.
    bytes_of = (
        source.view(np.uint8)
        if op.name == "print" and case.dtype.startswith("float8") and case.chip != "a5" and part_of(case.src) != "element"
        else source
    )
    shown = [float(v) for v in bytes_of.reshape(-1)] if op.name in ("print", "printf") else []
    return arrays, want, shown


def seen(case: Case, array: np.ndarray) -> np.ndarray:
    """The destination in its own shape and dtype."""
    op = BY_NAME[case.op]
    shapes = shapes_of(op, case.src, case.dst)
    return array.reshape(-1).view(numpy_dtype(op.result(case.dtype))).reshape(container(case.dst, shapes[1]))


# ---- what is refused -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Refusal:
    """Cases that have no lowering: all of `op`, `src`, `dst`, `dtype`, `chip` match; `says` is in the error; `why` is for the reader."""

    why: str
    says: str
    op: str = ".*"
    src: str = ".*"
    dst: str = ".*"
    dtype: str = ".*"
    chip: str = ".*"
    unless: object = None

    def meets(self, case: Case) -> bool:
        fields = ("op", "src", "dst", "dtype", "chip")
        return all(re.fullmatch(getattr(self, f), getattr(case, f)) for f in fields) and not (self.unless and self.unless(case))


def _ranks_agree(case: Case) -> bool:
    """A plane keeps its dimension of one; a reduction to one row may give a row or a plane of one row."""
    source, target = (part_of(kind) == "plane" for kind in (case.src, case.dst))
    one_row = re.match("reduce_[a-z]+0", case.op) or case.op.startswith("reduce") and "element" in case.src
    return source == target or target and bool(one_row)


_ON_CHIP = r"(shared|fragment)\..*"
REFUSED = [
    Refusal("a plane of a tile of three dimensions has three: what counts dimensions has as many on both sides", "different shapes|the destination is",
            op="reduce.*|cumsum.*|cummax.*|sort|topk|argsort", unless=_ranks_agree),
    Refusal("the cube core reads and writes tiles; what is to be multiplied is named by the kernel", "is in global memory", op="gemm.*", dst=r"gm\..*"),
    Refusal("the cube core reads and writes tiles; what is to be multiplied is named by the kernel", "is in global memory", op="gemm.*", src=r"gm\..*"),
    Refusal("patches are taken from a tensor in global memory", "needs a global tensor of shape", op="im2col", src=_ON_CHIP),
    Refusal("an image has its four dimensions", "needs a global tensor of shape", op="im2col", src=".*(plane|rows|columns|element)"),
    Refusal("patches fill a whole tile", "needs a two-dimensional tile to fill", op="im2col", dst=r"gm\..*"),
    Refusal("patches fill a whole tile", "needs a two-dimensional tile to fill", op="im2col", dst=".*(plane|rows|columns|element)"),
]  # fmt: skip


def refusals(case: Case) -> list[Refusal]:
    """The rows of the table that a case meets; which of them the compiler finds first is open."""
    return [r for r in REFUSED if r.meets(case)]


FOUND = [
    Case("copy", "fragment.bits", "shared.bits", "bool"),  # bytes seen as truth values
    Case("exp", "gm.element", "gm.element", "float32"),  # only instructions that are bound stand behind the nests
    Case("exp", "fragment.plane", "shared.element", "bfloat16", "a5"),  # was no store at all
    Case("exp", "fragment.element", "fragment.bits", "float32"),  # a function of a scalar, seen as an integer
    Case("topk", "shared.plane", "fragment.rows", "int32"),  # was an IndexError
    Case("copy", "gm.whole", "shared.bits", "int64", "a5"),  # float64 is moved as words
    Case("reduce_absmax1", "fragment.bits", "fragment.bits", "int64"),  # and read as such
    Case("cumsum1", "shared.bits", "gm.element", "int64", "a5"),  # also where it is one element
    Case("reduce_bitxor1", "gm.bytes", "gm.bits", "int64"),  # a tensor that is written as words is written
    Case("atomic_max", "gm.columns", "fragment.bits", "int16", "a5"),  # bits that are no number went through a float register
    Case("reduce_absmax1", "shared.element", "shared.bits", "int64"),  # one element of float64 storage is moved as bits, too
]
"""Cases that failed once."""


# ---- which cases run -------------------------------------------------------------------------------------------------


def all_cases(chips=CHIPS):
    """The whole product."""
    for op in OPS:
        pairs = [(s, d) for s in KINDS for d in KINDS if meaningful(op, s, d)]
        yield from (Case(op.name, s, d, dtype, chip) for s, d in pairs for dtype in op.dtypes for chip in chips)


@functools.lru_cache
def sample(count: int, seed: int = 5) -> list[Case]:
    """Every kind of operand of every record, in source and destination, every dtype and every chip it is tried on; then as many of the rest
    as there is room for. Which ops of a record, and what is opposite, is drawn."""
    rng, chosen = random.Random(seed), list(FOUND)

    def drawn(ops, **fixed):
        op = rng.choice(ops)
        pairs = [(s, d) for s in KINDS for d in KINDS if meaningful(op, s, d) and fixed.get("src", s) == s and fixed.get("dst", d) == d]
        if pairs:
            src, dst = rng.choice(pairs)
            chosen.append(Case(op.name, src, dst, fixed.get("dtype") or rng.choice(op.dtypes), rng.choice(CHIPS)))

    by_record: dict = {}
    for op in OPS:
        by_record.setdefault(op.record, []).append(op)
    for ops in by_record.values():
        for kind in KINDS:
            drawn(ops, src=kind)
            drawn(ops, dst=kind)
    rest = chosen[len(FOUND) :]
    rng.shuffle(rest)
    chosen[len(FOUND) :] = rest[: count - len(FOUND) - len(DTYPES) * 2]
    for dtype in DTYPES:
        drawn([op for op in OPS if dtype in op.dtypes], dtype=dtype)
        drawn([op for op in OPS if dtype in op.dtypes and op.record is tile.COPY], dtype=dtype)
    # Every row of the table of refusals is met.
    for row in REFUSED:
        while not any(row.meets(c) for c in chosen):
            drawn([op for op in OPS if re.fullmatch(row.op, op.name)])
            if not row.meets(chosen[-1]):
                chosen.pop()
    return list(dict.fromkeys(chosen))
