"""Scripts are run in this process: importing torch and tvm once is what keeps these tests quick."""

import pytest

from tilelang_ascend import cache
from tilelang_ascend.log import get_logger
from tilelang_ascend.tools import run


@pytest.fixture
def run_text(tmp_path):
    """Run the text of a script; returns its exit code."""

    def run_it(text: str, *args: str) -> int:
        path = tmp_path / "script.py"
        path.write_text(text)
        return run.run(path, args)

    return run_it


@pytest.fixture(autouse=True)
def _settings_of_the_package(monkeypatch):
    """A script may switch the cache and the log level for its process."""
    monkeypatch.setattr(cache, "_enabled", None)
    logger = get_logger()
    level = logger.level
    yield
    logger.setLevel(level)
