"""Formats and values of what a kernel prints: `T.print`, `T.printf`, and assertions that fail while it runs."""

from __future__ import annotations

import os

from ..errors import InvalidArgument
from ..ir import (
    TensorLoad,
    TensorRegion,
    Var,
    const_int,
    conversion,
    dtype_of,
    is_buffer_var,
    itemsize,
    printable,
    scope_of,
    walk_expr,
)
from ..isa.debug import CONVERSION, FLOAT_CONVERSIONS, INTEGER_CONVERSIONS
from ..tile import tile_op
from .operators import as_scalar

MAX_NAMED_VALUES = 8
"""Values an assertion that fails shows."""


def plain_text(text: str) -> str:
    """`text` inside a format. A NUL would end the format there."""
    if "\0" in text:
        raise InvalidArgument("a text to print contains a NUL character, which ends a text in C", hint="leave out '\\0'")
    return text.replace("%", "%%")


def block_text(builder) -> tuple[str, list]:
    """Which block of the user's grid prints: a format and its values, empty for a grid of one block."""
    indices, extents = builder.grid
    if all(const_int(e) == 1 for e in extents):
        return "", []
    values = [printable(as_scalar(i)) for i in indices]
    return f"block ({', '.join(conversion(v) for v in values)}) ", values


def emit_print(builder, obj, msg: str, desc: int | None = None) -> None:
    """A scalar or the elements of a region, after the block and the message. `desc` names a dump, default: the line."""
    line = getattr(builder.span(), "line", 0)
    head, values = block_text(builder)
    if isinstance(obj, TensorRegion):
        head += f"{plain_text(msg)}: {obj.source.name}" if msg else obj.source.name
        builder.emit(tile_op("print", obj, *values, format=head, desc=line if desc is None else desc, span=builder.span()))
        return
    if obj is not None:
        value = printable(obj)
        msg = f"{plain_text(msg or f'line {line}')}: {conversion(value)}"
        values.append(value)
    else:
        msg = plain_text(msg)
    builder.emit(tile_op("printf", *values, format=f"{head}{msg}\n", span=builder.span()))


def emit_printf(builder, text: str, args) -> None:
    """`text` with its conversions checked against the values, and made as wide as they are."""
    args = list(args)
    out, end, values = "", 0, []
    legal = ", ".join("%" + c for c in INTEGER_CONVERSIONS + FLOAT_CONVERSIONS + "s")
    for m in CONVERSION.finditer(text):
        # A percent sign that begins no conversion is printed; C leaves open what it does.
        out += plain_text(text[end : m.start()])
        end = m.end()
        if m["kind"] == "%":
            out += "%%"
            continue
        if not args:
            raise InvalidArgument(f"T.printf: the format takes more than the {len(values)} values given", hint="add the values")
        value = args.pop(0)
        if m["kind"] == "s":
            if not isinstance(value, str):
                raise InvalidArgument(f"T.printf: {m[0]} takes a Python string, not {value}", hint="%d for integers, %f for floats")
            out += plain_text(m[0] % value)
            continue
        if m["kind"] not in INTEGER_CONVERSIONS + FLOAT_CONVERSIONS:
            raise InvalidArgument(f"T.printf: conversion {m[0]} is not available", hint=f"one of {legal}")
        value = printable(as_scalar(value))
        if (dtype_of(value) == "float32") != (m["kind"] in FLOAT_CONVERSIONS):
            raise InvalidArgument(
                f"T.printf: {m[0]} does not fit a {dtype_of(value)} value", hint="%d for integers, %u for unsigned ones, %f for floats"
            )
        long = "l" if itemsize(dtype_of(value)) == 8 else ""
        out += f"%{m['flags']}{m['width']}{m['precision']}{long}{m['kind']}"
        values.append(value)
    if args:
        raise InvalidArgument(f"T.printf: the format takes {len(values)} values, {len(values) + len(args)} are given")
    builder.emit(tile_op("printf", *values, format=out + plain_text(text[end:]), span=builder.span()))


def emit_assert(builder, condition, msg: str) -> None:
    """An assertion with the text it prints when it fails: place, message, block and the values the condition reads."""
    span = builder.span()
    head, values = block_text(builder)
    where = f"{os.path.basename(str(span.source_name.name))}:{span.line}: " if span is not None else ""
    text = plain_text(where + "assertion failed" + (f": {msg}" if msg else ""))
    parts = [head.strip()] if head else []
    for name, value in _values_read(condition):
        value = printable(value)
        parts.append(f"{plain_text(name)} = {conversion(value)}")
        values.append(value)
    text += f" ({', '.join(parts)})\n" if parts else "\n"
    builder.emit(tile_op("device_assert", condition, *values, format=text, span=span))


def _values_read(condition) -> list[tuple[str, object]]:
    """(name, expression) of the variables and elements a condition reads, in the order it names them."""
    found: dict[str, object] = {}

    def see(e):
        if isinstance(e, TensorLoad):
            indices = "" if scope_of(e.source) == "local.var" else f"[{', '.join(_short(i) for i in e.indices)}]"
            found.setdefault(e.source.name + indices, e)
        elif isinstance(e, Var) and not is_buffer_var(e):
            found.setdefault(e.name, e)

    walk_expr(condition, see)
    return list(found.items())[:MAX_NAMED_VALUES]


def _short(e) -> str:
    return str(const_int(e)) if const_int(e) is not None else e.name if isinstance(e, Var) else str(e)
