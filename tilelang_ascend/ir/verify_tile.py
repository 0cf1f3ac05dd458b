"""Rules of Tile IR (docs/ir.md section 1)."""

from __future__ import annotations

from dataclasses import dataclass

from .base import AllocBuffer, BufferStore, Evaluate, For, ForKind, PrimFunc, TensorRegion
from .build import const_int, op_name, scope_of
from .wellformed import Problem, WellFormed, is_static

SCOPES = ("shared", "local.fragment", "local.var", "global")
REDUCTIONS = ("sum", "max", "min", "abssum", "absmax", "any", "all", "bitand", "bitor", "bitxor")
_FLAG = (0, 1)
MAX_PRINTED = 256


@dataclass(frozen=True)
class TileOp:
    """Shape of a tile op: `regions` leading region arguments, then up to `values` scalars, and legal attributes."""

    regions: int
    values: tuple[int, int] = (0, 0)
    attrs: tuple[str, ...] = ()


OPS: dict[str, TileOp] = {
    "copy": TileOp(2),
    "fill": TileOp(1, (1, 1)),
    "gemm": TileOp(3, (1, 1), ("transpose_A", "transpose_B")),
    "im2col": TileOp(2, (2, 2), ("kernel", "stride", "dilation", "pad")),
    "reduce": TileOp(2, (0, 0), ("kind", "dim", "clear")),
    "cumsum": TileOp(2, (0, 0), ("dim", "reverse")),
    "cummax": TileOp(2, (0, 0), ("dim", "reverse")),
    "argsort": TileOp(2),
    "atomic_add": TileOp(1, (0, 1)),
    "atomic_max": TileOp(1, (0, 1)),
    "atomic_min": TileOp(1, (0, 1)),
    "print": TileOp(1, (0, MAX_PRINTED), ("format", "desc")),
    "printf": TileOp(0, (0, MAX_PRINTED), ("format",)),
    "device_assert": TileOp(0, (1, MAX_PRINTED), ("format",)),
    "assume": TileOp(0, (1, 1)),
    "view": TileOp(2),
}
_MAY_HAVE_MORE_REGIONS = ("atomic_add", "atomic_max", "atomic_min")
_LEGAL_ATTRS = {
    "transpose_A": _FLAG,
    "transpose_B": _FLAG,
    "clear": _FLAG,
    "reverse": _FLAG,
    "kind": REDUCTIONS,
}


class _TileVerifier(WellFormed):
    def __init__(self, func: PrimFunc):
        super().__init__(func)
        self.grid_depth: list[int] = []

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
        name = op_name(s)
        if not name.startswith("tl."):
            self.report("op", f"{name} is no tile op", s.span)
            return
        short = name.removeprefix("tl.")
        if short not in OPS:
            self.report("op", f"{name} is unknown; tile ops: {', '.join(OPS)}", s.span)
            return
        self.arguments(short, OPS[short], s)
        self.attributes(short, OPS[short], s)

    def arguments(self, name: str, shape: TileOp, s: Evaluate) -> None:
        args = list(s.value.args)
        regions = sum(isinstance(a, TensorRegion) for a in args)
        leading = all(isinstance(a, TensorRegion) for a in args[: shape.regions])
        extra = 1 if name in _MAY_HAVE_MORE_REGIONS else 0
        low, high = shape.values
        if not leading or regions > shape.regions + extra or not low <= len(args) - shape.regions <= high:
            self.report(
                "arguments",
                f"tl.{name} takes {shape.regions} region(s) and {low}..{high} value(s); it has {args}",
                s.span,
            )

    def attributes(self, name: str, shape: TileOp, s: Evaluate) -> None:
        attrs = dict(s.value.attrs) if s.value.attrs else {}
        if set(attrs) != set(shape.attrs):
            self.report("attributes", f"tl.{name} has attributes {sorted(attrs)}, needs {sorted(shape.attrs)}", s.span)
        for key, value in attrs.items():
            legal = _LEGAL_ATTRS.get(str(key))
            plain = (
                value
                if isinstance(value, (str, int))
                else (const_int(value) if const_int(value) is not None else str(value))
            )
            if legal is not None and plain not in legal:
                self.report("attributes", f"tl.{name}: {key} = {plain!r} is none of {list(legal)}", s.span)


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


__all__ = ["verify_tile"]
