"""Every kernel traced by these tests must be well-formed Tile IR."""

import pytest

from tilelang_ascend import ir
from tilelang_ascend.frontend import tracing


@pytest.fixture(autouse=True)
def verified(monkeypatch):
    finish = tracing.finish

    def checked(*args):
        func = finish(*args)
        problems = ir.verify_tile(func)
        assert not problems, problems
        return func

    monkeypatch.setattr(tracing, "finish", checked)
