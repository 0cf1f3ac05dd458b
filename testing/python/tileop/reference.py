"""Meaning of a parallel nest: NumPy over all lanes, statement by statement. Independent of the code under test."""

from __future__ import annotations

import numpy as np

from tilelang_ascend import ir
from tilelang_ascend.ir import Bind, BufferStore, For, IfThenElse, SeqStmt, TensorLoad, Var, dtype_of, op_name, tirx
from tilelang_ascend.isa.semantics.memory import np_dtype


def run_nest(stmt, arrays: dict, scalars=None) -> None:
    """Execute a nest on `arrays` (buffer -> array, changed in place)."""
    axes, extents, body = [], [], stmt
    while isinstance(body, For) and body.kind == ir.ForKind.PARALLEL:
        axes.append(body.loop_var)
        extents.append(int(body.extent))
        body = body.body
    lanes = np.indices(extents).reshape(len(extents), -1)
    env = {v: lanes[k].astype(np.int64) for k, v in enumerate(axes)}
    env.update(scalars or {})
    _Lanes(arrays, env).statement(body, np.ones(lanes.shape[1], bool))


class _Lanes:
    def __init__(self, arrays, env):
        self.arrays, self.env = arrays, env

    def statement(self, s, active) -> None:
        if isinstance(s, SeqStmt):
            for x in s.seq:
                self.statement(x, active)
        elif isinstance(s, Bind):
            self.env[s.var] = self.value(s.value, active)
        elif isinstance(s, BufferStore):
            value = np.broadcast_to(self.value(s.value, active), active.shape)
            index = tuple(np.broadcast_to(self.value(i, active), active.shape)[active] for i in s.indices)
            self.arrays[s.buffer][index] = convert(value[active], dtype_of(s.buffer))
        elif isinstance(s, IfThenElse):
            cond = np.broadcast_to(self.value(s.condition, active), active.shape).astype(bool)
            self.statement(s.then_case, active & cond)
            if s.else_case is not None:
                self.statement(s.else_case, active & ~cond)
        elif isinstance(s, For):
            for k in range(int(s.extent)):
                self.env[s.loop_var] = k
                self.statement(s.body, active)
        else:
            assert False, type(s).__name__

    def value(self, e, active):
        if isinstance(e, (ir.IntImm, ir.FloatImm)):
            return convert(np.asarray(e.value), dtype_of(e))
        if isinstance(e, Var):
            return self.env[e]
        if isinstance(e, TensorLoad):
            array = self.arrays[e.source]
            index = [np.broadcast_to(self.value(i, active), active.shape) for i in e.indices]
            inside = tuple(np.clip(i, 0, n - 1) for i, n in zip(index, array.shape))
            return array[inside]
        if isinstance(e, tirx.Cast):
            return convert(self.value(e.value, active), dtype_of(e))
        if isinstance(e, tirx.Not):
            return ~self.value(e.a, active).astype(bool)
        name = (op_name(e) or "").split(".")[-1]
        if name == "if_then_else":
            return np.where(*(self.value(a, active) for a in e.args))
        if name:
            return convert(_FUNCTIONS[name](*(self.value(a, active).astype(np.float64) for a in e.args)), dtype_of(e))
        a, b = self.value(e.a, active), self.value(e.b, active)
        with np.errstate(all="ignore"):
            if type(e) in _LOGIC:
                return _LOGIC[type(e)](wide(a), wide(b))
            return convert(_ARITHMETIC[type(e)](wide(a), wide(b)), dtype_of(e))


def wide(x):
    """Values in float64 / int64, where one operation is exact enough to round once."""
    x = np.asarray(x)
    return x.astype(np.int64 if x.dtype.kind in "iub" else np.float64)


def convert(x, dtype: str):
    """Truncation for float to integer, wrap-around for integers, round to nearest even for floats."""
    x = np.asarray(x)
    with np.errstate(all="ignore"):
        if dtype == "bool":
            return x.astype(bool)
        if dtype.startswith(("int", "uint")):
            return (np.trunc(x) if x.dtype.kind == "f" else x).astype(np.int64).astype(np_dtype(dtype))
        if dtype == "bfloat16":
            return x.astype(np.float32).astype(np_dtype(dtype))
        return x.astype(np_dtype(dtype))


_ARITHMETIC = {
    tirx.Add: np.add, tirx.Sub: np.subtract, tirx.Mul: np.multiply, tirx.Div: np.divide, tirx.Min: np.minimum, tirx.Max: np.maximum,
    tirx.FloorDiv: np.floor_divide, tirx.FloorMod: np.mod,
}  # fmt: skip
_LOGIC = {tirx.LT: np.less, tirx.LE: np.less_equal, tirx.GT: np.greater, tirx.GE: np.greater_equal, tirx.EQ: np.equal, tirx.NE: np.not_equal,
          tirx.And: np.logical_and, tirx.Or: np.logical_or}  # fmt: skip
_FUNCTIONS = {"exp": np.exp, "fabs": np.abs, "sqrt": np.sqrt, "tanh": np.tanh, "floor": np.floor}
