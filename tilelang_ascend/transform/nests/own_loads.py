"""A load for each product, in place of a tile that several of them share.

Before:  copy(KV[k], kv); gemm(q, kv, s); …; gemm(p, kv, o)      # keys that are values as well
After:   copy(KV[k], kv); gemm(q, kv, s); …; copy(KV[k], kv_own); gemm(p, kv_own, o)

A tile in use from the first product to the last cannot be divided along what each of them needs, and lies in L1 while vector statements work in
between. Loaded again, by when L2 has it, each product takes it piece by piece.
"""

from __future__ import annotations

from ...analysis.tiles.piece_loads import PieceLoad
from ...ir import Stmt, decl_buffer, dtype_of, renew, scope_of, substitute
from ...tile import COPY, GEMM, is_op
from ...tile.uses import covers_whole, moved_regions, uses_of


def shared_tiles(body: list[Stmt], outside: set) -> dict:
    """Tile in L1 -> (what loads it, {accumulator: products into it}), of the statements of a loop: tiles that are loaded from a tensor or a workspace
    once, by what would load the same later on, and used by products into several accumulators and nothing else. outside: what is used elsewhere, too."""
    out: dict = {}
    for n, load in enumerate(body):
        tile = _loaded(load)
        if tile is None or scope_of(tile) != "shared.l1" or tile in outside:
            continue
        users = [s for s in body if s is not load and tile in uses_of(s).all]
        written = set().union(*(uses_of(s).writes for s in body[n:]))
        if uses_of(load).reads & written or n > min(map(body.index, users), default=0) or not all(_multiplies(s, tile) for s in users):
            continue
        products: dict = {}
        for s in users:
            products.setdefault(s.value.args[2].source, []).append(s)
        if len(products) > 1:
            out[tile] = load, products
    return out


def _loaded(s: Stmt):
    """The tile of which a statement loads all from a tensor or a workspace, at once or in pieces; None for other statements."""
    if (pieces := PieceLoad.of(s)) is not None:
        return pieces.tile
    source, target = moved_regions(s) if is_op(s, COPY) else (None, None)
    return target.source if source is not None and scope_of(source.source) in ("global", "") and covers_whole(target) else None


def _multiplies(s: Stmt, tile) -> bool:
    return is_op(s, GEMM) and not s.value.args[2].source.same_as(tile)


def with_own_loads(body: list[Stmt], shared: dict) -> tuple[list[Stmt], dict]:
    """(`body` with a load for the products into each accumulator, new tile -> the one it stands beside) of `shared_tiles`."""
    beside: dict = {}
    for old, (load, products) in shared.items():
        for users in list(products.values())[1:]:
            new = decl_buffer(list(old.ty.shape), dtype_of(old), f"{old.name}_own", scope=scope_of(old))
            beside[new] = old
            body = [y for x in body for y in _on(x, load if x is users[0] else None, {old: new} if x in users else {})]
    return body, beside


def _on(s: Stmt, load: Stmt | None, tiles: dict) -> list[Stmt]:
    """`s` on other tiles, behind a load of them if there is one."""
    return [*([] if load is None else [renew(substitute(load, tiles))]), substitute(s, tiles)]


__all__ = ["shared_tiles", "with_own_loads"]
