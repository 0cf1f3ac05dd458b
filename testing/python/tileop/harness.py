"""Run the statements of a lowered vector nest with the NumPy semantics of the instruction table.

UB starts as 0xFF bytes (NaN as float), buffers are separated by guard bytes, every operand is checked against the buffer it names
and every instruction against the rules of the table.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import ml_dtypes  # noqa: F401  registers bfloat16 with numpy
import numpy as np

from tilelang_ascend import ir, isa
from tilelang_ascend.arch import get_chip
from tilelang_ascend.ir import (
    AllocBuffer,
    Bind,
    BufferStore,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    SeqStmt,
    Var,
    decl_buffer,
    dtype_of,
    imm,
    itemsize,
    op_name,
    operand_parts,
    tirx,
)  # fmt: skip
from tilelang_ascend.isa import rules, semantics
from tilelang_ascend.isa.semantics.memory import np_dtype
from tilelang_ascend.isa.units import round_up
from tilelang_ascend.tileop.base.context import UbLayout, VectorContext, pitched_strides

GUARD = 256
UB_BYTES = 4 << 20
"""More than a chip has: the harness does not pack temporaries."""


def tile(shape, dtype: str, name: str):
    """A tile buffer in UB."""
    return decl_buffer(tuple(shape), dtype, name, scope="shared.ub")


def parallel(extents, build, span=None):
    """`for i, j, … in T.Parallel(*extents): build(i, j, …)`; build returns a statement or a list."""
    variables = [Var(n, "int32") for n in "ijkl"[: len(extents)]]
    body = ir.seq(build(*variables))
    for k, (v, n) in reversed(list(enumerate(zip(variables, extents)))):
        notes = {"tl.parallel": len(extents)} if k == 0 else {}
        body = For(v, imm(0), ir.as_expr(n), ForKind.PARALLEL, body, annotations=notes, span=span)
    return body


def assign(buffer, value, *indices):
    """`buffer[indices] = value`, cast to the buffer's dtype as the front end does."""
    dtype = dtype_of(buffer)
    value = ir.as_expr(value, dtype)
    if dtype_of(value) != dtype:
        value = tirx.Cast(dtype, value)
    return BufferStore(buffer, value, [ir.as_expr(i) for i in indices])


@dataclass
class Lab:
    """Tiles with their values, and the context the lowering needs.

    >>> lab = Lab(x=("float32", np.ones((4, 8)))); lab.run(parallel((4, 8), lambda i, j: assign(lab.x, lab.x[i, j] + 1.0, i, j)))
    """

    tiles: dict = field(default_factory=dict)
    chip: object = None
    versions: int = 1
    version: object = 0

    def __init__(self, chip: str = "Ascend910B1", versions: int = 1, version=0, **arrays):
        self.chip, self.versions, self.version = get_chip(chip), versions, version
        self.warnings: list[str] = []
        self.temps: list = []
        self.arrays: dict = {}
        self.tiles = {}
        for name, (dtype, array) in arrays.items():
            array = np.asarray(array)
            self.arrays[name] = array.astype(np_dtype(dtype)) if array.dtype != object else array
            self.tiles[name] = tile(array.shape, dtype, name)
        self.pitch_unit = 32 // min((itemsize(dtype_of(t)) for t in self.tiles.values()), default=4)
        self.layouts = {}
        for name, t in self.tiles.items():
            shape = tuple(int(n) for n in t.ty.shape)
            strides = pitched_strides(shape, self.pitch_unit)
            elements = strides[0] * shape[0] if len(shape) > 1 else shape[0]
            buffer = decl_buffer((versions, round_up(elements, 32)), dtype_of(t), name, scope="shared.ub")
            self.layouts[t] = UbLayout(buffer, version, shape, strides, round_up(elements, 32))

    def __getattr__(self, name):
        tiles = self.__dict__.get("tiles", {})
        if name in tiles:
            return tiles[name]
        raise AttributeError(name)

    def _new_temp(self, dtype, elements, name):
        buffer = decl_buffer((1, elements), dtype, name, scope="shared.ub")
        self.temps.append(buffer)
        return buffer

    def context(self) -> VectorContext:
        """What the code under test gets."""
        return VectorContext(
            self.chip,
            lambda b: self.layouts[b],
            self._new_temp,
            lambda span, m: self.warnings.append(m),
            self.pitch_unit,
        )

    def lower(self, stmt, fn=None):
        """Ascend IR of a statement."""
        from tilelang_ascend.tileop.vector.nest.parallel import lower_parallel

        return (fn or lower_parallel)(stmt, self.context())

    def run(self, stmt, scalars=None, fn=None, expect_scalar: bool = False) -> dict:
        """Lower, execute, and return all tiles. Fails when the lowering fell back to scalar loops unannounced."""
        self.lowered = self.lower(stmt, fn)
        if not expect_scalar:
            assert not self.warnings, self.warnings
        self.machine = Interpreter(self, dict(scalars or {}))
        self.machine.execute(self.lowered)
        return {name: self.machine.result(t) for name, t in self.tiles.items()}

    @property
    def instructions(self) -> list[str]:
        """Names of the vector instructions executed."""
        return [n for n in self.machine.trace if n not in ("get_value", "set_value")]


