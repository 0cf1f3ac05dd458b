"""IR from text: what `func.script()` prints of Tile IR and Ascend IR reads back structurally equal (spans are not
printed).

TVMScript loses a few things on the way; this module puts them back: operators and loop extents become exactly the nodes
that were printed (no simplification), annotations are Python numbers again, `break`/`continue` are statements, scalars
of scope `local` are our `local.var`. All hooks into the parser are in place only while `parse` runs.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import keyword
import sys

from ..isa import DTYPE_CODES, TABLE
from .base import (
    AllocBuffer,
    Break,
    Call,
    Continue,
    For,
    IntImm,
    IRModule,
    Op,
    PrimFunc,
    Var,
    decl_buffer,
    structural_equal,
    tirx,
    tvm,
)
from .build import as_expr, call, const_int, dtype_of, op, op_name, scope_of
from .visit import StmtMutator, statements, substitute


def parse(text: str) -> PrimFunc | IRModule:
    """The `PrimFunc` or `IRModule` that `text` shows.

    Raises:
        tvm.error.DiagnosticError: the text is not TVMScript, or names an unknown instruction.
    """
    _register_namespaces()
    with _exact_operators(), _integer_powers(), _exact_extents() as extents:
        parsed = tvm.script.from_source(text, check_well_formed=False)
    if isinstance(parsed, IRModule):
        functions = {str(name.name_hint): _restore(func, extents) for name, func in parsed.functions_items()}
        return IRModule(functions, attrs=parsed.attrs)
    return _restore(parsed, extents)


def same_program(a: PrimFunc | IRModule, b: PrimFunc | IRModule) -> bool:
    """Structural equality, function by function: the functions of a module may share `Var`s, or each have their own."""
    if isinstance(a, IRModule) and isinstance(b, IRModule):
        left, right = ({str(v.name_hint): f for v, f in m.functions_items()} for m in (a, b))
        return left.keys() == right.keys() and all(structural_equal(left[name], right[name]) for name in left)
    return structural_equal(a, b)


class _Namespace:
    """`T.tl.<op>(…)`, `T.ascend.<op>(…)` and `T.ieee.<op>(…)` as the printer writes them; calls with attributes print as `T.Call(…)`."""

    def __init__(self, prefix: str):
        self._prefix = prefix

    def __getattr__(self, name: str):
        plain = name[:-1] if name.endswith("_") and keyword.iskeyword(name[:-1]) else name
        if name.startswith("_") or (self._prefix == "ascend" and plain not in TABLE):
            raise AttributeError(f"no {self._prefix} operator {name!r}")
        return lambda *args: call(f"{self._prefix}.{plain}", args, dtype=self._result(plain, args))

    def _result(self, name: str, args: tuple) -> str:
        """dtype of a call; the printer leaves it out. A value read from memory has the dtype of its operand."""
        if self._prefix == "ieee":
            return "float32"
        returns = TABLE[name].returns if self._prefix == "ascend" else None
        if returns is None:
            return "void"
        return returns if returns in DTYPE_CODES else dtype_of(args[0])


@functools.lru_cache(maxsize=1)
def _register_namespaces() -> None:
    # Found through importlib: the module is shadowed by a function of the same name in its package.
    builder = importlib.import_module("tvm.tirx.script.builder.ir")
    for prefix in ("tl", "ascend", "ieee"):
        builder.register_script_namespace(prefix, _Namespace(prefix))
    for name in TABLE:
        op(f"ascend.{name}")  # Text may be the first to name one.


def _exactly(node):
    """An operator of the parser that builds just `node`; a plain number takes the dtype of the other side."""

    def build(a, b):
        if isinstance(a, (int, float)) and isinstance(b, (int, float)):
            a = as_expr(a)
        dtype = dtype_of(b if isinstance(a, (int, float)) else a)
        return node(as_expr(a, dtype), as_expr(b, dtype))

    return build


@contextlib.contextmanager
def _exact_operators():
    """The parser evaluates `a + b` by Python's operator, which simplifies; take that out while we parse."""
    dispatch = importlib.import_module("tvm.script.parser.core.dispatch")
    doc = importlib.import_module("tvm.script.parser.core.doc")
    nodes = {
        doc.Add: tirx.Add,
        doc.Sub: tirx.Sub,
        doc.Mult: tirx.Mul,
        doc.FloorDiv: tirx.FloorDiv,
        doc.Mod: tirx.FloorMod,
    }
    keys = [(tirx.Expr, operator, side) for operator in nodes for side in (0, 1)]
    before = {key: dispatch.OpVTable.get(key) for key in keys}
    try:
        for key in keys:
            dispatch.OpVTable[key] = _exactly(nodes[key[1]])
        yield
    finally:
        for key, method in before.items():
            if method is None:
                dispatch.OpVTable.pop(key, None)
            else:
                dispatch.OpVTable[key] = method


