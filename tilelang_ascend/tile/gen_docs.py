"""The table of tile ops in docs/ir.md: ``python -m tilelang_ascend.tile.gen_docs docs/ir.md`` writes it anew."""

from __future__ import annotations

import sys
from pathlib import Path

from .op import TileOp
from .table import TABLE

BEGIN, END = "<!-- tile ops: made by tilelang_ascend/tile/gen_docs.py -->", "<!-- end of tile ops -->"


def _row(record: TileOp) -> str:
    ways = {(True, False): "in", (False, True): "out", (True, True): "in, out", (False, False): "name"}
    operands = [f"{x.name} ({ways[x.read, x.written]}{', or a value' if x.or_value else ''})" for x in record.operands]
    low, high = record.values
    values = [f"{low} value" + "s" * (low != 1)] if low == high else [f"{low} to {high} values"]
    arguments = ", ".join(operands + values * (high > 0))
    attrs = ", ".join(f"`{name}`" + (f" ({', '.join(map(str, legal))})" if legal else "") for name, legal in record.attrs.items())
    return f"| `{record.op}` | {record.doc} | {arguments} | {attrs} | {record.side.value} |"


def table() -> str:
    """The table as Markdown."""
    head = ["| op | meaning | arguments | attributes (legal values) | runs on |", "|---|---|---|---|---|"]
    return "\n".join([BEGIN, *head, *(_row(record) for record in TABLE.values()), END])


def with_table(page: str, table: str) -> str:
    """`page` with `table` in place of what stands between its first and its last line."""
    begin, *_, end = table.splitlines()
    before, rest = page.split(begin)
    return before + table + rest.split(end)[1]


def renewed(page: str) -> str:
    """`page` with the table of today."""
    return with_table(page, table())


if __name__ == "__main__":
    path = Path(sys.argv[1])
    path.write_text(renewed(path.read_text("utf-8")), encoding="utf-8")