class Interpreter:
    """Executes Ascend IR statements on one UB."""

    def __init__(self, lab: Lab, env: dict):
        self.lab, self.env, self.trace = lab, env, []
        self.ub = np.full(UB_BYTES, 0xFF, np.uint8)
        self.address: dict = {}
        self.scalar_vars: dict = {}
        at = 0
        for buffer in [x.buffer for x in lab.layouts.values()] + lab.temps:
            self.address[buffer] = at + GUARD
            versions, elements = (int(n) for n in buffer.ty.shape)
            assert elements * itemsize(dtype_of(buffer)) % 32 == 0, f"{buffer.name} is not a whole number of blocks"
            at = round_up(at + GUARD + versions * elements * itemsize(dtype_of(buffer)), 32)
        assert at + GUARD <= UB_BYTES, f"the test needs {at} bytes of UB"
        for name, t in lab.tiles.items():
            self._write(t, lab.arrays[name])
        self.before = self.ub.copy()

    def _element_offsets(self, t):
        layout = self.lab.layouts[t]
        index = np.indices(layout.shape).reshape(len(layout.shape), -1)
        offsets = (index * np.array(layout.strides)[:, None]).sum(axis=0)
        version = self.value(layout.version) if not isinstance(layout.version, int) else layout.version
        return self.address[layout.buffer] + (version * int(layout.buffer.ty.shape[1]) + offsets) * itemsize(dtype_of(t))

    def _write(self, t, array) -> None:
        size = itemsize(dtype_of(t))
        raw = np.ascontiguousarray(array).astype(np_dtype(dtype_of(t))).view(np.uint8).reshape(-1, size)
        self.ub[self._element_offsets(t)[:, None] + np.arange(size)] = raw

    def result(self, t) -> np.ndarray:
        """The present value of a tile; checks that guard bytes are untouched."""
        inside = np.zeros(UB_BYTES, bool)
        for buffer, at in self.address.items():
            inside[at : at + int(np.prod([int(n) for n in buffer.ty.shape])) * itemsize(dtype_of(buffer))] = True
        assert (self.ub[~inside] == 0xFF).all(), "bytes outside all buffers were written"
        size = itemsize(dtype_of(t))
        raw = self.ub[self._element_offsets(t)[:, None] + np.arange(size)]
        return raw.reshape(-1).view(np_dtype(dtype_of(t))).reshape([int(n) for n in t.ty.shape])

    # -- statements ---------------------------------------------------------------------------------------------------

    def execute(self, s) -> None:
        getattr(self, "do_" + type(s).__name__)(s)

    def do_SeqStmt(self, s: SeqStmt) -> None:
        for x in s.seq:
            self.execute(x)

    def do_For(self, s: For) -> None:
        assert s.kind == ForKind.SERIAL, "a parallel loop in Ascend IR"
        for k in range(self.value(s.extent)):
            self.env[s.loop_var] = k
            self.execute(s.body)

    def do_IfThenElse(self, s: IfThenElse) -> None:
        if self.value(s.condition):
            self.execute(s.then_case)
        elif s.else_case is not None:
            self.execute(s.else_case)

    def do_Bind(self, s: Bind) -> None:
        if op_name(s.value) == "ascend.get_value":
            self.env[s.var] = self.issue(s.value)
        else:
            self.env[s.var] = self.value(s.value)

    def do_AllocBuffer(self, s: AllocBuffer) -> None:
        self.scalar_vars[s.buffer] = None

    def do_BufferStore(self, s: BufferStore) -> None:
        assert s.buffer in self.scalar_vars, "an element store in Ascend IR"
        self.scalar_vars[s.buffer] = self.value(s.value)

    def do_Evaluate(self, s: Evaluate) -> None:
        if not isinstance(s.value, ir.IntImm):
            self.issue(s.value)

    def issue(self, call):
        name = op_name(call).removeprefix("ascend.")
        record = isa.lookup(name)
        n = len(record.operands)
        operands, dtypes = [], []
        for arg in call.args[:n]:
            load, dtype = operand_parts(arg)
            version, offset = (self.value(i) for i in load.indices)
            per_version = int(load.source.ty.shape[1])
            assert 0 <= version < int(load.source.ty.shape[0]) and 0 <= offset < per_version, f"{name}: {load}"
            operands.append((load.source, offset * itemsize(dtype_of(load.source)), version))
            dtypes.append(dtype)
        args = [self.value(a) for a in call.args[n:]]
        attrs = {k: str(v) for k, v in (ir.attrs_of(call) if call.attrs else {}).items()}
        # Rounding to the operand dtype is the duty of the caller of the machine (docs/ir.md section 4).
        if dtypes and dtypes[0].startswith(("float", "bfloat")):
            args = [float(np.asarray(v).astype(np_dtype(dtypes[-1]))) if a.kind == "float" else v for a, v in zip(record.args, args)]
        bound = record.bind(dtypes, [None if isinstance(a, float) else a for a in args], attrs)
        problem = rules.check(bound)
        assert problem is None, problem
        placed = []
        for k, (buffer, offset, version) in enumerate(operands):
            nbytes = int(buffer.ty.shape[1]) * itemsize(dtype_of(buffer))
            for index, _, lo, hi in record.footprint(bound) if name not in ("get_value", "set_value") else ():
                if index == k and hi is not None:
                    assert 0 <= offset + lo and offset + hi <= nbytes, f"{name}: operand {k} leaves {buffer.name}: {offset}+{hi} > {nbytes}"
            at = self.address[buffer] + version * nbytes + offset
            align = record.operands[k].alignment(isa.Space.UB, dtypes[k]) if name not in ("get_value", "set_value") else 1
            assert offset % align == 0, f"{name}: operand {k} at byte {offset} is not {align}-byte aligned"
            placed.append(("UB", dtypes[k], at))
        self.trace.append(name)
        with np.errstate(all="ignore"):
            return semantics.execute(name, {"UB": self.ub}, placed, args, attrs)

    # -- scalar expressions -------------------------------------------------------------------------------------------

    def value(self, e):
        """Value of a scalar expression."""
        if isinstance(e, (int, float)):
            return e
        if isinstance(e, (ir.IntImm, ir.FloatImm)):
            return e.value
        if isinstance(e, ir.TensorLoad):
            return self.scalar_vars[e.source]
        if isinstance(e, Var):
            return self.env[e] if e in self.env else self.env[e.name]
        if isinstance(e, tirx.Cast):
            v = self.value(e.value)
            dtype = dtype_of(e)
            return self._rounded(int(v) if dtype.startswith(("int", "uint", "bool")) else v, dtype)
        if isinstance(e, tirx.Not):
            return not self.value(e.a)
        if isinstance(e, tirx.Select):
            return self.value(e.true_value) if self.value(e.condition) else self.value(e.false_value)
        if (op_name(e) or "").endswith(".if_then_else"):
            return self.value(e.args[1]) if self.value(e.args[0]) else self.value(e.args[2])
        if op_name(e) is not None:
            return _FUNCTIONS[op_name(e).split(".")[-1]](*(self.value(a) for a in e.args))
        if (name := _BIT_CLASSES.get(type(e).__name__)) is not None:
            return _FUNCTIONS[name](*(self.value(x) for x in ((e.a, e.b) if hasattr(e, "b") else (e.a,))))
        return self._rounded(_OPERATORS[type(e)](self.value(e.a), self.value(e.b)), dtype_of(e))

    @staticmethod
    def _rounded(v, dtype: str):
        if dtype in ("float16", "bfloat16", "float32"):
            return float(np.asarray(v).astype(np_dtype(dtype)))
        if dtype.startswith(("int", "uint")) and not isinstance(v, bool):
            return int(np.asarray(int(v) & 0xFFFFFFFFFFFFFFFF, np.uint64).astype(np_dtype(dtype)))
        return v


