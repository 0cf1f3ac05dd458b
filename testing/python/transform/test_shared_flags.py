"""Cross-core flags that share an id: which of them a wait takes must not depend on which pipe is faster."""

from types import SimpleNamespace

import numpy as np
import pytest

from tilelang_ascend.analysis.dependence.happens_before import CROSS_SET, CROSS_WAIT, Timeline
from tilelang_ascend.analysis.dependence.program import QUEUE_INDEX
from tilelang_ascend.transform.sync.ids import _meet_later

EMPTY = SimpleNamespace(ends=[], need_table=np.zeros((0, 2), np.int64), column_table=np.arange(len(QUEUE_INDEX)), forked=False)
A, B = object(), object()
ONE = {"a": "one", "b": "one"}


def run(first: str, second: str, order: str, rename=None):
    """Two pipes of the vector core set flags a and b, and the cube core waits for either, in an order such as "set a, set b, wait a, wait b"."""
    queues = {"a": QUEUE_INDEX["aiv", first], "b": QUEUE_INDEX["aiv", second]}
    owner = {"a": A, "b": B}
    events = []
    for what, flag in (step.split() for step in order.split(", ")):
        events.append((CROSS_SET, flag, queues[flag], owner[flag]) if what == "set" else (CROSS_WAIT, flag, "aic", owner[flag]))
    return Timeline.of(EMPTY, events).run(rename=rename)


def test_flags_of_their_own_may_be_up_together():
    assert run("MTE3", "MTE2", "set a, set b, wait a, wait b").clean


@pytest.mark.parametrize("first, second, safe", [("MTE3", "MTE2", False), ("MTE2", "V", False), ("MTE3", "MTE3", True)])
def test_two_pipes_do_not_share_a_flag_that_is_up(first, second, safe):
    found = run(first, second, "set a, set b, wait a, wait b", ONE)
    assert found.clean == safe and (safe or found.unsafe == ["one"])


def test_a_wait_the_second_pipe_does_not_know_of_is_not_enough():
    assert run("MTE3", "MTE2", "set a, wait a, set b, wait b", ONE).unsafe == ["one"]


@pytest.mark.parametrize("counts, bases, late", [((3, 4), (0, 2), True), ((4, 3), (2, 0), True), ((2, 4), (0, 1), False), ((3, 3), (0, 3), False), ((1, 6), (4, 0), False)])  # fmt: skip
def test_rings_that_turn_at_different_speeds_meet_late(counts, bases, late):
    a, b = (SimpleNamespace(count=n) for n in counts)
    assert _meet_later(a, bases[0], b, bases[1]) == late
