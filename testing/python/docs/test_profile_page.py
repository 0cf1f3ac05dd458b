"""The example of docs/profile.md prints what the page says. Run as a script, this writes the page anew."""

import os
import re
import sys
import tempfile
from pathlib import Path

from testing import warm_python

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "profile.md"
BLOCKS = re.compile(r"```python\n(.*?)```.*?```text\n(.*?)```", re.S)


def printed(source: str, folder: Path) -> str:
    """What a program prints that lies in a file of its own: reports quote its lines."""
    (folder / "gelu.py").write_text(source)
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = warm_python.run([sys.executable, "gelu.py"], cwd=folder, env=env)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_example_prints_what_the_page_says(tmp_path):
    source, text = BLOCKS.search(PAGE.read_text("utf-8")).groups()
    assert printed(source, tmp_path) == text
    assert (tmp_path / "out" / "op_summary_gelu.csv").exists()


def test_links_lead_somewhere():
    links = [link.split("#")[0] for link in re.findall(r"\]\(([^)]+)\)", PAGE.read_text("utf-8"))]
    assert links and all((PAGE.parent / link).exists() for link in links)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        page = PAGE.read_text("utf-8")
        found = BLOCKS.search(page)
        PAGE.write_text(page[: found.start(2)] + printed(found[1], Path(name)) + page[found.end(2) :], "utf-8")