def _divide(a, b):
    if isinstance(a, int) and isinstance(b, int):
        return int(a / b)
    return float(np.float64(a) / np.float64(b)) if b else math.copysign(math.inf, a)


_OPERATORS = {
    tirx.Add: lambda a, b: a + b, tirx.Sub: lambda a, b: a - b, tirx.Mul: lambda a, b: a * b, tirx.Div: _divide,
    tirx.FloorDiv: lambda a, b: a // b, tirx.FloorMod: lambda a, b: a % b, tirx.Min: min, tirx.Max: max,
    tirx.LT: lambda a, b: a < b, tirx.LE: lambda a, b: a <= b, tirx.GT: lambda a, b: a > b, tirx.GE: lambda a, b: a >= b,
    tirx.EQ: lambda a, b: a == b, tirx.NE: lambda a, b: a != b, tirx.And: lambda a, b: a and b, tirx.Or: lambda a, b: a or b,
}  # fmt: skip
_FUNCTIONS = {
    "exp": math.exp, "sqrt": math.sqrt, "likely": lambda x: x, "bitwise_and": lambda a, b: a & b, "bitwise_or": lambda a, b: a | b,
    "bitwise_xor": lambda a, b: a ^ b, "bitwise_not": lambda a: ~a, "shift_left": lambda a, b: a << b, "shift_right": lambda a, b: a >> b,
}  # fmt: skip

_BIT_CLASSES = {
    "BitwiseAnd": "bitwise_and", "BitwiseOr": "bitwise_or", "BitwiseXor": "bitwise_xor", "BitwiseNot": "bitwise_not",
    "LShift": "shift_left", "RShift": "shift_right",
}  # fmt: skip
