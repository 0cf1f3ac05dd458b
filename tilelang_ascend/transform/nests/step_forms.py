"""Other ways to write an attention loop, so that several of its steps can be one.

* Names of what differs from step to step are written out:
      kv = table[b, k] * 64; copy(K[kv : +64], k_s)            ->  copy(K[table[b, k] * 64 : +64], k_s)
* A branch around an element-wise loop is a choice in it:
      if k == 0: Parallel: s[i, j] = if_then_else(j >= n, -inf, s[i, j])  ->  Parallel: s[i, j] = if_then_else(k == 0 and j >= n, -inf, s[i, j])
* A loop that takes keys from the last to the first takes them from the first to the last; who asks has to know that it does not matter:
      for r in range(n): … K[(n - 1 - r) * 64 : +64] …         ->  for r in range(n): … K[r * 64 : +64] …
"""

from __future__ import annotations

import math

from ...analysis.index.sums import SUMS, Sum, constant, reader
from ...analysis.tiles.split_axis import op_regions
from ...ir import (
    Bind,
    BufferLoad,
    BufferStore,
    For,
    IfThenElse,
    Range,
    Stmt,
    StmtMutator,
    Var,
    choice_of,
    const_int,
    dtype_of,
    expr_children,
    exprs,
    free_vars,
    imm,
    is_choice,
    map_children,
    seq,
    statements,
    stmts_of,
    structural_equal,
    substitute,
    substitute_expr,
    sym,
    tirx,
)
from ...tile.nests import is_own, nest_of, rebuild_nest
from ...tile.uses import is_parallel, loads_in, on_chip, uses_of

_BITS = 32
_FAR = 1 << 10
"""Steps over which the growth of an index is measured: some grow once in several of them."""


def other_form(loop: For, most: int) -> For | None:
    """`loop`, of `most` steps at most, written as above; None if it cannot be."""
    k = loop.loop_var
    if const_int(loop.min) != 0 or loads_in(loop.extent) or dtype_of(k) != "int32" or dtype_of(loop.extent) != "int32":
        return None
    body = _written_out(loop.body, k)
    if body is None:
        return None
    if _falls(body, k):
        body = substitute(body, {k: loop.extent - 1 - k})
    body = _Plain(k, most)(body)
    elsewhere = [x for s in stmts_of(body) if not isinstance(s, IfThenElse) for y in statements(s) for e in exprs(y) for x in loads_in(e)]
    out = [y for s in stmts_of(body) for y in (_choices(s, elsewhere) if isinstance(s, IfThenElse) else [s])]
    if any(isinstance(s, IfThenElse) for s in out):
        return None
    return For(k, loop.min, loop.extent, loop.kind, seq(out), annotations=dict(loop.annotations), span=loop.span)


def most_by_tables(loop: For) -> float:
    """How many steps a loop may have for the elements it reads of tensors to lie there, if everything else in indices is 0; infinitely many if no index tells.
    What it loads tells nothing: several sequences may lie in one tensor."""
    found = [math.inf]
    for s in statements(loop.body):
        for e in exprs(s):
            for x in loads_in(e):
                for i, n in zip(x.indices, x.source.ty.shape if not on_chip(x.source) else ()):
                    each = _slope(i, loop.loop_var) if const_int(n) is not None else 0
                    found += [math.ceil(const_int(n) / each)] if each > 0 else []
    return min(found)


def _slope(index, k: Var) -> float:
    """By how much an index grows from one step to the next; 0 if that is not known."""
    if k not in free_vars(index) or not _has_numbers(index):
        return 0
    others = {v: imm(0, dtype_of(v)) for v in free_vars(index) if not v.same_as(k)}
    first, last = (const_int(sym.Analyzer().simplify(substitute_expr(index, {**others, k: imm(n)}))) for n in (0, _FAR))
    return 0 if None in (first, last) else (last - first) / _FAR


def _has_numbers(index) -> bool:
    """True if an index is a number whatever numbers its variables are: it divides by constants alone, and reads nothing."""
    if isinstance(index, (tirx.FloorDiv, tirx.FloorMod)) and not const_int(index.b):
        return False
    known = isinstance(index, (Var, tirx.IntImm, tirx.Cast, tirx.Min, tirx.Max, tirx.FloorDiv, tirx.FloorMod, *SUMS))
    return known and all(map(_has_numbers, expr_children(index)))


