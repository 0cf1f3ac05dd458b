"""vectorize_loops: serial loops over elements whose iterations do not need each other are `Parallel` nests.

Before:  for i in range(32): for j in range(128): s[i, j] = max(s[i, j], 0)
After:   for i, j in Parallel(32, 128): s[i, j] = max(s[i, j], 0)

A serial loop is work of the scalar unit, one element after the other. Iterations need each other where one stores what another one stores or reads:
here, of each tile or tensor that is stored to, every access has an index that alone tells iterations apart. A nest may have serial loops inside, which
become part of it, too, where they may: the elements that a loop outside tells apart stand far from each other.

Loops that divide integers by numbers of run time stay: the scalar unit tells of a zero, the vector unit does not.

Where such a nest does not compile, the loop stays (`pipeline`).

Requires: Tile IR without views of tiles. Ensures: values are unchanged.
"""

from __future__ import annotations

import math

from ...analysis.index.affine import affine
from ...analysis.index.sums import add, as_sum
from ...ir import (
    Bind,
    BufferStore,
    For,
    ForKind,
    IfThenElse,
    PrimFunc,
    SeqStmt,
    Stmt,
    StmtMutator,
    TensorLoad,
    const_int,
    exprs,
    free_vars,
    parallel_nest,
    statements,
    structural_equal,
    tirx,
    walk_expr,
)
from ...ir.grids import is_grid_axis
from ...tile.conditions import divides_at_run_time
from ...tile.nests import inline_index_binds, nest_of, rebuild_nest
from ...tile.uses import IN_ORDER, is_parallel, is_scalar_var, loads_in

FEWEST = 16
"""Iterations of loops that are worth instructions of the vector unit. Assumed."""
_SIMPLE = (SeqStmt, Bind, BufferStore, IfThenElse, For)


class _Vectorize(StmtMutator):
    def visit_For(self, s: For):
        if is_parallel(s):
            return self.deepened(s)
        loops, body = _chain(s)
        nest = self.nest(s, loops, body)
        if nest is not None:
            return nest
        out = self.generic(s)
        if any(is_parallel(x) for x in statements(out.body)):
            return out
        shorter = (self.nest(s, loops[:n], _inside(loops, body, n)) for n in reversed(range(1, len(loops))))
        return next(filter(None, shorter), out)

    def nest(self, s: For, loops: list, body: Stmt) -> Stmt | None:
        """A nest of some loops, if they are worth one and their iterations are independent."""
        if not loops or math.prod(n for _, n in loops) < FEWEST or not _is_simple(body) or not _independent(loops, body):
            return None
        return parallel_nest([(x.loop_var, x.extent) for x, _ in loops], body, s.span)

    def deepened(self, s: For) -> Stmt:
        """A nest with the serial loops that are all of its body as axes."""
        if IN_ORDER in s.annotations:
            return s
        loops, body = nest_of(s)
        inner, inmost = _chain(body) if isinstance(body, For) else ([], body)
        if not inner or not _is_simple(inmost) or not _independent(inner, inmost):
            return s
        return rebuild_nest(s, [*loops, *((x.loop_var, x.extent) for x, _ in inner)], inmost)


def _chain(s: Stmt) -> tuple[list, Stmt]:
    """Serial loops of known numbers of iterations, each of which is all of the body of the one before, and the body of the last."""
    loops: list = []
    while isinstance(s, For) and s.kind == ForKind.SERIAL and const_int(s.extent) is not None and not is_grid_axis(s):
        loops.append((s, const_int(s.extent)))
        s = s.body
    return loops, s


def _inside(loops: list, body: Stmt, n: int) -> Stmt:
    """What the first `n` of some loops have inside."""
    return loops[n][0] if n < len(loops) else body


