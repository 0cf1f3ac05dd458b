"""The caller's view of a traced kernel: parameters, shape variables, outputs, read from its Tile IR."""

from __future__ import annotations

import ast
import functools
import linecache
from collections.abc import Sequence
from dataclasses import replace

from .. import ir
from ..errors import Location, location_of
from ..runtime.params import Parameter, Signature
from ..tileop.base.layout import shape_and_strides

_BINARY = {
    "Add": "({} + {})",
    "Sub": "({} - {})",
    "Mul": "({} * {})",
    "FloorDiv": "({} // {})",
    "FloorMod": "({} % {})",
    "Min": "min({}, {})",
    "Max": "max({}, {})",
}


def read_signature(func, out_idx: tuple[int, ...] = (), written: frozenset[str] | None = None, seen: Sequence = ()) -> Signature:
    """Parameters of the Tile IR `func`; `written` names the buffers the lowered program writes (None: all of them). seen: functions whose tensors have the shapes that
    launches see (none: those of `func`)."""
    places = declarations(location_of(func))
    nibbles = {int(k): (str(dtype), int(odd)) for k, dtype, odd in func.attrs.get("tl.nibbles", [])} if func.attrs else {}
    parameters = [_parameter(p, written, places.get(p.name), nibbles.get(k)) for k, p in enumerate(func.params)]
    names = {p.name for p in parameters}
    symbols: dict[str, str] = {}
    for p in func.params:
        for var in _shape_vars(p):
            if var.name not in names:
                symbols.setdefault(var.name, ir.dtype_of(var))
    pitches: dict[str, tuple] = {}
    for p in (p for f in seen or (func,) for p in f.params if ir.is_buffer_var(p)):
        pitches[p.name] = tuple(dict.fromkeys((*pitches.get(p.name, ()), *_pitches(p, names | symbols.keys()))))
    return Signature(tuple(replace(p, pitches=pitches.get(p.name, ())) for p in parameters), tuple(symbols.items()), out_idx)


def _parameter(p, written: frozenset[str] | None, place: Location | None, nibble: tuple[str, int] | None) -> Parameter:
    """`nibble`: the dtype of 4 bits the tensor was declared with, if it was, and what it says of padding at the end of its rows."""
    if not ir.is_buffer_var(p):
        return Parameter(p.name, ir.dtype_of(p) if nibble is None else nibble[0], location=place)
    shape = tuple(dim_text(d) for d in p.ty.shape)
    strides = tuple(dim_text(s) for s in p.ty.strides) if len(p.ty.strides) else None
    if nibble is None:
        return Parameter(p.name, ir.dtype_of(p), shape, strides, written is None or p.name in written, place)
    dtype, padding = nibble
    known, last = ir.const_int(p.ty.shape[-1]), p.ty.shape[-1]
    numbers = dim_text(last.a if padding != 1 else last.a.a) if known is None else 2 * known - padding
    if strides is not None:
        outer = [s.a if ir.const_int(s) is None else 2 * s for s in p.ty.strides[:-1]]
        strides = (*map(dim_text, outer), strides[-1])
    return Parameter(p.name, dtype, (*shape[:-1], numbers), strides, written is None or p.name in written, place, padding == 2)


def _pitches(p, names: set) -> tuple:
    """`Parameter.pitches` of a tensor, where parameters and extents called `names` tell them."""
    shape, strides = shape_and_strides(p)
    told = [(k, s) for k, (n, s) in enumerate(zip(shape, strides)) if ir.const_int(s) is None and ir.const_int(n) != 1]
    told = [(k, s) for k, s in told if all(_is_told(e, names) for e in (shape[k], s))]
    return tuple((dim_text(shape[k]), dim_text(s), ir.itemsize(ir.dtype_of(p))) for k, s in told if ir.dtype_of(s) == "int32")


def declarations(function: Location | None) -> dict[str, Location]:
    """Where the function defined at `function` declares its tensors and parameters, as far as its source is known."""
    if function is None:
        return {}
    places: dict[str, Location] = {}
    for node in _functions(tuple(linecache.getlines(function.file))):
        if function.line in (node.lineno, *(d.lineno for d in node.decorator_list)):
            for arg in [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]:
                places[arg.arg] = _place(function.file, arg)
            for statement in ast.walk(node):
                if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
                    places[statement.target.id] = _place(function.file, statement)
    return places


@functools.lru_cache(maxsize=16)
def _functions(lines: tuple[str, ...]) -> list[ast.FunctionDef]:
    """All functions of a file: it may have many kernels, each of which is compiled."""
    try:
        tree = ast.parse("".join(lines))
    except SyntaxError:
        return []
    return [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]


def _place(file: str, node: ast.arg | ast.stmt) -> Location:
    end = node.end_col_offset if node.end_lineno == node.lineno else None
    return Location(file, node.lineno, node.col_offset + 1, 0 if end is None else end + 1)


def _shape_vars(p) -> list:
    """Variables in the shape and strides of a parameter, in order of appearance."""
    if not ir.is_buffer_var(p):
        return []
    found: list = []

    def see(x):
        if isinstance(x, ir.Var) and x not in found:
            found.append(x)

    for dim in [*p.ty.shape, *p.ty.strides]:
        ir.walk_expr(dim, see)
    return found


def _is_told(e, names: set) -> bool:
    """True for what `dim_text` makes a text of that `names` tell."""
    if isinstance(e, ir.Var):
        return e.name in names
    known = ir.const_int(e) is not None or isinstance(e, ir.Cast) or type(e).__name__ in _BINARY
    return known and all(_is_told(x, names) for x in ir.expr_children(e))


def dim_text(expr) -> int | str:
    """An extent as an int, or as a Python expression over variable names."""
    value = ir.const_int(expr)
    if value is not None:
        return value
    if isinstance(expr, ir.Var):
        return str(expr.name)
    if isinstance(expr, ir.Cast):
        return dim_text(expr.value)
    form = _BINARY.get(type(expr).__name__)
    assert form is not None, f"extent {expr} is no integer expression"
    return form.format(dim_text(expr.a), dim_text(expr.b))
