"""Inputs: chosen once, and equal in every process."""

import ml_dtypes
import numpy as np
import pytest
import torch

from tilelang_ascend.autotune import get_autotune_inputs, set_autotune_inputs
from tilelang_ascend.autotune.inputs import InputSet, InputSupply, open_inputs
from tilelang_ascend.autotune.settings import ProfileArgs
from tilelang_ascend.errors import ArgumentValueError
from tilelang_ascend.runtime.params import Parameter, Signature

SIGNATURE = Signature((Parameter("A", "float16", (4, 8)), Parameter("n", "int32"), Parameter("B", "float16", (4,))), (), (2,))


def through_the_file(values):
    inputs = InputSet("", lambda: values)
    return open_inputs(inputs.records, inputs.file), inputs


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(torch.arange(15.0).reshape(3, 5) / 7, id="contiguous"),
        pytest.param(torch.arange(24.0).reshape(4, 6).bfloat16().t(), id="transposed-bfloat16"),
        pytest.param(torch.arange(64.0).reshape(8, 8)[::2, 1:5], id="strided"),
        pytest.param(torch.arange(3).expand(2, 3), id="expanded"),
        pytest.param(torch.ones(4, dtype=torch.bool), id="bool"),
        pytest.param(torch.empty(0, 4), id="empty"),
        pytest.param(np.arange(6.0).reshape(2, 3)[::-1], id="numpy-reversed"),
        pytest.param(np.ones((2, 2), ml_dtypes.bfloat16), id="numpy-bfloat16"),
    ],
)
def test_tensors_survive_the_file(value):
    (seen,), _ = through_the_file([value])
    expected = value.double().numpy() if isinstance(value, torch.Tensor) else value.astype(np.float64)
    assert np.array_equal(seen.astype(np.float64), expected)
    if isinstance(value, torch.Tensor) and value.numel():
        assert tuple(s // seen.itemsize for s in seen.strides) == value.stride()


def test_numbers_pass_and_writes_stay_private():
    (number, seen), inputs = through_the_file([3.5, np.zeros(4, np.float32)])
    seen[:] = 1
    assert number == 3.5
    assert not open_inputs(inputs.records, inputs.file)[1].any() and not inputs.values[1].any()


def test_made_once_for_equal_declarations():
    supply = InputSupply(ProfileArgs(), None)
    made = supply.inputs_for(SIGNATURE)
    assert supply.inputs_for(SIGNATURE) is made
    assert [tuple(getattr(v, "shape", ())) for v in made.values] == [(4, 8), ()]
    assert made.copies()[0] is not made.values[0]


def test_supply_prog_gets_the_parameters():
    values = [torch.zeros(4, 8).half(), 7]
    seen = []
    supply = InputSupply(ProfileArgs(supply_prog=lambda params: seen.append(params) or values), None)
    assert supply.inputs_for(SIGNATURE).values == values
    assert [p.name for p in seen[0]] == ["A", "n"]


def test_dynamic_extents_need_inputs():
    dynamic = Signature((Parameter("A", "float16", ("m",)),), (("m", "int32"),))
    with pytest.raises(ArgumentValueError, match="the extent m is dynamic"):
        InputSupply(ProfileArgs(), None).inputs_for(dynamic)
    assert InputSupply(ProfileArgs(), [1]).inputs_for(dynamic).values == [1]


def test_key_ignores_float_contents_only():
    def key(*values):
        return InputSupply(ProfileArgs(), values).inputs_for(SIGNATURE).key

    a, b = torch.zeros(4), torch.ones(4)
    assert key(a) == key(b) != key(a.half())
    assert key(a.int()) != key(b.int()) and key(a) != key(torch.zeros(2, 2)) and key(1) != key(2)


def test_set_autotune_inputs_nests():
    assert get_autotune_inputs() is None
    with set_autotune_inputs(1, 2):
        with set_autotune_inputs([3]):
            assert get_autotune_inputs() == [3]
        assert get_autotune_inputs() == [1, 2]
    assert get_autotune_inputs() is None
