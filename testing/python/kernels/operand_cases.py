"""Every tile op on every kind of operand: kernels and what NumPy makes of them.

An operand is a part of a container: the container lies in global memory, in a shared tile or in a fragment, and the part is all of it, a
plane, some rows or some columns. What surrounds the part has to stay what it was.
"""

from __future__ import annotations

from dataclasses import dataclass

import ml_dtypes
import numpy as np

import tilelang_ascend.language as T

M, N = 9, 20
FLOATS = ("float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2")
INTEGERS = ("int32", "int64", "int8", "uint8", "int16", "uint16", "uint32")
DTYPES = (*FLOATS, *INTEGERS, "bool")
MEMORIES = ("gm", "shared", "fragment")
PARTS = ("whole", "plane", "rows", "columns")
KINDS = tuple(f"{m}.{p}" for m in MEMORIES for p in PARTS) + ("gm.strided", "shared.view", "shared.bits")


def numpy_dtype(name):
    return np.dtype(getattr(ml_dtypes, name, None) or name)


def container(kind: str, shape: tuple) -> tuple:
    """Shape of the container of a part of `shape`."""
    part = kind.split(".")[1]
    return {
        "plane": (2, *shape), "rows": (shape[0] + 3, *shape[1:]), "columns": (*shape[:-1], shape[-1] + 7),
    }.get(part, shape)  # fmt: skip


def place(kind: str, shape: tuple) -> tuple:
    """The slices of the part in its container."""
    part, own = kind.split(".")[1], [slice(0, n) for n in shape]
    if part == "plane":
        return (1, *own)
    if part == "rows":
        return (slice(2, 2 + shape[0]), *own[1:])
    if part == "columns":
        return (*own[:-1], slice(3, 3 + shape[-1]))
    return tuple(own)


@dataclass(frozen=True)
class Op:
    """`emit(s, d)` writes the op; `expected(s, d)` is what the destination holds then, from wide values. `shapes`: of source and
    destination; `result`: dtype of the destination."""

    name: str
    emit: object
    expected: object
    shapes: tuple
    dtypes: tuple = DTYPES
    result: object = None
    source: bool = True


def _wide(x):
    return x.astype(np.float64) if x.dtype.kind not in "iub" else x.astype(np.int64)


def _reduce(kind, function, dim, dtypes, clear=True, join=None):
    shape = (N,) if dim == 0 else (M,)

    def expected(s, d):
        found = function(_wide(s), dim)
        return found if clear else join(found, _wide(d))

    return Op(f"reduce_{kind}{dim}{'' if clear else '_keep'}", lambda s, d: T.reduce(s, d, kind, dim - 2, clear), expected, ((M, N), shape), dtypes)


NUMBERS = (*FLOATS, *INTEGERS)
SIGNED = tuple(d for d in NUMBERS if not d.startswith("uint"))
SORTED = tuple(d for d in NUMBERS if d != "int64")


def _max(x, d):
    return x.max(d)


def _order(s):
    return np.argsort(-_wide(s), axis=-1, kind="stable")


OPS = [
    Op("copy", lambda s, d: T.copy(s, d), lambda s, d: s, ((M, N), (M, N))),
    Op("fill", lambda s, d: T.fill(d, 1), lambda s, d: np.ones_like(d), ((M, N), (M, N)), source=False),
    Op("clear", lambda s, d: T.clear(d), lambda s, d: np.zeros_like(d), ((M, N), (M, N)), source=False),
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
    Op("cumsum0", lambda s, d: T.cumsum(s, d, dim=-2), lambda s, d: _wide(s).cumsum(0), ((M, N), (M, N)), NUMBERS),
    Op("cumsum1", lambda s, d: T.cumsum(s, d, dim=-1, reverse=True), lambda s, d: _wide(s)[:, ::-1].cumsum(1)[:, ::-1], ((M, N), (M, N)), NUMBERS),
    Op("cummax1", lambda s, d: T.cummax(s, d, dim=-1), lambda s, d: np.maximum.accumulate(_wide(s), 1), ((M, N), (M, N)), NUMBERS),
    Op("sort", lambda s, d: T.sort(s, d, descending=True), lambda s, d: np.sort(_wide(s), 1)[:, ::-1], ((M, N), (M, N)), SORTED),
    Op("topk", lambda s, d: T.topk(s, d), lambda s, d: np.sort(_wide(s), 1)[:, ::-1][:, :5], ((M, N), (M, 5)), SORTED),
    Op("argsort", lambda s, d: T.argsort(s, d, descending=True), lambda s, d: _order(s), ((M, N), (M, N)), SORTED, "int32"),
    Op("transpose", lambda s, d: T.transpose(s, d), lambda s, d: s.T, ((M, N), (N, M))),
    Op("exp", lambda s, d: T.exp(s, d), lambda s, d: np.exp(_wide(s)), ((M, N), (M, N)), ("float32", "float16", "bfloat16")),
    Op("atomic_add", lambda s, d: T.atomic_add(d, s), lambda s, d: _wide(s) + _wide(d), ((M, N), (M, N)), ("float32", "float16", "bfloat16", "int32", "int16", "int8")),
    Op("atomic_max", lambda s, d: T.atomic_max(d, s), lambda s, d: np.maximum(_wide(s), _wide(d)), ((M, N), (M, N)), ("float32", "float16", "bfloat16", "int32", "int16", "int8")),
]  # fmt: skip
BY_NAME = {op.name: op for op in OPS}


