"""When a second call may reuse a kernel, and when it has to trace again."""

import enum
import types
from dataclasses import dataclass

import numpy as np
import pytest
import torch

from tilelang_ascend.jit.fingerprint import call_fingerprint

BLOCK = 64
TABLE = {"a": [1, 2]}


def helper(x):
    return x * BLOCK


def factory(m, n=1):
    def inner():
        return helper(m) + TABLE["a"][0] + np.float32(n)

    return inner


def key(*args, fn=factory, **kwargs):
    k = call_fingerprint(fn, args, kwargs)
    assert k is None or hash(k) is not None
    return k


def test_equal_calls_have_equal_keys():
    assert key(1) is not None and key(1) == key(1)
    assert key([1, {"a": 2}], n=torch.float16) == key([1, {"a": 2}], n=torch.float16)


@pytest.mark.parametrize("a, b", [
    (1, 2), (1, 1.0), (1, True), (1, "1"), (0.0, -0.0), ([1], (1,)), ({"a": 1}, {"a": 2}), (None, 0),
    (torch.float16, torch.bfloat16), (np.float32(1), np.float64(1)), (np.int32, np.int64),
    (types.SimpleNamespace(b=1), types.SimpleNamespace(b=2)),
    (torch.zeros(2, 3), torch.zeros(2, 4)), (torch.zeros(2, 2), torch.zeros(2, 2, dtype=torch.int8)),
    (torch.zeros(2, 3), torch.zeros(3, 2).T), (torch.zeros(2), np.zeros(2, np.float32)),
    (lambda x: x, lambda x: x + 1),
])  # fmt: skip
def test_different_arguments_have_different_keys(a, b):
    assert key(a) is not None and key(a) != key(b)


def test_contents_of_tensors_do_not_count():
    assert key(torch.zeros(2)) == key(torch.ones(2))


@pytest.mark.parametrize("name, value", [("BLOCK", 128), ("TABLE", {"a": [3, 2]}), ("helper", lambda x: x)])
def test_a_changed_global_changes_the_key(monkeypatch, name, value):
    before = key(1)
    monkeypatch.setitem(globals(), name, value)
    assert key(1) != before


def test_a_changed_item_inside_a_global_changes_the_key(monkeypatch):
    before = key(1)
    monkeypatch.setitem(TABLE, "a", [5, 2])
    assert key(1) != before


def test_a_changed_module_attribute_changes_the_key():
    config = types.ModuleType("config")
    config.TILE = 1

    def fn():
        return config.TILE

    before = key(fn=fn)
    config.TILE = 2
    assert before is not None and key(fn=fn) != before


def test_a_changed_closure_changes_the_key():
    size = 1

    def fn():
        return size

    before = key(fn=fn)
    size = 2
    assert key(fn=fn) != before


def test_recursion_ends():
    cyclic = []
    cyclic.append(cyclic)
    assert key(cyclic) is not None

    def even(n):
        return n == 0 or odd(n - 1)

    def odd(n):
        return n > 0 and even(n - 1)

    assert key(4, fn=even) == key(4, fn=even)


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


@dataclass
class Config:
    block: int


def test_enums_and_user_objects_count_by_content():
    assert key(Colour.RED) != key(Colour.BLUE)
    config = Config(1)
    before = key(config)
    config.block = 2
    assert key(config) != before and key(config) == key(Config(2))


def test_what_is_not_understood_is_never_reused():
    assert key(object()) is None
    assert key((i for i in range(3))) is None
    assert key(iter([])) is None
