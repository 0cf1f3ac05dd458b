"""Tile operations of the Tile IR interpreter: one function each, from a statement to a function of an `Env`."""

from __future__ import annotations

from typing import Callable

import numpy as np

from .. import native
from ..ir import TensorRegion, attrs_of, elements
from ..tile import (
    ARGSORT,
    ASSUME,
    COPY,
    CUMMAX,
    CUMSUM,
    DEVICE_ASSERT,
    FILL,
    GEMM,
    IM2COL,
    PRINT,
    PRINTF,
    REDUCE,
    TABLE,
    VIEW,
    ZERO_ACCUMULATOR,
    TileOp,
)
from ..tile.uses import end_of, on_chip
from .reference_memory import InterpreterError
from .reference_numbers import COMBINE, REDUCTIONS, convert, is_float, running_maxima

SEQUENTIAL_WORK = 2**25
"""Multiplications up to which a gemm adds its products one after the other in the order of K, so that cutting K changes nothing."""


class _Region:
    """A region operand."""

    def __init__(self, program, r, span):
        self.program, self.span, self.slot = program, span, program.slots(r.source)
        ranges = elements(r.region)
        self.mins, self.extents = ([program.slots.expr(x) for x in part] for part in ([x.min for x in ranges], [x.extent for x in ranges]))

    def memory(self, env):
        return self.program.memory(env, self.slot, self.span)

    def box(self, env) -> tuple[list, list]:
        """First indices and extents."""
        value = self.program.value
        return [value(env, m, self.span) for m in self.mins], [int(value(env, e, self.span)) for e in self.extents]

    def shape(self, env) -> tuple:
        """Extents without the number of the copy."""
        extents = tuple(max(n, 0) for n in self.box(env)[1])
        return extents[1:] if self.memory(env).versions else extents

    def load(self, env, end: tuple | None = None) -> tuple:
        """(elements, which are defined or None). `end`: of a tensor, as for `Memory`."""
        mins, extents = self.box(env)
        values, known = self.memory(env).load_region([int(m) for m in mins], extents, end)
        self.program.budget.spend(values.size)
        return values, known

    def store(self, env, values, known=None, end: tuple | None = None) -> None:
        mins, extents = self.box(env)
        memory = self.memory(env)
        memory.store_region([int(m) for m in mins], extents, values, known, end)
        self.program.budget.spend(int(np.size(values)))
        self.program.note(self.span, memory, lambda: np.asarray(values))


def _regions(program, s, count: int) -> list[_Region]:
    return [_Region(program, a, s.span) for a in list(s.value.args)[:count]]


def _copy(program, s) -> Callable:
    (src, dst), end = _regions(program, s, 2), end_of(s)

    loads, last = on_chip(s.value.args[1].source), None if end is None else program.slots.expr(end[1])

    def run(env):
        ends = None if last is None else (end[0], int(program.value(env, last, s.span)))
        values, known = src.load(env, ends if loads else None)
        dst.store(env, np.array(values), known if known is None else known.reshape(-1), None if loads else ends)

    return run


def _fill(program, s) -> Callable:
    (dst,), value = _regions(program, s, 1), program.slots.expr(s.value.args[1])

    def run(env):
        env.undefined = False
        number = value(env)
        known = None if env.undefined is False else np.zeros(dst.box(env)[1], bool)
        dst.store(
            env,
            np.full([max(n, 0) for n in dst.box(env)[1]], convert(number, dst.memory(env).data.dtype), dst.memory(env).data.dtype),
            known,
        )

    return run


def _zero_accumulator(program, s) -> Callable:
    (dst,) = _regions(program, s, 1)
    return lambda env: dst.store(env, np.zeros([max(n, 0) for n in dst.box(env)[1]], dst.memory(env).data.dtype))


def _view(program, s) -> Callable:
    dst, src = _regions(program, s, 2)

    def run(env):
        view, storage = dst.memory(env), src.memory(env)
        view.data = storage.data.reshape(-1).view(view.data.dtype).reshape(view.data.shape)
        view.clipped, view.outside = storage.clipped, storage.outside
        if storage.writes is not None and view.data.size == storage.data.size:
            view.writes = storage.writes.reshape(view.data.shape)
        if storage.defined is not None and view.data.size == storage.data.size:
            view.defined = storage.defined.reshape(view.data.shape)
        else:  # elements of another width: which bytes have a value is not followed
            view.defined = None
            if storage.defined is not None:
                storage.defined[...] = True

    return run


