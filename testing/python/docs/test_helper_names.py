"""Folders of tests are all on Python's path in one run: a module of one must not hide that of another."""

from collections import Counter
from pathlib import Path

TESTS = Path(__file__).parent.parent


def test_modules_have_names_of_their_own():
    folders = {f.parent for f in TESTS.rglob("test_*.py") if not (f.parent / "__init__.py").exists()}
    helpers = [f.name for folder in folders for f in folder.glob("*.py") if not f.name.startswith("test_") and f.name != "conftest.py"]
    assert not [name for name, n in Counter(helpers).items() if n > 1]
