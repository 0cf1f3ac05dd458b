"""The caller's view of a traced kernel: parameters, shape variables, outputs, read from its Tile IR."""

from __future__ import annotations

import ast
import functools
import linecache

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


def read_signature(func, out_idx: tuple[int, ...] = (), written: frozenset[str] | None = None) -> Signature:
    """Parameters of the Tile IR `func`; `written` names the buffers the lowered program writes (None: all of them)."""
    places = declarations(location_of(func))
    nibbles = {int(k): (str(dtype), int(odd)) for k, dtype, odd in func.attrs.get("tl.nibbles", [])} if func.attrs else {}
    parameters = tuple(_parameter(p, written, places.get(p.name), nibbles.get(k)) for k, p in enumerate(func.params))
    names = {p.name for p in parameters}
    symbols: dict[str, str] = {}
    for p in func.params:
        for var in _shape_vars(p):
            if var.name not in names:
                symbols.setdefault(var.name, ir.dtype_of(var))
    return Signature(parameters, tuple(symbols.items()), out_idx)


def _parameter(p, written: frozenset[str] | None, place: Location | None, nibble: tuple[str, int] | None) -> Parameter:
    """`nibble`: the dtype of 4 bits the tensor was declared with, if it was, and what it says of padding at the end of its rows."""
    if not ir.is_buffer_var(p):
        return Parameter(p.name, ir.dtype_of(p) if nibble is None else nibble[0], location=place)
    shape = tuple(dim_text(d) for d in p.ty.shape)
    strides = tuple(dim_text(s) for s in p.ty.strides) if len(p.ty.strides) else None
    pitches = _pitches(p)
    if nibble is None:
        return Parameter(p.name, ir.dtype_of(p), shape, strides, written is None or p.name in written, place, pitches=pitches)
    dtype, padding = nibble
    known, last = ir.const_int(p.ty.shape[-1]), p.ty.shape[-1]
    numbers = dim_text(last.a if padding != 1 else last.a.a) if known is None else 2 * known - padding
    if strides is not None:
        outer = [s.a if ir.const_int(s) is None else 2 * s for s in p.ty.strides[:-1]]
        strides = (*map(dim_text, outer), strides[-1])
    return Parameter(p.name, dtype, (*shape[:-1], numbers), strides, written is None or p.name in written, place, padding == 2, pitches)


def _pitches(p) -> tuple:
    """`Parameter.pitches` of a tensor."""
    shape, strides = shape_and_strides(p)
    told = [(k, s) for k, (n, s) in enumerate(zip(shape, strides)) if ir.const_int(s) is None and ir.const_int(n) != 1]
    return tuple((k, dim_text(s)) for k, s in told if ir.dtype_of(s) == "int32")


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
