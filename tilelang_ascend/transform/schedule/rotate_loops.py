"""rotate_loops: late statements of a loop run beside the early ones of a later iteration.

Before:  for k in range(n) [skew "0 0 1"]: gemm(…, s[k % 2]); p[k % 2] = f(s[k % 2]); gemm(p[k % 2], …)
After:   if n >= 1:
             gemm(…, s[0]); p[0] = f(s[0])
             for k in range(n - 1): gemm(…, s[(k + 1) % 2]); p[(k + 1) % 2] = f(s[(k + 1) % 2]); gemm(p[k % 2], …)
             gemm(p[(n - 1) % 2], …)

What passes from an early statement to one that is d iterations late needs d + 1 versions. A loop whose tiles have not got them stays as it is.

Requires: versioned Tile IR with the annotations of `skew_stages`. Ensures: no loop is annotated.
"""

from __future__ import annotations

from ...ir import (
    AllocBuffer,
    Bind,
    For,
    IfThenElse,
    PrimFunc,
    StmtMutator,
    const_int,
    dtype_of,
    imm,
    renew,
    seq,
    statements,
    stmts_of,
    substitute,
)
from ...tile.uses import SKEW, lateness, uses_of


class _Rotate(StmtMutator):
    def visit_For(self, s: For):
        if SKEW not in s.annotations:
            return self.generic(s)
        notes = {k: v for k, v in dict(s.annotations).items() if k != SKEW}
        late = lateness(s)
        body = stmts_of(s.body)
        assert len(body) == len(late), f"{len(late)} offsets for {len(body)} statements"
        plain = For(s.loop_var, s.min, s.extent, s.kind, s.body, annotations=notes, span=s.span)
        return self.rotated(plain, body, late) if _enough_versions(body, late) else plain

    def rotated(self, s: For, body: list, late: list):
        distance, kind = max(late), dtype_of(s.loop_var)
        number = lambda n: imm(n, kind)  # noqa: E731
        allocs = [x for x in body if isinstance(x, AllocBuffer)]
        parts = [(x, n) for x, n in zip(body, late) if not isinstance(x, AllocBuffer)]

        def part(offset: int, iteration):
            chosen = [x for x, n in parts if n == offset or isinstance(x, Bind)]
            return renew(substitute(seq(chosen), {s.loop_var: iteration}))

        k, end = s.loop_var, s.min + s.extent
        steady = seq(part(0, k + number(distance)), part(distance, k))
        out = For(k, s.min, s.extent - number(distance), s.kind, steady, annotations=dict(s.annotations), span=s.span)
        for n in range(distance, 0, -1):
            out = seq(part(0, s.min + number(n - 1)), out, part(distance, end - number(n)))
            known = const_int(s.extent)
            out = out if known is not None and known >= n else IfThenElse(s.extent >= number(n), out, None, span=s.span)
        return seq(allocs, out)


def _enough_versions(body: list, late: list) -> bool:
    """True if every tile and workspace that early and late statements share, and some of them write, has a version for each of the
    iterations in between and both ends."""
    uses = [uses_of(s) for s in body]
    early, behind = (set().union(*(u.all for u, n in zip(uses, late) if bool(n) == side)) for side in (False, True))
    written = set().union(*(u.writes for u in uses))
    return all((const_int(b.ty.shape[0]) or 0) > max(late) for b in early & behind & written)


class _InStep(StmtMutator):
    def visit_For(self, s: For):
        s = self.generic(s)
        notes = {k: v for k, v in dict(s.annotations).items() if k != SKEW}
        return For(s.loop_var, s.min, s.extent, s.kind, s.body, annotations=notes, span=s.span) if SKEW in s.annotations else s


def without_skew(func: PrimFunc) -> PrimFunc:
    """`func` with the statements of every loop in step; `func` itself if they are."""
    skewed = any(isinstance(s, For) and SKEW in s.annotations for s in statements(func.body))
    return func.with_body(_InStep()(func.body)) if skewed else func


def rotate_loops(func: PrimFunc) -> PrimFunc:
    """Apply to a Tile IR function with versions."""
    return func.with_body(_Rotate()(func.body))


__all__ = ["rotate_loops", "without_skew"]
