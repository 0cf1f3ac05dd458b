"""The table of passes in ARCHITECTURE.md: ``python -m tilelang_ascend.transform.gen_docs ARCHITECTURE.md`` writes it anew."""

from __future__ import annotations

import sys
from pathlib import Path

from ..tile.gen_docs import with_table
from .pipeline import PASSES

BEGIN, END = "<!-- passes: made by tilelang_ascend/transform/gen_docs.py -->", "<!-- end of passes -->"


def table() -> str:
    """The table as Markdown, indented as an item of a list."""
    rows = [f"| [{p.name}]({p.run.__module__.replace('.', '/')}.py) | {p.doc} | {p.stage.value} |" for p in PASSES]
    return "\n".join(f"   {line}" for line in (BEGIN, "", "| pass | what it does | leaves |", "|---|---|---|", *rows, "", END))


def renewed(page: str) -> str:
    """`page` with the table of today."""
    return with_table(page, table())


if __name__ == "__main__":
    path = Path(sys.argv[1])
    path.write_text(renewed(path.read_text("utf-8")), encoding="utf-8")
