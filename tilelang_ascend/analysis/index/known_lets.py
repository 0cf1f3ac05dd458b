"""What integer lets of a program are worth, to ask for bounds of what is said with them."""

from __future__ import annotations

from ...ir import Bind, Range, Stmt, dtype_of, imm, op_name, statements, sym
from ...tile.uses import loads_in


def known_lets(body: Stmt, data=None, blocks: int | None = None) -> sym.Analyzer:
    """An analyzer that knows the lets of `body`, but for those that read memory.

    data: names of what is no index, whose sums may wrap. blocks: how many of them run at a time, so that the number of a block is below that.
    """
    known = sym.Analyzer(data)
    for s in statements(body):
        if isinstance(s, Bind) and dtype_of(s.var) in ("int32", "int64") and not loads_in(s.value):
            block = blocks is not None and op_name(s.value) == "ascend.get_block_idx"
            known.bind(s.var, Range.from_min_extent(imm(0), imm(blocks)) if block else s.value)
    return known


__all__ = ["known_lets"]
