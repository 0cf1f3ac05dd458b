"""Pages at the root lead somewhere, and the code is as the linters want it."""

import re
from pathlib import Path

import pytest

from testing import lint

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize("page", ["ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"])
def test_links_lead_somewhere(page):
    links = [link.split("#")[0] for link in re.findall(r"\]\(([^)]+)\)", (ROOT / page).read_text("utf-8")) if "://" not in link]
    assert all((ROOT / link).exists() for link in links), page


@pytest.mark.parametrize("page", sorted(str(p.relative_to(ROOT)) for p in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]))
def test_rows_of_tables_are_as_long_as_their_heads(page):
    table = []
    for number, line in enumerate((ROOT / page).read_text("utf-8").splitlines(), 1):
        line = line.strip()
        if not line.startswith("|"):
            table = []
            continue
        table.append(len(re.findall(r"(?<!\\)\|", line)))
        assert table[-1] == table[0], f"{page}:{number}"


@pytest.mark.one_in(3)
@pytest.mark.parametrize("linter", lint.commands())
def test_lint(linter):
    pytest.importorskip(linter.split()[0])
    found = lint.run(linter)
    assert not found, found
