"""A cache of their own for all tests of the tuner, and a pool without processes for those that are about its logic."""

import pytest

from tilelang_ascend import cache
from tilelang_ascend.autotune import calls, jobs, measure
from tilelang_ascend.autotune.pool import Reply


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TILELANG_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("TILELANG_AUTO_TUNING_CPU_COUNTS", "1")
    monkeypatch.delenv("TILELANG_DISABLE_CACHE", raising=False)
    cache.clear_memory()
    yield tmp_path / "cache"
    cache.clear_memory()


class InlinePool:
    """`WorkerPool` in this process."""

    jobs_run = 0

    def __init__(self, *_, **__):
        pass

    def run(self, waiting):
        for job in waiting:
            type(self).jobs_run += 1
            yield job, Reply("result", jobs.work(job.payload, job.files))

    def close(self):
        pass


class InlineCalls(InlinePool):
    """The pool for functions of the user, in this process."""

    def run(self, waiting):
        for job in waiting:
            yield job, Reply("result", calls.serve(job.payload, job.files))


@pytest.fixture
def inline(monkeypatch):
    """Measure in this process; the value counts jobs in `.jobs_run`."""
    InlinePool.jobs_run = 0
    monkeypatch.setattr(measure, "WorkerPool", InlinePool)
    monkeypatch.setattr(calls, "WorkerPool", InlineCalls)
    return InlinePool
