"""Which scalars that vector work computes the cube core needs: what decides whether, how often and where it works.

A statement that reads elements of tiles and holds no cube work (a let, a store to a variable, a loop that searches a row) stays on the vector
cores as a whole: the cube core needs only the scalars it leaves behind.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from ...ir import (
    AllocBuffer,
    Bind,
    Break,
    BufferStore,
    Continue,
    For,
    IfThenElse,
    SeqStmt,
    Stmt,
    While,
    children,
    exprs,
    free_vars,
    statements,
)
from ...tile.jumps import may_leave
from ...tile.uses import is_parallel, is_scalar_var, loads_in, uses_of
from .core_kinds import works_on_cube
from .split_axis import copy_dims, is_ub
from .split_globals import GlobalConflicts


def carried_elements(body: Stmt, has_function: Callable[..., bool]) -> dict:
    """Statement of a placed body -> the lets and scalar variables, sorted by name, that it computes for the cube core of what only vector cores know:
    elements of tiles, and of tensors they write (`written_and_read`), or by functions; `has_function` tells which expressions call one that
    only the vector unit has."""
    found = _Found(has_function, written_and_read(body))
    found.see(body, ())
    names = found.needed()
    wanted = {s: sorted(sets & names, key=lambda v: v.name) for s, (sets, _) in found.suppliers.items()}
    return {s: scalars for s, scalars in wanted.items() if scalars}


def written_and_read(body: Stmt) -> set:
    """Tensors elements of which scalars are read from, and which vector work writes in the same block: the core that writes can tell when."""
    return {read.buffer for read, _ in GlobalConflicts(body, copy_dims, is_ub).scalars()}


def scalars_set(s: Stmt) -> set:
    """Names that a statement gives values which are read outside of it."""
    if isinstance(s, Bind):
        return {s.var}
    inside = statements(s)
    own = {x.buffer for x in inside if isinstance(x, AllocBuffer)}
    return {x.buffer for x in inside if isinstance(x, BufferStore) and is_scalar_var(x.buffer)} - own


@dataclass
class _Found:
    """What a walk finds, each with the loops and branches around it.

    Attributes:
        has_function, shared: see `carried_elements`, `written_and_read`.
        work: what runs on the cube core.
        suppliers: statement of the vector cores -> (names it sets from elements of tiles, around).
        setters: (name, statement, around) of other scalars, which every core computes.
        jumps: (loop that is left, what is around the jump).
    """

    has_function: Callable[..., bool]
    shared: set
    work: list = field(default_factory=list)
    suppliers: dict = field(default_factory=dict)
    setters: list = field(default_factory=list)
    jumps: list = field(default_factory=list)

    def see(self, s: Stmt, around: tuple) -> None:
        if isinstance(s, SeqStmt):
            for x in s.seq:
                self.see(x, around)
        elif isinstance(s, (Break, Continue)):
            self.jumps.append((next(x for x in reversed(around) if isinstance(x, (For, While))), around))
        elif not works_on_cube(s) and not may_leave(s) and self.by_vectors(s):
            self.suppliers[s] = scalars_set(s), around
        elif isinstance(s, (For, While, IfThenElse)) and not is_parallel(s):
            for x in children(s):
                self.see(x, (*around, s))
        elif works_on_cube(s):
            self.work.append((s, around))
        else:
            self.setters += [(name, s, around) for name in scalars_set(s)]

    def by_vectors(self, s: Stmt) -> bool:
        """True if elements of tiles, or functions, get into scalars, or decide, in a statement or below."""
        if is_parallel(s):
            read = any(is_ub(b) for b in uses_of(s).reads)
            return bool(scalars_set(s)) and (read or any(self.has_function(e) for x in statements(s) for e in exprs(x)))
        scalar = isinstance(s, (Bind, For, While, IfThenElse)) or isinstance(s, BufferStore) and is_scalar_var(s.buffer)
        own = scalar and any(self.has_function(e) or any(is_ub(x.source) or x.source in self.shared for x in loads_in(e)) for e in exprs(s))
        return own or any(map(self.by_vectors, children(s)))

    def needed(self) -> set:
        """Names whose values the cube core has to know."""
        names: set = set()
        seen: set = set()
        more = [x for s, around in self.work for x in (s, *around)]
        while more:
            seen.update(more)
            names |= {v for s in more for x in _spoken_by(s) for e in exprs(x) for v in free_vars(e)}
            more = [x for name, s, around in self.setters if name in names for x in (s, *around)]
            more += [x for sets, around in self.suppliers.values() if sets & names for x in around]
            more += [x for loop, around in self.jumps if loop in seen for x in around]
            more = [x for x in more if x not in seen]
        return names


def _spoken_by(s: Stmt) -> list[Stmt]:
    """Statements whose expressions are those of `s`: what stands in a loop has entries of its own, what stands in a nest has not."""
    return statements(s) if is_parallel(s) else [s]


__all__ = ["carried_elements", "scalars_set", "written_and_read"]
