"""docs/upstream.md is what the generator writes: every name of tilelang works, is ignored or is refused with what to write instead."""

import sys
from pathlib import Path

from testing import warm_python

PAGE = Path(__file__).resolve().parents[3] / "docs" / "upstream.md"


def test_page_is_up_to_date(tmp_path):
    # In a process of its own: what gives scripts `import tilelang` changes the whole process.
    page = tmp_path / "upstream.md"
    done = warm_python.run([sys.executable, "-m", "tilelang_ascend.compat.upstream", page])
    assert done.returncode == 0, done.stderr
    assert PAGE.read_text("utf-8") == page.read_text("utf-8"), "run: python -m tilelang_ascend.compat.upstream docs/upstream.md"
    rows = [line.split(" | ") for line in page.read_text("utf-8").splitlines() if line.startswith("| `")]
    assert len(rows) > 40 and all(kind in ("ignored", "refused") and len(why) > 10 for _, kind, why in rows)
