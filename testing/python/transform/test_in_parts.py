"""Tiles that do not fit are tried in parts: how often, which is what compilation takes time for."""

import pytest

from tilelang_ascend.errors import OutOfMemory
from tilelang_ascend.transform import pipeline

WHOLE, AVAILABLE = 400, 190


class Stub:
    """What a context does here."""

    def attempt(self):
        return self


@pytest.fixture
def tried(monkeypatch):
    """`tried(needed)`: what is tried for a kernel that is a tuple of its divisions, where ``needed(division)`` bytes are needed for each."""

    def search(needed):
        seen = []

        def shared(mapped, context):
            seen.append(mapped)
            raise OutOfMemory(memory="UB", needed=needed(mapped), available=AVAILABLE, chip="chip")

        def ways(passes, mapped, context, numbers, scope):
            how = "stream" if passes is pipeline.STREAM else "tiles"
            return [((*mapped, (how, n)), context, n) for n in numbers if how == "stream" or len(mapped) < 2]

        for name, value in {
            "_shared": shared, "_ways": ways, "equal_parts": lambda mapped, numbers, scope: list(numbers)[:4], "why_whole": lambda *_: None,
        }.items():  # fmt: skip
            monkeypatch.setattr(pipeline, name, value)
        with pytest.raises(OutOfMemory) as caught:
            pipeline._in_parts((), Stub())
        assert caught.value.fields["needed"] == WHOLE
        return seen

    return search


def test_nothing_is_tried_twice(tried):
    """Parts along one axis were lowered again before parts of them, and some numbers of parts of rows twice."""
    seen = tried(lambda mapped: WHOLE - 10 * len(mapped))
    assert len(seen) == len(set(seen))
    assert {len(mapped) for mapped in seen} == {0, 1, 2}


def test_parts_of_parts_that_need_as_much_as_the_whole_are_the_last(tried):
    """Each less than the parts they are of, all more than the whole: every number of them was tried."""
    seen = tried(lambda mapped: (WHOLE, 600, 500)[len(mapped)])
    assert [len(mapped) for mapped in seen] == [0, 1, 2, 2, 1]
