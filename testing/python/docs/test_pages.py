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


@pytest.mark.parametrize("linter", lint.commands())
def test_lint(linter):
    pytest.importorskip(linter.split()[0])
    found = lint.run(linter)
    assert not found, found