_LOOPS = ("serial", "parallel")


@contextlib.contextmanager
def _exact_extents():
    """Loop constructors simplify `stop - start`: give them a variable. Yields {variable: extent to put back}."""
    extents: dict = {}
    modules = [sys.modules[name] for name in _FACADES if name in sys.modules]
    before = [(m, name, getattr(m, name)) for m in modules for name in _LOOPS if hasattr(m, name)]

    def wrap(make):
        def loop(start, stop=None, **options):
            first, last = (0, start) if stop is None else (start, stop)
            if const_int(first) == 0 and const_int(last) is None:
                placeholder = Var(f"extent_{len(extents)}", dtype_of(last))
                extents[placeholder] = last
                return make(0, placeholder, **options)
            return make(first, last, **options)

        return loop

    try:
        for module, name, make in before:
            setattr(module, name, wrap(make))
        yield extents
    finally:
        for module, name, make in before:
            setattr(module, name, make)


@contextlib.contextmanager
def _integer_powers():
    """TVM's `pow` refuses integers: give them the node that was printed."""
    modules = [sys.modules[name] for name in _FACADES if name in sys.modules]
    before = [(m, m.pow) for m in modules if hasattr(m, "pow")]

    def wrap(make):
        return lambda a, b: Call(Op.get("tirx.pow"), [a, b], ret_ty=dtype_of(a)) if "int" in dtype_of(a) else make(a, b)

    try:
        for module, make in before:
            module.pow = wrap(make)
        yield
    finally:
        for module, make in before:
            module.pow = make


_FACADES = (
    "tvm.tirx.script.builder.ir", "tvm.tirx.script.builder", "tvm.tirx.script.parser", "tvm.tirx.script",
    "tvm.script.tirx",
)  # fmt: skip
_JUMPS = {"tirx.break_loop": Break, "tirx.continue_loop": Continue}


class _Restore(StmtMutator):
    """Statements the parser spells differently from us."""

    def visit_Evaluate(self, s):
        jump = _JUMPS.get(op_name(s))
        return jump() if jump else s

    def visit_AllocBuffer(self, s):
        notes = _plain(s.annotations)
        return s if not notes else AllocBuffer(s.buffer, annotations=notes, span=s.span)

    def visit_For(self, s):
        out = self.generic(s)
        return For(out.loop_var, out.min, out.extent, out.kind, out.body, annotations=_plain(out.annotations), span=out.span)


def _plain(annotations) -> dict:
    """Integer constants as Python integers."""
    return {str(k): int(v) if isinstance(v, IntImm) else v for k, v in (annotations or {}).items()}


def _restore(func: PrimFunc, extents: dict) -> PrimFunc:
    body = substitute(_Restore()(func.body), extents)
    scalars = [s.buffer for s in statements(body) if isinstance(s, AllocBuffer) and scope_of(s.buffer) == "local"]
    body = _rename_scalars(body, scalars)
    new = PrimFunc(list(func.params), body, ret_type=func.ret_type)
    return new.with_attr(dict(func.attrs)) if func.attrs else new


def _rename_scalars(body, scalars):
    if not scalars:
        return body
    mapping = {b: decl_buffer(list(b.ty.shape), dtype_of(b), b.name, scope="local.var") for b in scalars}
    return _Realloc(mapping)(substitute(body, mapping))


class _Realloc(StmtMutator):
    def __init__(self, mapping: dict):
        self.mapping = mapping

    def visit_AllocBuffer(self, s):
        return AllocBuffer(self.mapping[s.buffer], span=s.span) if s.buffer in self.mapping else s


__all__ = ["parse", "same_program"]
