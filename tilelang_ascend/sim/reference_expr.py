"""Expressions of Tile IR as functions of an `Env`: built once, run for every statement, block and lane."""

from __future__ import annotations

from typing import Any, Callable

import numpy as np

from ..ir import dtype_of, op_name, scope_of
from . import reference_rounding
from .reference_memory import Env, InterpreterError, NotHere
from .reference_numbers import BINARY, BITWISE, FUNCTIONS, as_value, convert, integer_power, numpy_dtype, of_dtype

Value = Any
Fn = Callable[[Env], Value]


_FUNCTIONS = {**FUNCTIONS, **reference_rounding.FUNCTIONS}


_BASES = {"exp2": 2.0, "exp10": 10.0}


class Slots:
    """Numbers of variables and buffers, and the expressions over them. exponent_error: by how much, relative to themselves, powers of sums
    may have changed because the terms were rounded elsewhere (docs/numbers.md)."""

    def __init__(self):
        self.of: dict[Any, int] = {}
        self.exponent_error = 0.0

    def __call__(self, var) -> int:
        return self.of.setdefault(var, len(self.of))

    # --- expressions -------------------------------------------------------------------------------------------------

    def expr(self, e) -> Fn:
        """The value of a scalar expression."""
        kind = type(e).__name__
        build = getattr(self, "_" + kind, None)
        if build is not None:
            return build(e)
        if kind in BINARY:
            return self._binary(e, BINARY[kind])
        raise InterpreterError(f"unknown expression {kind}")

    def _IntImm(self, e) -> Fn:
        value = bool(e.value) if dtype_of(e) == "bool" else int(e.value)
        return lambda env: value

    def _FloatImm(self, e) -> Fn:
        value = convert(float(e.value), numpy_dtype(dtype_of(e)))
        return lambda env: value

    def _Var(self, e) -> Fn:
        slot, name = self(e), e.name

        def read(env):
            value = env.values[slot]
            if value is None:
                raise NotHere(f"{name} has no value on this core")
            return value

        return read

    def _TensorLoad(self, e) -> Fn:
        slot, name = self(e.source), e.source.name
        if scope_of(e.source) == "local.var":

            def scalar(env):
                memory = env.values[slot]
                if memory is None:
                    raise NotHere(f"{name} is not declared on this core")
                return memory.load(env)

            return scalar
        indices = [self.expr(i) for i in e.indices]

        def load(env):
            memory = env.values[slot]
            if memory is None:
                raise NotHere(f"{name} is not declared on this core")
            return memory.load(env, [i(env) for i in indices])

        return load

    def _Cast(self, e) -> Fn:
        value, dtype = self.expr(e.value), numpy_dtype(dtype_of(e))
        return lambda env: as_value(value(env), dtype)

    def _both(self, e, stop: bool) -> Fn:
        """And, Or: the second operand counts only where the first one does not decide."""
        first, second = self.expr(e.a), self.expr(e.b)

        def run(env):
            a = first(env)
            if not np.ndim(a):
                return stop if bool(a) == stop else second(env)
            if a.all() if stop else not a.any():
                return a
            b = _under(env, ~a if stop else a, second)
            return (a | b) if stop else (a & b)

        return run

    def _And(self, e) -> Fn:
        return self._both(e, False)

    def _Or(self, e) -> Fn:
        return self._both(e, True)

    def _Not(self, e) -> Fn:
        value = self.expr(e.a)
        return lambda env: _not(value(env))

    def _BitwiseNot(self, e) -> Fn:
        value, dtype = self.expr(e.a), numpy_dtype(dtype_of(e))
        return lambda env: as_value(_not(value(env)) if dtype.kind == "b" else ~value(env), dtype)

    def _Select(self, e) -> Fn:
        return self._choose(e.condition, e.true_value, e.false_value, numpy_dtype(dtype_of(e)))

    def _choose(self, condition, true_value, false_value, dtype) -> Fn:
        """The value of one side; only the elements that side reads have to exist."""
        test, then, other = self.expr(condition), self.expr(true_value), self.expr(false_value)

        def lanes(value):
            # Numbers of uint64 and smaller ones would meet as float64.
            return value if isinstance(value, np.ndarray) and value.ndim or dtype != np.uint64 else np.asarray(value, dtype)

        def run(env):
            c = test(env)
            if not np.ndim(c):
                return (then if c else other)(env)
            if c.all():
                return then(env)
            return np.where(c, lanes(_under(env, c, then)), lanes(_under(env, ~c, other))) if c.any() else other(env)

        return run

    def _binary(self, e, function) -> Fn:
        a, b, dtype = self.expr(e.a), self.expr(e.b), numpy_dtype(dtype_of(e))
        function = of_dtype(function, numpy_dtype(dtype_of(e.a)))
        return lambda env: as_value(function(a(env), b(env)), dtype)

    def _Call(self, e) -> Fn:
        full = op_name(e)
        if full == "ascend.get_block_idx":
            return lambda env: env.block
        if full == "ascend.get_sub_block_idx":
            return lambda env: env.sub
        name = full.split(".")[-1]
        if name == "if_then_else":
            return self._choose(*e.args, numpy_dtype(dtype_of(e)))
        args, dtype = [self.expr(a) for a in e.args], numpy_dtype(dtype_of(e))
        if name in BITWISE:
            function = of_dtype(BITWISE[name], dtype)
            return lambda env: as_value(function(*[a(env) for a in args]), dtype)
        if name == "pow" and dtype.kind in "iu":
            return lambda env: as_value(integer_power(*[a(env) for a in args], dtype), dtype)
        if name == "reinterpret":
            source = numpy_dtype(dtype_of(e.args[0]))
            return lambda env: _reinterpret(args[0](env), source, dtype)
        if name not in _FUNCTIONS:
            raise InterpreterError(f"unknown function {name}")
        function = _FUNCTIONS[name]
        terms = [self.expr(t) for t in _terms(e.args[0])] if name in _BASES else []

        def call(env):
            out = as_value(function(*[np.asarray(a(env)).astype(np.float64)[()] for a in args]), dtype)
            if terms:
                self._rounded_terms(env, out, sum(np.abs(np.float64(t(env))) for t in terms) * np.log(_BASES[name]))
            return out

        return call

    def _rounded_terms(self, env: Env, power, size) -> None:
        """Note a power of a sum of terms that have together this size, in factors of e."""
        counts = np.isfinite(power) & (power > 0) & np.isfinite(size)
        if env.mask is not None:
            counts = counts & env.mask
        largest = np.max(np.where(counts, size, 0.0), initial=0.0)
        self.exponent_error = max(self.exponent_error, _ROUNDED * float(largest))


_ROUNDED = 4 * 2.0**-24
"""Roundings of a term and of a sum, in either form."""


def _terms(e) -> list:
    """What a sum adds and subtracts; a single term of anything else."""
    return [t for x in (e.a, e.b) for t in _terms(x)] if type(e).__name__ in ("Add", "Sub") else [e]


def _not(value):
    return ~value if np.ndim(value) else not value


def _under(env: Env, where, function: Fn):
    """`function` where the lanes `where` are active."""
    outer = env.mask
    env.mask = where if outer is None else where & outer
    try:
        return function(env)
    finally:
        env.mask = outer


def _reinterpret(value, source, dtype):
    bits = np.array(convert(value, source), source)
    out = bits.view(dtype) if bits.ndim else bits.reshape(1).view(dtype)[0]
    return as_value(out, dtype)
