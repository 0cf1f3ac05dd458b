"""Reference interpreter of Tile IR: what a kernel means, in plain NumPy, one element at a time.

`run(func, *tensors_and_scalars)` executes a `PrimFunc` of Tile IR on NumPy arrays, in place, blocks in grid order. It
shares no code with the compiler, so it can judge every later stage; it is slow (about a million elements per minute)
and meant for small shapes.

Rules (docs/ir.md, section 1): on-chip memory starts as NaN (integers: a pattern), elements of GM outside a tensor
read as zero in tile operations and are not written, and are an error in element accesses; arithmetic happens in the
dtype of the expression, functions such as exp in float64 rounded once; gemm and sums accumulate in float32 (integers:
int32) and are rounded once.
"""

from __future__ import annotations

import math
import operator
from typing import Any, Callable

import ml_dtypes
import numpy as np

from ..analysis.safe_values import safe_values
from ..ir import const_int, dtype_of, is_buffer_var, op_name, scope_of

_EXTENDED = {
    "bfloat16": ml_dtypes.bfloat16,
    "float8_e4m3fn": ml_dtypes.float8_e4m3fn,
    "float8_e5m2": ml_dtypes.float8_e5m2,
}


def numpy_dtype(name: str) -> np.dtype:
    """NumPy dtype of a dtype name."""
    return np.dtype(_EXTENDED.get(str(name), str(name)))


def _is_float(dtype: np.dtype) -> bool:
    return dtype.kind == "f" or dtype.type in _EXTENDED.values()


class _Break(Exception):
    pass


class _Continue(Exception):
    pass


class InterpreterError(Exception):
    """The program does something Tile IR does not allow (a read or store outside a buffer, an unknown node)."""


def run(func, *args) -> None:
    """Execute `func`; `args` are its parameters in order: arrays (changed in place) and numbers."""
    params = list(func.params)
    if len(args) != len(params):
        raise InterpreterError(f"{len(params)} parameters, {len(args)} arguments")
    _Interpreter(safe_values(func)).run(func.body, params, args)


