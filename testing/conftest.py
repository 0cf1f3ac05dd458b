"""Shared settings: a cache of its own for every test process, quick hypothesis profiles."""

import gc
import os
import sys
import tempfile

import pytest

# A suite that starts a hundred processes does not want each of them to compile the sources of the package again, nor asserts to be
# rewritten anew with every run.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
# Until all is collected (`pytest_collection_finish`): imports and collection leave next to no garbage, but a search for it looks through it all.
gc.disable()

_CACHE = tempfile.TemporaryDirectory(prefix="tilelang-test-cache-")
# `testing/same_text.py` keeps what the tests compile.
os.environ["TILELANG_CACHE_DIR"] = os.environ.get("TILELANG_TEST_CACHE_DIR", _CACHE.name)
os.environ.setdefault("OMP_NUM_THREADS", "1")
# What every pass leaves is checked against the rules of its stage.
os.environ["TILELANG_VERIFY_PASSES"] = "1"


def pytest_configure(config):
    from hypothesis import settings

    settings.register_profile("default", deadline=None, max_examples=50)
    settings.load_profile("default")
    if config.option.markexpr == "not slow":
        os.environ.setdefault("TILELANG_TEST_WHOLE_SHARE", "3")  # `kernels/strict.py`


def pytest_collection_finish():
    """What imports and collection leave stays to the end: full collections of garbage need not look through it again and again."""
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch):
    """A test must not depend on what the developer's shell sets."""
    for name in (
        "TILELANG_DEFAULT_TARGET",
        "TILELANG_EXECUTION_BACKEND",
        "TILELANG_SIM_CHECKS",
        "TILELANG_DISABLE_CACHE",
        "ASCEND_HOME_PATH",
        "ASCEND_TOOLKIT_HOME",
    ):
        monkeypatch.delenv(name, raising=False)
