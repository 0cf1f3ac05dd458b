"""part_products: products whose results or operands do not fit their memory are made in parts, one behind the other.

Before:  copy(K[k * 512 : +512], k_s); fill(s, 0); gemm(q_s, k_s, s); copy(s, ws_s)  # s: 128 x 512
         copy(ws_p, p_s); copy(V[k * 512 : +512], v_s); fill(o, 0); gemm(p_s, v_s, o); copy(o, ws_o)
After:   for part in range(8): copy(K[k * 512 + part * 64 : +64], k_s); fill(s, 0); gemm(q_s, k_s, s); copy(s, ws_s[:, part * 64 : +64])
         for part in range(8):
             copy(ws_p[:, part * 64 : +64], p_s); copy(V[k * 512 + part * 64 : +64], v_s); gemm(p_s, v_s, o, clear_accum=part == 0)
         copy(o, ws_o)

What crosses to the vector cores stays as long as the step is: it costs a way between the cores for each step, not for each part. A product is
divided along the columns of its result, or along what it sums up, whose parts the accumulator adds up. Keys that are values as well have to stay whole
for that; where L1 does not hold them, each product loads its own (own_loads.py). Where it does, the result alone is divided, and one part is stored
while the next is multiplied:
    fill(o, 0); gemm(p_s, v_s, o); copy(o, ws_o)  # o: 64 x 512
->  for part in range(4): fill(o', 0); gemm(p_s, v_s[:, part * 128 : +128], o'); copy(o', ws_o[:, part * 128 : +128])

Requires: mapped Tile IR after split_rows, before skew_stages. Ensures: the same values but for the rounding of sums; two versions of what is
divided fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...analysis.tiles.core_kinds import works_on_cube
from ...analysis.tiles.home_loops import overwritten_first
from ...analysis.tiles.piece_loads import PieceLoad
from ...analysis.tiles.split_axis import SplitPlan, copy_dims, op_regions, plan_along, spans
from ...ir import (
    For,
    ForKind,
    PrimFunc,
    Stmt,
    StmtMutator,
    Var,
    const_int,
    full_region,
    imm,
    loop,
    redeclared,
    renew,
    scope_of,
    seq,
    statements,
    stmts_of,
    tirx,
)
from ...ir.functions import fixed_bytes
from ...isa.base import SCOPES
from ...isa.units import FRACTAL_ROWS
from ...tile import COPY, FILL, GEMM, is_op
from ...tile.clears import gemm_args, with_clear
from ...tile.uses import covers_whole, is_parallel, moved_regions, used_outside, uses_of
from .divided_body import DividedBody, SlicedBody
from .gathered import gathered
from .own_loads import shared_tiles, with_own_loads

VERSIONS = 2
"""Of what is divided: one part is loaded or stored while another one is computed."""
SMALLEST_PART = 32
"""Columns: what L0C gives to the vector cores in one transfer has rows of at least 64 bytes."""
WIDE_PART = 64
"""Columns: loading the first operand of fewer takes as long as multiplying them."""
HELD_VERSIONS = 3
"""Of a tile that products on either side of vector work share: loops keep it while two more iterations begin (`skew_stages`)."""
LOAD_BYTES = 32768
"""Of a tile in L1, at least: with smaller loads, one that waits for its tile to be free comes too late for the next product."""
MEMORIES = ("local.l0c", "shared.l1")


def part_products(func: PrimFunc, chip, parting=None) -> PrimFunc:
    """Apply to a mapped Tile IR function. parting: an object whose `narrow` becomes true if all products of a loop are made in parts of less than
    `WIDE_PART` columns; None: nobody asks."""
    part = _Part(func.body, chip)
    body = part(func.body)
    if parting is not None:
        parting.narrow |= part.narrow
    if not part.smaller:
        return func
    tiles = {b: [part.smaller.get(x, x) for x in (b, *part.beside.get(b, ()))] for b in part.smaller | part.beside}
    return func.with_body(redeclared(body, tiles))


@dataclass(frozen=True)
class _Product:
    """Statements of a body that can be divided together, along `extent` columns or summands."""

    plan: SplitPlan
    stmts: list[Stmt]
    extent: int

    def is_narrow(self, parts: int) -> bool:
        """True if each of its parts makes few columns of a result."""
        return any(scope_of(b) == "local.l0c" for b in self.plan.dims) and self.extent // parts < WIDE_PART


class _Part(StmtMutator):
    """smaller: tile -> what stands for it. beside: tile -> further ones of its kind. narrow: see `part_products`."""

    def __init__(self, body: Stmt, chip):
        self.body, self.smaller, self.beside, self.narrow = body, {}, {}, False
        self.rooms = {scope: chip.capacity_bytes(SCOPES[scope]) for scope in MEMORIES}

    def visit_For(self, s: For):
        s = self.generic(s)
        if is_parallel(s) or s.kind != ForKind.SERIAL or not any(is_op(x, GEMM) for x in stmts_of(s.body)):
            return s
        body, outside = stmts_of(s.body), self.outside(s)
        fits = all(_bytes(s.body, {}, scope) <= room for scope, room in self.rooms.items())
        shared = shared_tiles(body, outside)
        if _bytes(s.body, {}, "shared.l1") + (HELD_VERSIONS - 1) * sum(map(fixed_bytes, shared)) <= self.rooms["shared.l1"]:
            shared = {}
        ways = [] if fits else [(body, {})]
        ways += [with_own_loads(body, shared)] if shared else []
        for body, beside in ways:
            for products in _choices(_products(body, outside), beside):
                divided = {b: p.extent for p in products for b in p.plan.dims}
                loads = [(load, p.plan) for p in products for x in p.stmts if (load := PieceLoad.of(x)) is not None]
                pieces = [load for load, plan in loads if plan.dims[load.tile] == load.dim]
                parts = self.least_parts(seq(body), divided, max(divided.values(), default=0) // SMALLEST_PART, pieces)
                if parts is not None:
                    for new, old in beside.items():
                        self.beside.setdefault(old, []).append(new)
                    self.narrow |= all(p.is_narrow(parts) for p in products)
                    return self.parted(s, body, products, parts)
        return self.results_parted(s)

    def least_parts(self, body: Stmt, divided: dict, most: int, pieces: Sequence[PieceLoad] = ()) -> int | None:
        """The least number of equal parts of tiles, of the extents `divided`, with which all fit; None if `most` are not enough. pieces: how some of them are
        loaded along what is divided."""
        for parts in range(2, most + 1):
            even = all(n % (parts * FRACTAL_ROWS) == 0 for n in divided.values()) and all(
                x.divides(divided[x.tile] // parts) for x in pieces
            )
            if even and self.fit(body, dict.fromkeys(divided, parts)):
                return parts
        return None

    def results_parted(self, s: For) -> For:
        """The loop with results alone divided of which L0C does not hold two: no product would run while one is stored."""
        outside, room = self.outside(s), self.rooms["local.l0c"]
        made = {c: r for x in stmts_of(s.body) if is_op(x, GEMM) and (r := _result(s.body, x)) for c in (x.value.args[2].source,)}
        results = {c: r for c, r in made.items() if c not in outside and VERSIONS * fixed_bytes(c) > room}
        divided = {c: r.extent for c, r in results.items()}
        parts = self.least_parts(s.body, divided, min(divided.values(), default=0) // SMALLEST_PART)
        if parts is None:
            return s
        body = list(stmts_of(s.body))
        for c, r in results.items():
            found = gathered(body, {body.index(x) for x in r.stmts})
            if found is None:  # What was gathered before stands between its statements now.
                continue
            front, behind = found
            part = Var("part", "int32")
            sliced = SlicedBody(r.plan, part, parts, {c})
            inner = renew(sliced(seq(r.stmts)))
            self.smaller[c] = sliced.buffers[c]
            body = [*front, loop(part, parts, inner, span=r.stmts[0].span), *behind]
        return For(s.loop_var, s.min, s.extent, s.kind, seq(body), annotations=dict(s.annotations), span=s.span)

    def fit(self, body: Stmt, parts: dict) -> bool:
        return all(_bytes(body, parts, scope) <= room for scope, room in self.rooms.items())

    def together(self, body: Stmt, products: list[_Product], parts: int) -> int:
        """Parts of operands that one load brings: as many as make it long enough."""
        operands = [b for p in products for b in p.plan.dims if scope_of(b) != "local.l0c"]
        results = {b: parts for p in products for b in p.plan.dims if scope_of(b) == "local.l0c"}
        best = 1
        for n in range(2, parts):
            if parts % n == 0 and all(fixed_bytes(b) // parts * best < LOAD_BYTES for b in operands):
                best = n if self.fit(body, results | {b: parts // n for b in operands}) else best
        return best

    def outside(self, s: For) -> set:
        """What statements outside of a loop use."""
        return used_outside(self.body, set(statements(s.body)))

    def parted(self, s: For, body: list[Stmt], products: list[_Product], parts: int) -> Stmt:
        """The loop `s` with `body`, whose products are divided."""
        together = self.together(seq(body), products, parts)
        for p in products:
            found = gathered(body, {body.index(x) for x in p.stmts})
            if found is None:  # What was gathered before stands between its statements now.
                continue
            front, behind = found
            part = Var("part", "int32")
            front, stmts = _starting_anew(front, p, part)
            divided = DividedBody(p.plan, part, parts // together, with_cube=True)
            inner = renew(divided(seq(stmts)))
            self.smaller |= divided.buffers
            if together > 1:
                inner = self.in_pieces(p, inner, divided.buffers, together)
            body = [*front, loop(part, parts // together, inner, span=p.stmts[0].span), *behind]
        return For(s.loop_var, s.min, s.extent, s.kind, seq(body), annotations=dict(s.annotations), span=s.span)

    def in_pieces(self, product: _Product, body: Stmt, buffers: dict, pieces: int) -> Stmt:
        """The product of one load in several pieces, of which each has an accumulator of its own, or goes on with that of the one before."""
        plan = SplitPlan({buffers[b]: d for b, d in product.plan.dims.items()})
        stmts = stmts_of(body)
        loads = [x for x in stmts if _loads(x)]
        piece = Var("piece", "int32")
        own = {b for b in plan.dims if scope_of(b) == "local.l0c"}
        work = [_clearing_once(x, plan, piece) for x in stmts if x not in loads]
        sliced = SlicedBody(plan, piece, pieces, own)
        new = renew(sliced(seq(work)))
        self.smaller |= {old: sliced.buffers[b] for old, b in buffers.items() if b in own}
        return seq(loads, loop(piece, pieces, new, span=stmts[0].span))


def _products(body: list[Stmt], outside: set) -> list[_Product]:
    """All that can be divided in the body of a loop, each tile once. outside: buffers that statements out of it use."""
    out: list[_Product] = []
    for x in body:
        if is_op(x, GEMM):
            taken = {b for p in out for b in p.plan.dims}
            ways = [found for b, d in _axes(x) if (found := _product(body, b, d, outside)) and not taken & found.plan.dims.keys()]
            out += sorted(ways, key=lambda p: sum(map(fixed_bytes, p.plan.dims)))[-1:]
    return out


def _choices(products: list[_Product], beside: dict) -> list[list[_Product]]:
    """Which products to divide, in the order to try: those alone that have loads of their own, so that others take what is loaded for them at once, then all."""
    alone = [p for p in products if p.plan.dims.keys() & beside.keys()]
    return [alone, products] if 0 < len(alone) < len(products) else [products]


def _clearing_once(s: Stmt, plan: SplitPlan, piece: Var) -> Stmt:
    args = gemm_args(s)
    if args is None or args[2].source in plan.dims or const_int(args[3]) == 0:
        return s
    return with_clear(s, tirx.And(args[3], tirx.EQ(piece, imm(0))))


def _starting_anew(front: list[Stmt], product: _Product, part: Var) -> tuple[list[Stmt], list[Stmt]]:
    """`front` and the statements of a product, of which the first part of a sum clears what else a fill in front would have."""
    sums = [x for x in product.stmts if is_op(x, GEMM) and x.value.args[2].source not in product.plan.dims]
    if len(sums) != 1:
        return front, product.stmts
    (s,) = sums
    c = s.value.args[2].source
    at = next((i for i in reversed(range(len(front))) if c in uses_of(front[i]).all), None)
    if at is None or not is_op(front[at], FILL) or not covers_whole(front[at].value.args[0]) or not covers_whole(s.value.args[2]):
        return front, product.stmts
    first = with_clear(s, tirx.EQ(part, imm(0)))
    return front[:at] + front[at + 1 :], [first if x is s else x for x in product.stmts]


def _bytes(body: Stmt, parts: dict, scope: str) -> int:
    """Bytes of the tiles in a memory that `body` uses: two versions of those in `parts` parts, one of the others."""
    used = {b for b in uses_of(body).all if scope_of(b) == scope}
    return sum(VERSIONS * fixed_bytes(b) // parts[b] if b in parts else fixed_bytes(b) for b in used)


def _axes(s: Stmt) -> list[tuple]:
    """((tile, dimension) of a product's columns, of what it sums up)."""
    attrs, (a, _, c) = s.value.attrs, s.value.args[:3]
    return [(c.source, len(c.region) - 1), (a.source, len(a.region) - (2 if int(attrs["transpose_A"]) else 1))]


def _product(body: list[Stmt], buffer, dim: int, outside: set) -> _Product | None:
    """What has to be divided with a dimension of a tile, None if not all that uses it can be."""
    cube = [s for s in body if works_on_cube(s)]
    plan = plan_along(seq(cube), buffer, dim)
    if not plan.dims or plan.nest_vars or plan.dims.keys() & outside or _twice(seq(cube), plan):
        return None
    extents = {const_int(b.ty.shape[d]) for b, d in plan.dims.items()}
    positions = tuple(i for i, s in enumerate(body) if uses_of(s).all & plan.dims.keys())
    group = [body[i] for i in positions]
    if len(extents) != 1 or not all(_divides(s, plan) for s in group) or not _independent(group, plan):
        return None
    if not all(overwritten_first(seq(body), b) for b in plan.dims) or gathered(body, set(positions)) is None:
        return None
    return _Product(plan, group, extents.pop())


def _result(body: Stmt, s: Stmt) -> _Product | None:
    """What makes and stores the result of a product `s`, if parts of it can be one behind the other, from parts of its second operand."""
    b, c = (r.source for r in s.value.args[1:3])
    plan = SplitPlan({c: len(c.ty.shape) - 1, b: len(b.ty.shape) - (2 if int(s.value.attrs["transpose_B"]) else 1)})
    whole = stmts_of(body)
    group = [x for x in whole if c in uses_of(x).all]
    if b == c or s.value.args[0].source == b or len({const_int(t.ty.shape[d]) for t, d in plan.dims.items()}) != 1:
        return None
    if not all(_divides(x, plan) for x in group) or sum(is_op(x, GEMM) for x in group) != 1 or not _independent(group, plan):
        return None
    if not overwritten_first(body, c) or gathered(whole, {whole.index(x) for x in group}) is None:
        return None
    return _Product(plan, group, const_int(c.ty.shape[-1]))


def _twice(cube: Stmt, plan: SplitPlan) -> bool:
    """True if another dimension of some tile would have to be divided, too, as where a tile is multiplied with itself."""
    others = [(b, e) for b, d in plan.dims.items() for e in range(len(b.ty.shape)) if e != d]
    return any(plan_along(cube, b, e).dims.keys() & plan.dims.keys() - {b} for b, e in others if const_int(b.ty.shape[e]) != 1)


def _loads(s: Stmt) -> bool:
    """True for what brings something to L1."""
    return isinstance(s, For) and PieceLoad.of(s) is not None or is_op(s, COPY) and scope_of(s.value.args[1].source) == "shared.l1"


def _divides(s: Stmt, plan: SplitPlan) -> bool:
    """True if a part of what is divided is all that a tile op needs for its part."""
    if (pieces := PieceLoad.of(s)) is not None:
        return any(plan.dims.get(pieces.tile) == b for _, b in copy_dims(pieces.source, full_region(pieces.tile)))
    regions = op_regions(s)
    mine = [r for r in regions if r.source in plan.dims]
    if not is_op(s, COPY, FILL, GEMM) or not all(spans(r, plan.dims[r.source]) for r in mine):
        return False
    if is_op(s, GEMM):
        return all(len(r.region) == 2 for r in regions) and const_int(gemm_args(s)[3]) == 0
    if is_op(s, FILL):
        return True
    src, dst = moved_regions(s)
    if scope_of(src.source) == "local.l0c" and scope_of(dst.source) == "shared.l1":
        return False  # L1 has whole tiles of fractals: what goes there from L0C goes as a whole
    return any(plan.dims.get(src.source) == a or plan.dims.get(dst.source) == b for a, b in copy_dims(src, dst)) and all(
        (plan.dims.get(src.source) == a) == (plan.dims.get(dst.source) == b)
        for a, b in copy_dims(src, dst)
        if src.source in plan.dims and dst.source in plan.dims
    )


def _independent(group: list[Stmt], plan: SplitPlan) -> bool:
    """True if a part finds nothing that another one has left but sums in accumulators."""
    uses = [uses_of(s) for s in group]
    for i, (s, u) in enumerate(zip(group, uses)):
        for b in u.writes - plan.dims.keys():
            summed = is_op(s, GEMM) and b == s.value.args[2].source
            if any(b in other.all for j, other in enumerate(uses) if j != i) or b in u.reads and not summed:
                return False
    return True


__all__ = ["part_products"]