def _is_simple(body: Stmt) -> bool:
    """True for stores of elements, names, branches and serial loops of known numbers of iterations."""
    for s in statements(body):
        if not isinstance(s, _SIMPLE) or isinstance(s, BufferStore) and is_scalar_var(s.buffer):
            return False
        if isinstance(s, For) and (s.kind != ForKind.SERIAL or const_int(s.extent) is None):
            return False
    return not any(_divides(e) for s in statements(body) for e in exprs(s))


def _divides(e) -> bool:
    """True if an expression divides integers by a number of run time."""
    found = []
    walk_expr(e, lambda x: found.append(x) if divides_at_run_time(x) else None)
    return bool(found)


def _independent(loops: list, body: Stmt) -> bool:
    """True if no two iterations of `loops` together use an element that one of them stores."""
    body = inline_index_binds(body)
    inner = {x.loop_var: const_int(x.extent) for x in statements(body) if isinstance(x, For)}
    if any(n is None for n in inner.values()):
        return False
    own = {s.var for s in statements(body) if isinstance(s, Bind)}
    places: dict = {}
    for s in statements(body):
        if isinstance(s, BufferStore):
            places.setdefault(s.buffer, []).append(list(s.indices))
    for s in statements(body):
        for e in exprs(s):
            walk_expr(e, lambda x: places[x.source].append(list(x.indices)) if isinstance(x, TensorLoad) and x.source in places else None)
    extents = {x.loop_var: n for x, n in loops}
    return all(_tell_apart(extents, inner, own, set(places), found) for found in places.values())


def _tell_apart(extents: dict, inner: dict, own: set, written: set, places: list) -> bool:
    """True if each of the variables of `extents` is told by one index, the same in all `places`. inner: extents of loops inside. own: names that are others
    in each iteration. written: what else is."""
    left, sizes = list(extents), {**extents, **inner}
    for indices in _numbers(places):
        forms = [affine(i, list(sizes)) for i in indices]
        if None in forms or any(f.coeffs != forms[0].coeffs for f in forms[1:]):
            continue
        if any(free_vars(f.base) & own or any(x.source in written for x in loads_in(f.base)) for f in forms):
            continue
        beside = [_distance(f.base, forms[0].base) for f in forms]
        if None not in beside and _tells(forms[0].coeffs, sizes, max(beside) - min(beside)):
            left = [v for v in left if v not in forms[0].coeffs]
    return not left


def _numbers(places: list):
    """For each dimension the indices of elements there; for two that are quotient and remainder of a number everywhere, that number."""
    yield from zip(*places)
    for pairs in zip(*([*zip(p, p[1:])] for p in places)):
        if all(_of_one_number(*pair) and structural_equal(pair[0].b, pairs[0][0].b) for pair in pairs):
            yield [quotient.a for quotient, _ in pairs]


def _of_one_number(a, b) -> bool:
    """True for quotient and remainder of the same division."""
    return isinstance(a, tirx.FloorDiv) and isinstance(b, tirx.FloorMod) and structural_equal(a.a, b.a) and structural_equal(a.b, b.b)


def _distance(a, b) -> int | None:
    """How much larger one index is than another one; None if that is not known."""
    if structural_equal(a, b):
        return 0
    difference = add(as_sum(a, exact=True), as_sum(b, exact=True), -1)
    return None if difference.terms else difference.const


def _tells(coeffs: dict, sizes: dict, beside: int) -> bool:
    """True if a sum with these coefficients is another one for other values of its variables, and further than `beside` from it: each step of one is longer
    than all that shorter ones add up to."""
    reach = beside
    for v, c in sorted(coeffs.items(), key=lambda term: abs(term[1])):
        if abs(c) <= reach:
            return False
        reach += abs(c) * (sizes[v] - 1)
    return True


def vectorize_loops(func: PrimFunc, allowed: bool = True) -> PrimFunc:
    """Apply to a Tile IR function, if that is `allowed`."""
    if not allowed:
        return func
    return func.with_body(_Vectorize()(func.body))


__all__ = ["vectorize_loops"]
