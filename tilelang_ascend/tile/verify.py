"""Rules of Tile IR (docs/ir.md section 1)."""

from __future__ import annotations

from ..ir.base import AllocBuffer, BufferStore, Evaluate, For, ForKind, PrimFunc, TensorRegion
from ..ir.build import attrs_of, const_int, op_name, scope_of
from ..ir.wellformed import Problem, VerificationError, WellFormed, is_static
from .op import TileOp
from .table import TABLE

SCOPES = ("shared", "local.fragment", "local.var", "global")


class _TileVerifier(WellFormed):
    def statement(self, s) -> None:
        if isinstance(s, AllocBuffer):
            self.alloc(s)
        elif isinstance(s, For):
            self.loop(s)
        elif isinstance(s, BufferStore):
            self.store(s)
        elif isinstance(s, Evaluate) and op_name(s) is not None:
            self.tile_op(s)

    def alloc(self, s: AllocBuffer) -> None:
        scope, buffer = scope_of(s.buffer), s.buffer
        if scope not in SCOPES:
            self.report("scope", f"{buffer.name} has scope {scope!r}; legal: {', '.join(SCOPES)}", s.span)
        elif scope != "global" and not is_static(buffer):
            self.report("static-shape", f"on-chip buffer {buffer.name} has the shape {list(buffer.ty.shape)}", s.span)
        elif scope == "local.var" and [const_int(e) for e in buffer.ty.shape] != [1]:
            self.report("scalar-shape", f"scalar {buffer.name} has the shape {list(buffer.ty.shape)}, not (1,)", s.span)

    def loop(self, s: For) -> None:
        if s.kind not in (ForKind.SERIAL, ForKind.PARALLEL):
            self.report("loop", f"loop {s.loop_var.name} is neither SERIAL nor PARALLEL", s.span)
        if "tl.grid" in s.annotations and s.kind != ForKind.SERIAL:
            self.report("grid", f"grid loop {s.loop_var.name} is not SERIAL", s.span)
        if "tl.parallel" in s.annotations and not _parallel_depth(s) >= int(s.annotations["tl.parallel"]):
            self.report(
                "parallel",
                f"tl.parallel = {s.annotations['tl.parallel']} on a nest of {_parallel_depth(s)} loops",
                s.span,
            )

    def tile_op(self, s: Evaluate) -> None:
        record = TABLE.get(op_name(s))
        if record is None:
            self.report("op", f"{op_name(s)} is no tile op; tile ops: {', '.join(TABLE)}", s.span)
            return
        legal = len(self.problems)
        self.arguments(record, s)
        self.attributes(record, s)
        if len(self.problems) == legal and (wrong := record.check(list(s.value.args), attrs_of(s))) is not None:
            self.report("operands", f"{record.op}: {wrong}", s.span)

    def arguments(self, record: TileOp, s: Evaluate) -> None:
        args, operands = list(s.value.args), record.operands
        named = list(zip(args, operands))
        places = all(isinstance(a, TensorRegion) or x.or_value for a, x in named)
        values = args[len(operands) :]
        low, high = record.values
        if len(named) < len(operands) or not places or any(isinstance(v, TensorRegion) for v in values) or not low <= len(values) <= high:
            names = ", ".join(x.name + (" (region or value)" if x.or_value else "") for x in operands)
            self.report("arguments", f"{record.op} takes the regions ({names}) and {low}..{high} value(s); it has {args}", s.span)

    def attributes(self, record: TileOp, s: Evaluate) -> None:
        attrs = dict(s.value.attrs) if s.value.attrs else {}
        if set(attrs) != set(record.attrs):
            self.report("attributes", f"{record.op} has attributes {sorted(attrs)}, needs {sorted(record.attrs)}", s.span)
        for key, value in attrs.items():
            legal = record.attrs.get(str(key))
            plain = value if isinstance(value, (str, int)) else (const_int(value) if const_int(value) is not None else str(value))
            if legal is not None and plain not in legal:
                self.report("attributes", f"{record.op}: {key} = {plain!r} is none of {list(legal)}", s.span)


def _parallel_depth(s) -> int:
    depth = 0
    while isinstance(s, For) and s.kind == ForKind.PARALLEL:
        depth, s = depth + 1, s.body
    return depth


def verify_tile(func: PrimFunc) -> list[Problem]:
    """All broken rules of a Tile IR function; an empty list means it is well formed."""
    problems = _TileVerifier(func).run()
    if not func.attrs or "global_symbol" not in func.attrs:
        problems.append(Problem("attributes", "the function has no global_symbol"))
    return problems


def check_tile(func: PrimFunc, after: str = "the front end") -> PrimFunc:
    """`func`, if it is legal Tile IR.

    Raises:
        VerificationError: listing every broken rule.
    """
    problems = verify_tile(func)
    if problems:
        raise VerificationError(f"Tile IR after {after}", problems)
    return func


__all__ = ["check_tile", "verify_tile"]