class _Interpreter:
    def __init__(self, outside: dict | None = None):
        self.outside = outside or {}
        self.values: dict[Any, Any] = {}  # Var -> number, buffer Var -> array

    def run(self, body, params, args) -> None:
        for p, a in zip(params, args):
            self.values[p] = a
            if is_buffer_var(p):
                self._bind_shape(p, a)
        self.stmt(body)

    def _bind_shape(self, buffer, array) -> None:
        if array.dtype != numpy_dtype(buffer.ty.dtype) or array.ndim != len(buffer.ty.shape):
            raise InterpreterError(
                f"{buffer.name}: {array.dtype} of rank {array.ndim} "
                f"for {buffer.ty.dtype} of rank {len(buffer.ty.shape)}"
            )
        for dim, size in zip(buffer.ty.shape, array.shape):
            if const_int(dim) is None and type(dim).__name__ == "Var":
                if self.values.setdefault(dim, int(size)) != size:
                    raise InterpreterError(f"{dim.name} is {self.values[dim]} and {size}")
            elif const_int(dim) is not None and const_int(dim) != size:
                raise InterpreterError(f"{buffer.name} has shape {array.shape}")

    # --- statements --------------------------------------------------------------------------------------------------

    def stmt(self, s) -> None:
        getattr(self, "_" + type(s).__name__)(s)

    def _SeqStmt(self, s) -> None:
        for x in s.seq:
            self.stmt(x)

    def _For(self, s) -> None:
        first, extent = int(self.expr(s.min)), int(self.expr(s.extent))
        for i in range(first, first + extent):
            self.values[s.loop_var] = i
            try:
                self.stmt(s.body)
            except _Continue:
                continue
            except _Break:
                break

    def _While(self, s) -> None:
        while self.expr(s.condition):
            try:
                self.stmt(s.body)
            except _Continue:
                continue
            except _Break:
                break

    def _IfThenElse(self, s) -> None:
        if self.expr(s.condition):
            self.stmt(s.then_case)
        elif s.else_case is not None:
            self.stmt(s.else_case)

    def _Break(self, s) -> None:
        raise _Break

    def _Continue(self, s) -> None:
        raise _Continue

    def _Bind(self, s) -> None:
        self.values[s.var] = self.expr(s.value)

    def _AllocBuffer(self, s) -> None:
        shape = tuple(int(self.expr(d)) for d in s.buffer.ty.shape)
        self.values[s.buffer] = poison(shape, numpy_dtype(s.buffer.ty.dtype))

    def _BufferStore(self, s) -> None:
        array, index = self.values[s.buffer], self._index(s.buffer, s.indices)
        array[index] = convert(self.expr(s.value), array.dtype)

    def _Evaluate(self, s) -> None:
        name = op_name(s)
        if name is None:
            return
        handler = getattr(self, name.replace(".", "_"), None)
        if handler is None:
            raise InterpreterError(f"unknown operation {name}")
        handler(list(s.value.args), dict(s.value.attrs or {}))

    def _index(self, buffer, indices) -> tuple:
        index = tuple(int(self.expr(i)) for i in indices)
        shape = self.values[buffer].shape
        if any(not 0 <= i < n for i, n in zip(index, shape)):
            raise InterpreterError(f"{buffer.name}{list(index)} is outside its shape {shape}")
        return index

    # --- regions -----------------------------------------------------------------------------------------------------

    def _box(self, region) -> tuple[list[int], list[int]]:
        return [int(self.expr(r.min)) for r in region.region], [int(self.expr(r.extent)) for r in region.region]

    def load(self, region) -> np.ndarray:
        """The elements of a region; outside a GM tensor they are zero (or its safe value), outside an on-chip buffer it is an error."""
        array, (mins, extents) = self.values[region.source], self._box(region)
        inside = self._inside(region.source, array, mins, extents)
        out = np.full([max(e, 0) for e in extents], self.outside.get(region.source, 0), array.dtype)
        if all(hi > lo for lo, hi in inside):
            here = tuple(slice(lo - m, hi - m) for (lo, hi), m in zip(inside, mins))
            out[here] = array[tuple(slice(lo, hi) for lo, hi in inside)]
        return out

    def store(self, region, values: np.ndarray) -> None:
        """Write a region (same number of elements); parts outside a GM tensor are dropped."""
        array, (mins, extents) = self.values[region.source], self._box(region)
        inside = self._inside(region.source, array, mins, extents)
        values = convert(values, array.dtype).reshape([max(e, 0) for e in extents])
        if all(hi > lo for lo, hi in inside):
            here = tuple(slice(lo - m, hi - m) for (lo, hi), m in zip(inside, mins))
            array[tuple(slice(lo, hi) for lo, hi in inside)] = values[here]

    @staticmethod
    def _inside(buffer, array, mins, extents) -> list[tuple[int, int]]:
        box = [(max(m, 0), min(m + e, n)) for m, e, n in zip(mins, extents, array.shape)]
        if scope_of(buffer) != "global" and any((lo, hi) != (m, m + e) for (lo, hi), m, e in zip(box, mins, extents)):
            raise InterpreterError(f"region {mins} + {extents} is outside {buffer.name} of shape {array.shape}")
        return box

    # --- tile operations ---------------------------------------------------------------------------------------------

    def tl_copy(self, args, attrs) -> None:
        self.store(args[1], self.load(args[0]))

    def tl_im2col(self, args, attrs) -> None:
        image, (_, (rows, columns)) = self.load(args[0]), self._box(args[1])
        kernel, stride, dilation, pad = (int(attrs[n]) for n in ("kernel", "stride", "dilation", "pad"))
        batch, height, width, channels = image.shape
        reach = dilation * (kernel - 1) + 1
        out_h, out_w = ((n + 2 * pad - reach) // stride + 1 for n in (height, width))
        m = (self.expr(args[2]) * rows + np.arange(rows))[:, None]
        k = (self.expr(args[3]) * columns + np.arange(columns))[None, :]
        n, position, c = m // (out_h * out_w), k // channels, k % channels
        h = m // out_w % out_h * stride + position // kernel * dilation - pad
        w = m % out_w * stride + position % kernel * dilation - pad
        inside = (n >= 0) & (n < batch) & (h >= 0) & (h < height) & (w >= 0) & (w < width) & (position < kernel * kernel)
        n, h, w, c = (np.where(inside, x, 0) for x in (n, h, w, np.broadcast_to(c, inside.shape)))
        self.store(args[1], np.where(inside, image[n, h, w, c], np.zeros((), image.dtype)))

    def tl_fill(self, args, attrs) -> None:
        value = self.expr(args[1])
        self.store(args[0], np.full(self._box(args[0])[1], value))

    def tl_view(self, args, attrs) -> None:
        dst, src = args[0].source, args[1].source
        self.values[dst] = self.values[src].reshape(-1).view(self.values[dst].dtype).reshape(self.values[dst].shape)

    def tl_gemm(self, args, attrs) -> None:
        a, b, c = (self.load(x) for x in args[:3])
        wide = np.int32 if a.dtype.kind in "iu" else np.float32
        ma, mb = (x.reshape(x.shape[-2:]).astype(wide) for x in (a, b))
        if attrs.get("transpose_A"):
            ma = ma.T
        if attrs.get("transpose_B"):
            mb = mb.T
        product = ma @ mb
        if not self.expr(args[3]):
            product = product + c.reshape(product.shape).astype(wide)
        self.store(args[2], product)

    def tl_reduce(self, args, attrs) -> None:
        src, dst, dim = self.load(args[0]), self.load(args[1]), int(attrs["dim"])
        kind = str(attrs["kind"])
        wide = src.astype(np.float32) if _is_float(src.dtype) and src.dtype.itemsize < 4 else src
        result = _REDUCTIONS[kind](wide, dim).reshape(dst.shape)
        if not int(attrs.get("clear", 1)):
            # The destination keeps its own precision and range.
            meet = np.dtype(np.float64) if _is_float(dst.dtype) else dst.dtype if _is_float(result.dtype) else np.result_type(result, dst)
            result = _COMBINE[kind](convert(result, meet), convert(dst, meet))
        self.store(args[1], result)

    def _scan(self, args, attrs, function) -> None:
        src, dim = self.load(args[0]), int(attrs["dim"])
        wide = src.astype(np.float32) if _is_float(src.dtype) else src
        if int(attrs.get("reverse", 0)):
            result = np.flip(function(np.flip(wide, dim), dim), dim)
        else:
            result = function(wide, dim)
        self.store(args[1], result)

    def tl_cumsum(self, args, attrs) -> None:
        self._scan(args, attrs, lambda x, d: np.cumsum(x, axis=d, dtype=x.dtype))

    def tl_cummax(self, args, attrs) -> None:
        self._scan(args, attrs, lambda x, d: np.maximum.accumulate(x, axis=d))

    def tl_argsort(self, args, attrs) -> None:
        order = np.argsort(-self.load(args[0]), axis=-1, kind="stable")
        self.store(args[1], order[..., : self._box(args[1])[1][-1]])

    def _atomic(self, args, function) -> None:
        value = self.load(args[1]) if hasattr(args[1], "region") else self.expr(args[1])
        old = self.load(args[0])
        self.store(
            args[0],
            function(
                old, np.asarray(value, dtype=old.dtype).reshape(old.shape) if np.ndim(value) else old.dtype.type(value)
            ),
        )

    def tl_atomic_add(self, args, attrs) -> None:
        self._atomic(args, np.add)

    def tl_atomic_max(self, args, attrs) -> None:
        self._atomic(args, np.maximum)

    def tl_atomic_min(self, args, attrs) -> None:
        self._atomic(args, np.minimum)

    def tl_print(self, args, attrs) -> None:
        print(f"{self._format(attrs, args[1:])} = {self.load(args[0]).tolist()}")

    def tl_printf(self, args, attrs) -> None:
        print(self._format(attrs, args), end="")

    def tl_assume(self, args, attrs) -> None:
        if not self.expr(args[0]):
            raise InterpreterError(f"T.assume({args[0]}) does not hold")

    def tl_device_assert(self, args, attrs) -> None:
        if not self.expr(args[0]):
            raise InterpreterError(self._format(attrs, args[1:]).rstrip("\n"))

    def _format(self, attrs, values) -> str:
        return str(attrs["format"]) % tuple(self.expr(v) for v in values)

    # --- expressions -------------------------------------------------------------------------------------------------

    def expr(self, e):
        """Value of a scalar expression: a Python int or bool, or a NumPy floating scalar of its dtype."""
        kind = type(e).__name__
        if kind == "IntImm":
            return bool(e.value) if dtype_of(e) == "bool" else int(e.value)
        if kind == "FloatImm":
            return convert(float(e.value), numpy_dtype(dtype_of(e)))
        if kind == "Var":
            return self.values[e]
        if kind == "TensorLoad":
            return _scalar(self.values[e.source][self._index(e.source, e.indices)])
        if kind == "Cast":
            return convert(self.expr(e.value), numpy_dtype(dtype_of(e)))
        if kind in ("And", "Or"):
            first = bool(self.expr(e.a))
            return first if first == (kind == "Or") else bool(self.expr(e.b))
        if kind == "Not":
            return not self.expr(e.a)
        if kind == "BitwiseNot":
            return convert(~self.expr(e.a), numpy_dtype(dtype_of(e)))
        if kind == "Select":
            return self.expr(e.true_value if self.expr(e.condition) else e.false_value)
        if kind == "Call":
            return self._call(e)
        if kind in _BINARY:
            return convert(_BINARY[kind](self.expr(e.a), self.expr(e.b)), numpy_dtype(dtype_of(e)))
        raise InterpreterError(f"unknown expression {kind}")

    def _call(self, e):
        name = op_name(e).split(".")[-1]
        if name == "if_then_else":
            return self.expr(e.args[1] if self.expr(e.args[0]) else e.args[2])
        args = [self.expr(a) for a in e.args]
        dtype = numpy_dtype(dtype_of(e))
        if name in _BITWISE:
            return convert(_BITWISE[name](*args), dtype)
        if name == "reinterpret":
            source = numpy_dtype(dtype_of(e.args[0]))
            return _scalar(np.array([args[0]], source).view(dtype)[0])
        if name not in _FUNCTIONS:
            raise InterpreterError(f"unknown function {name}")
        with np.errstate(all="ignore"):
            return convert(_FUNCTIONS[name](*[np.float64(a) for a in args]), dtype)


def poison(shape: tuple, dtype: np.dtype) -> np.ndarray:
    """Fresh memory: NaN, or 0x5A bytes for integers."""
    if _is_float(dtype):
        return np.full(shape, np.nan, dtype)
    return (
        np.full(math.prod(shape) * dtype.itemsize, 0x5A, np.uint8).view(dtype).reshape(shape)
        if dtype.kind != "b"
        else np.ones(shape, bool)
    )


def _scalar(value):
    dtype = np.asarray(value).dtype
    if dtype.kind == "b":
        return bool(value)
    return int(value) if dtype.kind in "iu" else value


def convert(value, dtype: np.dtype):
    """A scalar or array in `dtype`: floats truncate to integers, integers wrap."""
    if isinstance(value, np.ndarray):
        with np.errstate(all="ignore"):
            if value.dtype.type in _EXTENDED.values():
                value = value.astype(np.float32)
            return value.astype(dtype)
    if dtype.kind == "b":
        return bool(value)
    if dtype.kind in "iu":
        value = int(value)
        bits = 8 * dtype.itemsize
        value &= (1 << bits) - 1
        return value - (1 << bits) if dtype.kind == "i" and value >> (bits - 1) else value
    with np.errstate(all="ignore"):
        return dtype.type(value if isinstance(value, (int, float)) else np.float64(value))


def _div(a, b):
    with np.errstate(all="ignore"):
        return np.true_divide(a, b)


def _c_div(a, b):
    if isinstance(a, int) and isinstance(b, int):
        return int(math.trunc(a / b)) if b else 0
    return _div(a, b)


def _larger(a, b):
    return a if a >= b or a != a else b


def _smaller(a, b):
    return a if a <= b or a != a else b


def _quiet(function: Callable) -> Callable:
    def call(a, b):
        with np.errstate(all="ignore"):
            return function(a, b)

    return call


_BINARY: dict[str, Callable] = {
    "Add": _quiet(operator.add),
    "Sub": _quiet(operator.sub),
    "Mul": _quiet(operator.mul),
    "Div": _c_div,
    "Mod": math.fmod,
    "FloorDiv": operator.floordiv,
    "FloorMod": operator.mod,
    "Max": _larger,
    "Min": _smaller,
    "LT": operator.lt,
    "LE": operator.le,
    "GT": operator.gt,
    "GE": operator.ge,
    "EQ": operator.eq,
    "NE": operator.ne,
    "LShift": operator.lshift,
    "RShift": operator.rshift,
    "BitwiseAnd": operator.and_,
    "BitwiseOr": operator.or_,
    "BitwiseXor": operator.xor,
}

_BITWISE: dict[str, Callable] = {
    "bitwise_and": operator.and_,
    "bitwise_or": operator.or_,
    "bitwise_xor": operator.xor,
    "bitwise_not": operator.invert,
    "shift_left": operator.lshift,
    "shift_right": operator.rshift,
}

_FUNCTIONS: dict[str, Callable] = {
    "exp": np.exp,
    "exp2": np.exp2,
    "exp10": lambda x: np.power(10.0, x),
    "log": np.log,
    "log2": np.log2,
    "log10": np.log10,
    "log1p": np.log1p,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1.0 / np.sqrt(x),
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "tanh": np.tanh,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "atan2": np.arctan2,
    "sigmoid": lambda x: 1.0 / (1.0 + np.exp(-x)),
    "erf": lambda x: math.erf(x),
    "pow": np.power,
    "fabs": np.abs,
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
    "round": np.rint,
    "nearbyint": np.rint,
    "fmod": np.fmod,
    "copysign": np.copysign,
    "isnan": np.isnan,
    "isinf": np.isinf,
    "isfinite": np.isfinite,
}

_REDUCTIONS: dict[str, Callable] = {
    "sum": lambda x, d: np.sum(x, axis=d, dtype=x.dtype),
    "max": lambda x, d: np.max(x, axis=d),
    "min": lambda x, d: np.min(x, axis=d),
    "abssum": lambda x, d: np.sum(np.abs(x), axis=d, dtype=x.dtype),
    "absmax": lambda x, d: np.max(np.abs(x), axis=d),
    "any": lambda x, d: np.any(x != 0, axis=d),
    "all": lambda x, d: np.all(x != 0, axis=d),
    "bitand": lambda x, d: np.bitwise_and.reduce(x, axis=d),
    "bitor": lambda x, d: np.bitwise_or.reduce(x, axis=d),
    "bitxor": lambda x, d: np.bitwise_xor.reduce(x, axis=d),
}

_COMBINE: dict[str, Callable] = {
    "sum": np.add,
    "max": np.maximum,
    "min": np.minimum,
    "abssum": np.add,
    "absmax": np.maximum,
    "any": np.logical_or,
    "all": np.logical_and,
    "bitand": np.bitwise_and,
    "bitor": np.bitwise_or,
    "bitxor": np.bitwise_xor,
}