def values(shape, dtype, rng):
    if dtype == "bool":
        return rng.random(shape) < 0.7
    if dtype in FLOATS:
        return (rng.integers(-6, 7, shape) / 2).astype(numpy_dtype(dtype))
    return rng.integers(0 if dtype.startswith("uint") else -3, 4, shape).astype(dtype)


def legal(op: Op, src: str, dst: str, dtype: str) -> bool:
    if dtype not in op.dtypes or not op.source and src != "gm.whole":
        return False
    if op.name.startswith("atomic") and not dst.startswith("gm"):
        return False
    if op.name not in ("copy", "fill", "clear", "transpose", "exp") and not op.name.startswith("atomic"):
        # These count the dimensions of an operand, and a plane has three.
        return src.endswith("plane") == dst.endswith("plane")
    return True


_SAME_BITS = {"float32": "int32", "int32": "float32", "float16": "int16", "bfloat16": "int16", "int16": "float16", "int8": "uint8", "uint8": "int8"}


def strides_of(shape):
    """Rows with gaps."""
    return (shape[-1] + 5, 1) if len(shape) == 2 else (2,) * len(shape)


def _tensor(kind, shape, dtype):
    if kind == "gm.strided":
        return T.StridedTensor(shape, strides_of(shape), dtype)
    return T.Tensor(container(kind, shape), dtype)


def kernel(op: Op, src: str, dst: str, dtype: str):
    """The kernel of one case: parameters X (container of the source) and Y (container of the destination, in and out)."""
    s_shape, d_shape = op.shapes
    result = op.result or dtype

    def operand(kind, tensor, shape, dtype):
        """The operand, and the tile to store at the end."""
        memory, part = kind.split(".")
        if memory == "gm":
            return (tensor if part in ("whole", "strided") else tensor[place(kind, shape)]), None
        alloc = T.alloc_fragment if memory == "fragment" else T.alloc_shared
        if part == "view":
            flat = alloc((int(np.prod(shape)),), dtype)
            box = T.reshape(flat, shape)
            T.copy(tensor, box)
            return box, box
        if part == "bits" and dtype in _SAME_BITS:
            other = alloc(shape, _SAME_BITS[dtype])
            box = T.view(other, shape, dtype)
            T.copy(tensor, box)
            return box, box
        box = alloc(container(kind, shape), dtype)
        T.copy(tensor, box)
        return (box if part in ("whole", "bits") else box[place(kind, shape)]), box

    @T.prim_func
    def main(X: _tensor(src, s_shape, dtype), Y: _tensor(dst, d_shape, result)):
        with T.Kernel(1):
            s, _ = operand(src, X, s_shape, dtype)
            d, box = operand(dst, Y, d_shape, result)
            op.emit(s, d)
            if box is not None:
                T.copy(box, Y)

    return main


def arrays_of(op: Op, src: str, dst: str, dtype: str, seed: int):
    """(arrays of the call, the destination as it should be)."""
    rng = np.random.default_rng(seed)
    result = op.result or dtype

    def array(kind, shape, dtype):
        if kind != "gm.strided":
            return values(container(kind, shape), dtype, rng)
        steps = strides_of(shape)
        room = values((sum((n - 1) * k for n, k in zip(shape, steps)) + 1,), dtype, rng)
        return np.lib.stride_tricks.as_strided(room, shape, [k * room.itemsize for k in steps])

    x, y = array(src, op.shapes[0], dtype), array(dst, op.shapes[1], result)
    want = y.copy()
    at = place(dst, op.shapes[1])
    with np.errstate(all="ignore"):
        want[at] = np.asarray(op.expected(x[place(src, op.shapes[0])], want[at])).astype(numpy_dtype(result))
    return {"X": x, "Y": y}, want
