"""From what a user writes as `configs` to the list of configurations."""

import inspect

import pytest

from tilelang_ascend.autotune.space import expand, split, tunables
from tilelang_ascend.errors import InvalidArgument


def kernel(M, N, block=None, stages=None):
    """Only its signature counts."""


SIGNATURE = inspect.signature(kernel)


@pytest.mark.parametrize("configs", [
    [{"block": 1}], ({"block": 1},), (c for c in [{"block": 1}]), lambda: [{"block": 1}],
    lambda M, N: [{"block": M // N}], lambda *args, **kwargs: [{"block": args[0] // kwargs["N"]}],
    lambda N: [{"block": N}],
], ids=["list", "tuple", "generator", "no arguments", "arguments", "any arguments", "one of them"])  # fmt: skip
def test_forms(configs):
    assert expand(configs, SIGNATURE, (1,), {"N": 1}) == [{"block": 1}]


@pytest.mark.parametrize("configs, message", [
    ([], "needs a list of configurations"),
    ({"block": 1}, "needs a list of configurations"),
    (None, "needs a list of configurations"),
    ([(1, 2)], "not a dict"),
    ([{"block": 1}, {"blok": 1}], "configuration 1 sets blok"),
])  # fmt: skip
def test_mistakes(configs, message):
    with pytest.raises(InvalidArgument, match=message):
        expand(configs, SIGNATURE)


def test_names_and_reserved_key():
    config = {"block": 1, "pass_configs": {"tl.enable_fast_math": True}}
    assert expand([config], SIGNATURE) == [config]
    assert tunables([config, {"stages": 2}]) == ["block", "stages"]
    assert split(config, SIGNATURE) == ({"block": 1}, {"tl.enable_fast_math": True})
    assert split(config, inspect.signature(lambda block, pass_configs: 0)) == (config, None)
