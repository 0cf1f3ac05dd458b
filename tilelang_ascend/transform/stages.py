"""The stages between the front end and the emitter, and what each may contain.

tile        what the user said: buffers have no memory, ops have no core
placed      every buffer has a memory, every statement a core
mapped      one loop over the tiles of a block instead of a grid; vector work divided between the cores of a block
versioned   buffers have a leading dimension of versions
combined    instructions of both cores in one function
split       one function for each kind of core (`ir/verify_ascend.py` knows the rest of its rules)
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from ..ir import AllocBuffer, Bind, Evaluate, For, IRModule, const_int, op_name, scope_of, statements
from ..ir.wellformed import Problem, VerificationError
from ..isa import SCOPES
from ..tile import TABLE, VIEW, ZERO_ACCUMULATOR, TileOp
from ..tile.uses import BEHIND, CHAINED, SKEW


class Stage(enum.Enum):
    TILE = "tile"
    PLACED = "placed"
    MAPPED = "mapped"
    VERSIONED = "versioned"
    COMBINED = "combined"
    SPLIT = "split"


_USER = frozenset({"shared", "local.fragment"})
_TILES = frozenset({"shared.ub", "shared.l1", "local.l0c"})
_ANYWHERE = frozenset({"local.var", "global", ""})
_OPS = frozenset(TABLE.values())
_LOOPS = frozenset({"tl.parallel", "tl.count", "tl.in_order", "num_stages", "tl.slow"})
_GRID = frozenset({"tl.grid"})
_PART = frozenset({"tl.part"})
_UNORDERED = frozenset({"tl.unordered"})
_BLOCKS = _UNORDERED | {"tl.persistent", "tl.paired"}


@dataclass(frozen=True)
class Rules:
    """What may occur: memories of buffers, tile ops, instructions (also in the values of variables), and annotations of loops."""

    scopes: frozenset
    ops: frozenset[TileOp]
    instructions: bool
    loops: frozenset


RULES = {
    Stage.TILE: Rules(_USER | _ANYWHERE, _OPS - {ZERO_ACCUMULATOR}, False, _LOOPS | _GRID),
    Stage.PLACED: Rules(_TILES | _ANYWHERE, _OPS - {ZERO_ACCUMULATOR, VIEW}, False, _LOOPS | _GRID | _PART | _UNORDERED),
    Stage.MAPPED: Rules(_TILES | _ANYWHERE, _OPS - {ZERO_ACCUMULATOR, VIEW}, False, _LOOPS | _BLOCKS | {SKEW, CHAINED, BEHIND}),
    Stage.VERSIONED: Rules(_TILES | _ANYWHERE, _OPS - {VIEW}, False, _LOOPS | _BLOCKS | {SKEW, CHAINED, BEHIND}),
    Stage.COMBINED: Rules(frozenset(SCOPES) | _ANYWHERE, frozenset(), True, _BLOCKS | {"num_stages"}),
    Stage.SPLIT: Rules(frozenset(SCOPES) | _ANYWHERE, frozenset(), True, _BLOCKS | {"num_stages"}),
}
_FIRST_OF_BLOCKS = frozenset({"ascend.get_block_idx", "ascend.get_sub_block_idx", "ascend.get_block_num"})
"""What names the core, also where the rest is tile ops."""


def problems(ir, stage: Stage) -> list[Problem]:
    """What is not legal in a function, or in the functions of a module, of a stage."""
    found: list[Problem] = []
    rules = RULES[stage]
    for func in ir.functions.values() if isinstance(ir, IRModule) else [ir]:
        for s in statements(func.body):
            found += _statement(s, stage, rules)
    return found


def _statement(s, stage: Stage, rules: Rules):
    kind = type(s)
    if kind is AllocBuffer:
        scope = scope_of(s.buffer)
        if scope not in rules.scopes:
            yield Problem("scope", f"{s.buffer.name} is in {scope!r}; legal: {', '.join(sorted(filter(None, rules.scopes)))}", s.span)
        elif stage is Stage.VERSIONED and scope in _TILES and const_int(s.buffer.ty.shape[0]) is None:
            yield Problem("versions", f"{s.buffer.name} has no number of versions", s.span)
        elif rules.instructions and scope in SCOPES and len(s.buffer.ty.shape) != 2:
            yield Problem("shape", f"{s.buffer.name} is not [versions, elements]", s.span)
    elif kind is For:
        unknown = {str(name) for name in s.annotations} - rules.loops
        if unknown:
            yield Problem("annotation", f"the loop over {s.loop_var.name} says {', '.join(sorted(unknown))}", s.span)
    elif (kind is Evaluate or kind is Bind) and (name := op_name(s.value)) is not None:
        record = TABLE.get(name)
        legal = (
            record in rules.ops if record is not None else not name.startswith("ascend.") or rules.instructions or name in _FIRST_OF_BLOCKS
        )
        if not legal:
            yield Problem("op", f"{name} does not occur in this stage", s.span)


def check_stage(ir, stage: Stage, after: str) -> None:
    """Raise unless `ir`, left by the pass `after`, is legal.

    Raises:
        VerificationError: listing every broken rule.
    """
    found = problems(ir, stage)
    if found:
        raise VerificationError(f"{stage.value} IR after {after}", found)


__all__ = ["RULES", "Rules", "Stage", "check_stage", "problems"]
