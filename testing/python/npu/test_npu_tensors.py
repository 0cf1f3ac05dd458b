"""Tensors that are on the NPU already: used where they are, on the stream torch_npu works on."""

import sys

import numpy as np
import pytest
import torch
from npu_kernels import compiled, increment, product, scale
from npu_tensors import NpuTensor, to_npu, torch_npu

from tilelang_ascend.errors import AliasingOutput, ArgumentValueError


def host(tensor: torch.Tensor) -> torch.Tensor:
    return torch.tensor(tensor.tolist(), dtype=tensor.dtype)


def test_they_are_used_in_place_and_results_are_there_too(cann):
    x = to_npu(cann.driver, torch.randn(300))
    y = compiled(scale())(x)
    assert isinstance(y, NpuTensor) and torch.equal(host(y), host(x) * 2)
    assert cann.calls("aclrtMemcpy") == 0 and cann.calls("aclrtMalloc") == 2  # that of x and of y


def test_one_that_is_written(cann):
    x = to_npu(cann.driver, torch.arange(200.0))
    compiled(increment(), out_idx=None)(x, 3.0)
    assert torch.equal(host(x), torch.arange(200.0) + 3) and cann.calls("aclrtMemcpy") == 0


def test_one_with_gaps_is_copied_on_the_device(cann):
    x = to_npu(cann.driver, torch.arange(400.0))
    compiled(increment(), out_idx=None)(x[::2], 3.0)
    wanted = torch.arange(400.0)
    wanted[::2] += 3
    assert torch.equal(host(x), wanted) and cann.calls("aclrtMemcpy") == 0


def test_tensors_of_both_sides_in_one_call(cann):
    a, b = torch.randn(32, 32).half(), torch.randn(32, 32).half()
    c = np.zeros((32, 32), np.float32)
    compiled(product(), out_idx=None)(to_npu(cann.driver, a), b, c)
    np.testing.assert_allclose(c, (a.float() @ b.float()).numpy(), rtol=1e-3, atol=1e-4)


def test_the_stream_is_the_one_torch_npu_works_on(cann, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch_npu", torch_npu(cann.driver))
    before = cann.calls("aclrtCreateStream")
    x = to_npu(cann.driver, torch.randn(300))
    assert torch.equal(host(compiled(scale())(x)), host(x) * 2)
    assert cann.calls("aclrtCreateStream") == before


def test_tensors_of_two_devices_and_of_one_that_is_written_twice(cann):
    cann.driver.stand_in_devices(2, b"Ascend910B3")
    a, b = torch.randn(32, 32).half(), torch.randn(32, 32).half()
    c = to_npu(cann.driver, torch.zeros(32, 32))
    kernel = compiled(product(), out_idx=None)
    with pytest.raises(ArgumentValueError, match="several devices: A on npu:1, C on npu:0"):
        kernel(to_npu(cann.driver, a, 1), b, c)
    both = to_npu(cann.driver, torch.zeros(2048).half())
    with pytest.raises(AliasingOutput):
        kernel(both[:1024].view(32, 32), b, both.view(torch.float32).view(32, 32))


def test_the_second_device_is_the_one_that_works(cann):
    cann.driver.stand_in_devices(2, b"Ascend910B3")
    x = to_npu(cann.driver, torch.ones(300), 1)
    assert cann.driver.aclrtSetDevice(0) == 0
    assert torch.equal(host(compiled(scale())(x)), torch.full((300,), 2.0))
    assert cann.driver.stand_in_worked_on(1) == 1 and cann.driver.stand_in_worked_on(0) == 0


def test_the_simulator_takes_none(cann):
    x = to_npu(cann.driver, torch.ones(300))
    with pytest.raises(ArgumentValueError, match="expected cpu, got npu:0"):
        compiled(scale(), backend="sim")(x)
    with pytest.raises(ArgumentValueError, match="expected cpu, got npu:0"):
        compiled(scale()).simulate(x)
    with pytest.raises(ArgumentValueError, match="expected cpu or npu, got meta"):
        compiled(scale())(torch.ones(300, device="meta"))
