"""Pages at the root lead somewhere, and the code is as the linter wants it."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize("page", ["ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"])
def test_links_lead_somewhere(page):
    links = [link.split("#")[0] for link in re.findall(r"\]\(([^)]+)\)", (ROOT / page).read_text("utf-8")) if "://" not in link]
    assert all((ROOT / link).exists() for link in links), page


def test_lint():
    pytest.importorskip("ruff")
    done = subprocess.run([sys.executable, "-m", "ruff", "check", "--quiet", "."], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