def _written_out(body: Stmt, k: Var) -> Stmt | None:
    """The statements of a step without names for what differs from step to step; None if a name is of what the step changes."""
    written, names, out = uses_of(body).writes, {}, []
    for s in stmts_of(body):
        if isinstance(s, Bind):
            value = substitute_expr(s.value, names)
            if k in free_vars(value):
                if "int" not in dtype_of(s.var) or any(x.source in written for x in loads_in(value)):
                    return None
                names[s.var] = value
                continue
        out.append(substitute(s, names))
    return seq(out)


def _falls(body: Stmt, k: Var) -> bool:
    """True if what is read of tensors lies the further in front, the higher the number of the step."""
    signs: set = set()

    def see(e) -> None:
        if isinstance(e, (tirx.Add, tirx.Sub, tirx.Mul, tirx.Cast)) and dtype_of(e) in ("int32", "uint32"):
            signs.update((c > 0) - (c < 0) for atom, c in _modular(e).terms if atom.same_as(k))
            for atom, _ in _modular(e).terms:
                see(atom)
            return
        for x in expr_children(e):
            see(x)

    for s in statements(body):
        loads = [x for e in exprs(s) for x in loads_in(e) if not on_chip(x.source)]
        regions = [r for r in op_regions(s) if not on_chip(r.source)]
        for index in [*(i for x in loads for i in x.indices), *(x.min for r in regions for x in r.region)]:
            see(index)
    return signs == {-1}


def _modular(e) -> Sum:
    """An integer of 32 bits as a sum, as it is but for multiples of 2**32."""
    found = _READ(e)
    return Sum(_signed(found.const), tuple((a, _signed(c)) for a, c in found.terms if _signed(c)))


def _signed(n: int) -> int:
    half = 1 << (_BITS - 1)
    return (n + half) % (2 * half) - half


def _same_bits(e: tirx.Cast) -> bool:
    return all(dtype_of(x) in ("int32", "uint32") for x in (e, e.value))


_READ = reader(constant, lambda e: Sum(0, ((e, 1),)), _same_bits)


class _Plain(StmtMutator):
    """Sums that cannot wrap, as sums of signed numbers; quotients as short as that makes them. k: the number of a step, of `most`."""

    def __init__(self, k: Var, most: int):
        self.k, self.known = k, sym.Analyzer()
        self.known.bind(k, Range.from_min_extent(imm(0), imm(max(1, min(most, (1 << (_BITS - 1)) - 1)))))

    def expr(self, e):
        if isinstance(e, tirx.Cast) and dtype_of(e) == "int32" and dtype_of(e.value) == "uint32":
            found = _modular(e)
            if all(dtype_of(a) == "int32" and isinstance(a, Var) for a, _ in found.terms):
                out = found.expr()
                out = imm(out) if isinstance(out, int) else out
                bound = self.known.const_int_bound(out)
                if -(1 << (_BITS - 1)) <= int(bound.min_value) and int(bound.max_value) < 1 << (_BITS - 1):
                    return out
        out = map_children(e, self.expr)
        if isinstance(out, (tirx.FloorDiv, tirx.FloorMod)) and not loads_in(out) and free_vars(out) <= {self.k}:
            return self.known.simplify(out)
        return out


def _choices(s: IfThenElse, elsewhere: list) -> list[Stmt]:
    """A branch around element-wise loops as choices in them; the branch, if that is not all that it is around, or not all it says may be asked at any
    time. elsewhere: what is read in any case."""
    if loads_in(s.condition):
        return [s]
    out: list[Stmt] = []
    for condition, arm in ((s.condition, s.then_case), (tirx.Not(s.condition), s.else_case)):
        for nest in [] if arm is None else stmts_of(arm):
            if not is_parallel(nest):
                return [s]
            out.append(_guarded(nest, condition, elsewhere))
    return out


def _guarded(nest: For, condition, elsewhere: list) -> For:
    """A nest that does nothing where a condition does not hold."""
    loops, body = nest_of(nest)
    if not isinstance(body, BufferStore):
        return rebuild_nest(nest, loops, IfThenElse(condition, body, None, span=nest.span))
    own, value = BufferLoad(body.buffer, list(body.indices)), body.value
    if is_choice(value):
        asked, yes, no = choice_of(value)
        if is_own(no, body) and all(any(structural_equal(x, y) for y in elsewhere) for x in loads_in(asked)):
            condition, value = tirx.And(condition, asked), yes
    chosen = tirx.if_then_else(condition, value, own)
    return rebuild_nest(nest, loops, BufferStore(body.buffer, chosen, list(body.indices), span=body.span))


__all__ = ["most_by_tables", "other_form"]