def _gemm(program, s) -> Callable:
    a, b, c = _regions(program, s, 3)
    clear, attrs = program.slots.expr(s.value.args[3]), attrs_of(s)
    turn_a, turn_b = bool(attrs.get("transpose_A")), bool(attrs.get("transpose_B"))

    def matrix(region, env, turned):
        values, known = region.load(env)
        values = values.reshape(values.shape[-2:])
        known = None if known is None else known.reshape(values.shape)
        return (values.T, None if known is None else known.T) if turned else (values, known)

    def run(env):
        (x, x_known), (y, y_known) = matrix(a, env, turn_a), matrix(b, env, turn_b)
        wide = np.int32 if all(kind in "iu" for kind in (x.dtype.kind, y.dtype.kind, c.memory(env).data.dtype.kind)) else np.float32
        fresh = program.value(env, clear, s.span)
        shape = (x.shape[0], y.shape[1])
        program.budget.spend(x.shape[0] * x.shape[1] * y.shape[1] // 16)
        known = np.ones(shape, bool)
        if fresh:
            start = np.zeros(shape, wide)
        else:
            start, before = c.load(env)
            start = start.reshape(shape).astype(wide)
            known = known if before is None else before.reshape(shape).copy()
        if x_known is not None:
            known &= x_known.all(axis=1)[:, None]
        if y_known is not None:
            known &= y_known.all(axis=0)[None, :]
        x, y = x.astype(wide), y.astype(wide)
        if x.shape[1] * start.size <= SEQUENTIAL_WORK:
            product = start.copy()
            bits = np.uint32 if wide is np.int32 else wide  # sums of integers wrap
            native.function("reference.add_products")(product.view(bits), *(np.ascontiguousarray(m).view(bits) for m in (x, y)))
        else:
            product = start + x @ y
        c.store(env, product, None if known.all() else known.reshape(-1))

    return run


def _reduce(program, s) -> Callable:
    (src, dst), attrs = _regions(program, s, 2), attrs_of(s)
    dim, kind, clear = int(attrs["dim"]), str(attrs["kind"]), int(attrs.get("clear", 1))

    def run(env):
        values, known = src.load(env)
        wide = values.astype(_computed_in(kind, values.dtype, dst.memory(env).data.dtype))
        shape = dst.shape(env)
        result = REDUCTIONS[kind](wide, dim).reshape(shape)
        known = np.ones(shape, bool) if known is None else known.all(axis=dim).reshape(shape)
        if not clear:
            old, before = dst.load(env)
            if old.dtype.kind in "iu" and is_float(np.promote_types(result.dtype, old.dtype)):
                result = convert(result, old.dtype)  # No integer holds both: an accumulator of the destination's dtype.
            # What the destination holds keeps its own precision and range.
            both = (
                np.promote_types(result.dtype, old.dtype) if not (is_float(old.dtype) and old.dtype.itemsize < 4) else np.dtype(np.float32)
            )
            both = both if kind not in ("any", "all") else result.dtype
            result = COMBINE[kind](result.astype(both), old.astype(both))
            known = known if before is None else known & before
        dst.store(env, result, None if known.all() else known.reshape(-1))

    return run


def _computed_in(kind: str, source: np.dtype, target: np.dtype) -> np.dtype:
    """What values of `source` are reduced in: small floats in float32, sums and magnitudes of integers in the range of the result."""
    if is_float(source):
        return np.dtype(np.float32) if source.itemsize < 4 else source
    if kind not in ("sum", "abssum", "absmax") or kind == "absmax" and source.kind == "u":
        return source
    if kind != "absmax" and is_float(target) and source.itemsize >= 4:
        return np.dtype(np.float32)
    both = np.promote_types(source, target) if target.kind in "iub" else np.dtype(np.int64)
    return both if both.kind in "iu" else np.dtype(np.int64)


def _scan(function) -> Callable:
    def build(program, s) -> Callable:
        (src, dst), attrs = _regions(program, s, 2), attrs_of(s)
        dim, backwards = int(attrs["dim"]), int(attrs.get("reverse", 0))

        def run(env):
            values, known = src.load(env)
            # Small floats in float32, sums of integers in the range of the result, but for int64, whose numbers are exact as long as they are.
            into_float = is_float(dst.memory(env).data.dtype) and values.dtype.name in ("int32", "uint32", "uint64")
            floats = is_float(values.dtype) or into_float
            wide = values.astype(np.float32 if floats else np.uint64 if values.dtype == np.uint64 else np.int64)
            turn = (lambda x: np.flip(x, dim)) if backwards else (lambda x: x)
            result = turn(function(turn(wide), dim))
            if known is not None:
                known = turn(np.logical_and.accumulate(turn(known), axis=dim)).reshape(-1)
            dst.store(env, result, known)

        return run

    return build


def _argsort(program, s) -> Callable:
    src, dst = _regions(program, s, 2)

    def run(env):
        values, known = src.load(env)
        order = np.argsort(-values, axis=-1, kind="stable")[..., : dst.shape(env)[-1]]
        dst.store(env, order, None if known is None else np.broadcast_to(known.all(axis=-1)[..., None], order.shape).reshape(-1))

    return run


def _im2col(program, s) -> Callable:
    (image, dst), attrs = _regions(program, s, 2), attrs_of(s)
    row_step, column_step = (program.slots.expr(a) for a in list(s.value.args)[2:4])
    kernel, stride, dilation, pad = (int(attrs[n]) for n in ("kernel", "stride", "dilation", "pad"))

    def run(env):
        pixels, _ = image.load(env)
        rows, columns = dst.shape(env)
        batch, height, width, channels = pixels.shape
        reach = dilation * (kernel - 1) + 1
        out_h, out_w = ((n + 2 * pad - reach) // stride + 1 for n in (height, width))
        m = (program.value(env, row_step, s.span) * rows + np.arange(rows))[:, None]
        k = (program.value(env, column_step, s.span) * columns + np.arange(columns))[None, :]
        n, position, c = m // (out_h * out_w), k // channels, k % channels
        h = m // out_w % out_h * stride + position // kernel * dilation - pad
        w = m % out_w * stride + position % kernel * dilation - pad
        inside = (n >= 0) & (n < batch) & (h >= 0) & (h < height) & (w >= 0) & (w < width) & (position >= 0) & (position < kernel * kernel)
        n, h, w, c = (np.where(inside, x, 0) for x in (n, h, w, np.broadcast_to(c, inside.shape)))
        dst.store(env, np.where(inside, pixels[n, h, w, c], np.zeros((), pixels.dtype)))

    return run


def _atomic(function) -> Callable:
    def build(program, s) -> Callable:
        target, value = list(s.value.args)
        dst = _Region(program, target, s.span)
        if isinstance(value, TensorRegion):
            src = _Region(program, value, s.span)

            def tile(env):
                values, known = src.load(env)
                old, before = dst.load(env)
                new = function(old, convert(np.array(values), old.dtype).reshape(old.shape))
                known = None if known is None else known.reshape(old.shape)
                known = known if before is None else (before if known is None else known & before)
                dst.store(env, new, None if known is None else known.reshape(-1))

            return tile
        number = program.slots.expr(value)

        def element(env):
            mins, extents = dst.box(env)
            memory = dst.memory(env)
            env.undefined = False
            found = number(env)
            if all(n == 1 for n in extents):
                memory.update(env, mins, convert(found, memory.data.dtype), function)
                return
            old, before = dst.load(env)
            new = function(old, old.dtype.type(found))
            dst.store(env, new, None if before is None else before.reshape(-1))

        return element

    return build


def _format(program, s, values) -> Callable:
    """The printed text of a statement."""
    text, numbers = str(attrs_of(s)["format"]), [program.slots.expr(v) for v in values]
    return lambda env: text % tuple(n(env) for n in numbers)


def _print(program, s) -> Callable:
    args = list(s.value.args)
    (src,), heading = _regions(program, s, 1), _format(program, s, args[1:])
    return lambda env: program.result.output.append(f"{heading(env)} = {src.load(env)[0].tolist()}\n")


def _printf(program, s) -> Callable:
    text = _format(program, s, list(s.value.args))
    return lambda env: program.result.output.append(text(env))


def _assume(program, s) -> Callable:
    condition = program.slots.expr(s.value.args[0])

    def run(env):
        if not condition(env):
            raise InterpreterError(f"T.assume({s.value.args[0]}) does not hold")

    return run


def _device_assert(program, s) -> Callable:
    args = list(s.value.args)
    condition, text = program.slots.expr(args[0]), _format(program, s, args[1:])

    def run(env):
        if not condition(env):
            raise InterpreterError(text(env).rstrip("\n"))

    return run


_UPDATES = {"sum": np.add, "max": np.maximum, "min": np.minimum}

SEMANTICS: dict[TileOp, Callable] = {
    COPY: _copy,
    FILL: _fill,
    ZERO_ACCUMULATOR: _zero_accumulator,
    VIEW: _view,
    GEMM: _gemm,
    IM2COL: _im2col,
    REDUCE: _reduce,
    CUMSUM: _scan(lambda x, d: np.cumsum(x, axis=d, dtype=x.dtype)),
    CUMMAX: _scan(running_maxima),
    ARGSORT: _argsort,
    PRINT: _print,
    PRINTF: _printf,
    ASSUME: _assume,
    DEVICE_ASSERT: _device_assert,
    **{record: _atomic(_UPDATES[record.combine]) for record in TABLE.values() if record.combine},
}
assert SEMANTICS.keys() == set(TABLE.values()), "every tile op has a meaning"
