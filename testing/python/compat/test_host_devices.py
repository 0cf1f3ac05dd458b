"""Devices that do not exist, as host memory; `scripts/torch_devices.py` holds the everyday uses."""

import sys
import threading

import pytest
import torch
import torch.utils._device
import torch.utils.checkpoint
from torch._subclasses import FakeTensorMode

from tilelang_ascend.compat import host_devices
from tilelang_ascend.compat.host_devices.module import CAPABILITY
from tilelang_ascend.runtime import tensors


@pytest.fixture
def devices():
    with host_devices.active():
        yield


def test_everything_is_put_back():
    owners = (
        torch,
        torch.cuda,
        torch.Tensor,
        torch.nn.Module,
        torch.autograd,
        torch.autocast,
        torch.utils._device.DeviceContext,
    )
    before = [dict(vars(owner)) for owner in owners]
    with host_devices.active():
        torch.zeros(1, device="cuda")
    assert [dict(vars(owner)) for owner in owners] == before and "torch.npu" not in sys.modules
    assert threading.Thread.start.__module__ == "threading"
    with pytest.raises((AssertionError, RuntimeError)):
        torch.zeros(1, device="cuda")


def test_a_real_device_is_left_alone(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert host_devices.absent_families() == {"npu"}
    with host_devices.active():
        assert torch.cuda.device_count() == 0  # torch's own answer
        assert torch.zeros(1, device="npu").device.type == "cpu"
        with pytest.raises((AssertionError, RuntimeError)):
            torch.zeros(1, device="cuda")
    monkeypatch.setattr(torch, "npu", torch.cuda, raising=False)
    assert host_devices.absent_families() == set()


def test_to_keeps_its_other_meanings(devices):
    host = torch.ones(3)
    assert host.to(torch.float16).dtype == torch.float16 and not host.to(torch.float16).is_cuda
    assert host.to("cpu") is host and host.cpu() is host
    moved = host.to("cuda", torch.float64)
    assert moved.dtype == torch.float64 and moved.is_cuda
    assert host.to(moved).is_cuda and host.to(moved).dtype == torch.float64 and not moved.to(host).is_cuda
    assert host.to(device=0).is_cuda and host.to(tensor=moved).is_cuda
    assert moved.to(torch.float32).is_cuda and not moved.to("cpu").is_cuda
    assert torch.ones(2, dtype=torch.int32, device=torch.device("cuda", 0)).dtype == torch.int32


def test_copies_happen_where_a_device_would_copy(devices):
    host = torch.zeros(2)
    for moved in (host.cuda(), host.to("cuda"), host.to(0), host.npu(), host.to(torch.device("npu"))):
        moved.fill_(1)
        assert host.sum() == 0
        copy = moved.cpu()
        copy.fill_(5)
        assert moved.sum() == 2
        assert moved.to(moved.device) is moved


def test_in_place_results_stay_where_they_are(devices):
    host, there = torch.zeros(2), torch.ones(2, device="cuda")
    assert not host.copy_(there).is_cuda and there.copy_(host).is_cuda
    assert all(t.is_cuda for t in torch.split(torch.cat([there, there]), 2))


def test_a_leaf_stays_a_leaf(devices):
    x = torch.ones(2, device="cuda", requires_grad=True).cuda()
    (x * 3).sum().backward()
    assert x.is_leaf and x.grad.tolist() == [3, 3]


def test_other_threads_see_the_devices(devices):
    seen = []
    thread = threading.Thread(target=lambda: seen.append(torch.ones(1, device="cuda").is_cuda))
    thread.start()
    thread.join()
    assert seen == [True]


def test_the_default_device_ends_with_its_block(devices):
    with torch.device("cuda"):
        with torch.device("cpu"):
            assert not torch.ones(1).is_cuda
        assert torch.ones(1).is_cuda
    assert not torch.ones(1).is_cuda


def test_meta_tensors_are_untouched(devices):
    assert torch.ones(2, device="meta").device.type == "meta" and torch.ones(2, device="cuda").to("meta").is_meta


def test_seeds_and_states(devices):
    torch.cuda.manual_seed_all(5)
    state = torch.cuda.get_rng_state()
    first = torch.randn(3, device="cuda")
    torch.cuda.set_rng_state(state)
    assert torch.equal(first, torch.randn(3, device="cuda"))
    assert isinstance(torch.Generator("cuda:0"), torch.Generator) and torch.Generator("npu").device.type == "cpu"


def test_questions_about_the_device(devices):
    assert torch.cuda.get_device_capability() == CAPABILITY and torch.cuda.is_bf16_supported()
    assert torch.cuda.mem_get_info()[1] > 0 and torch.cuda.memory_allocated() == 0
    assert torch.npu.get_device_properties(0).multi_processor_count == torch.cuda.get_device_properties("cuda").multi_processor_count
    with torch.cuda.device(0), torch.cuda.stream(torch.cuda.Stream()):
        torch.cuda.nvtx.range_push("x")
        torch.cuda.nvtx.range_pop()


def test_what_cannot_work_says_so(devices):
    with pytest.raises(NotImplementedError, match="torch.cuda.graph records"):
        torch.cuda.graph(torch.cuda.CUDAGraph)
    with pytest.raises(RuntimeError, match="must be recorded"):
        torch.cuda.Event().elapsed_time(torch.cuda.Event())


def test_an_unknown_device_is_still_an_error(devices):
    with pytest.raises(RuntimeError, match="cudaa"):
        torch.ones(1, device="cudaa")
    with pytest.raises(RuntimeError, match="gpu"):
        torch.ones(1).to("gpu")


def test_modules_and_parameters_are_where_their_tensors_are(devices):
    layer = torch.nn.Linear(2, 2)
    assert not layer.weight.is_cuda and torch.nn.Linear(2, 2, device="cuda").weight.is_cuda
    assert layer.cuda().weight.is_cuda and not layer.cpu().weight.is_cuda and layer.npu().weight.is_npu
    torch.optim.Adam(layer.parameters()).step()


def test_what_a_reference_uses(devices, tmp_path):
    assert torch.compile(lambda x: x + 1)(torch.ones(1, device="cuda")).item() == 2
    assert torch.compile(dynamic=False)(abs)(-1) == 1
    torch.save(torch.ones(2, device="cuda"), tmp_path / "x.pt")
    assert torch.load(tmp_path / "x.pt", map_location="cuda:0").sum() == 2
    assert torch.ones(2).type(torch.cuda.HalfTensor).dtype == torch.float16
    x = torch.ones(1, 2, 3, 4).cuda(memory_format=torch.channels_last)
    assert x.is_contiguous(memory_format=torch.channels_last)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA, torch.profiler.ProfilerActivity.CPU]):
        x.sum()


def test_recomputed_activations(devices):
    x = torch.ones(3, device="cuda", requires_grad=True)
    double = torch.utils.checkpoint.checkpoint(lambda v: v * torch.full((3,), 2.0, device="cuda"), x, use_reentrant=True)
    double.sum().backward()
    assert x.grad.tolist() == [2, 2, 2]


def test_tensors_say_where_a_script_believes_them_to_be(devices):
    host, there = torch.ones(2), torch.ones(2, device="cuda")
    assert there.device == torch.device("cuda", 0) and there.device.type == "cuda" and there.get_device() == 0
    assert not there.is_cpu and host.is_cpu and host.device == torch.device("cpu") and host.get_device() == -1
    assert torch.zeros(3, device=there.device).is_cuda and host.to(there.device).is_cuda
    assert torch.empty_like(there, device="cpu").is_cpu and torch.empty_like(host, device="cuda").is_cuda
    assert torch.Generator(there.device).device.type == "cuda"
    torch.testing.assert_close(host, there)
    npu = host.npu()
    assert npu.is_npu and not there.is_npu and not npu.is_cuda and npu.device == torch.device("npu")
    assert torch.zeros(1, device=npu.device).is_npu and npu.cuda() is not npu


def test_the_device_of_a_real_tensor_is_torchs_answer(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    with host_devices.active(), FakeTensorMode():
        real = torch.empty(2, device="cuda")
        assert real.is_cuda and real.device == torch.device("cuda", 0) and not real.is_cpu


def test_the_package_sees_where_the_memory_is(devices):
    assert tensors.HostTensor(torch.ones(2, device="cuda")).device == "cpu"


def test_the_default_device_has_its_name(devices):
    torch.set_default_device("cuda")
    try:
        assert torch.get_default_device() == torch.device("cuda", 0) and torch.ones(1).is_cuda
    finally:
        torch.set_default_device(None)
    assert torch.get_default_device() == torch.device("cpu")


def test_a_default_device_does_not_outlive_the_session():
    with host_devices.active():
        torch.set_default_device("cuda")
    assert torch.utils._device.CURRENT_DEVICE is None and torch.get_default_device() == torch.device("cpu")


def test_gradients_reach_backward_functions_on_the_device(devices):
    seen = []

    class Double(torch.autograd.Function):
        @staticmethod
        @torch.amp.custom_fwd(device_type="cuda")
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        @torch.amp.custom_bwd(device_type="cuda")
        def backward(ctx, grad):
            seen.extend([grad.is_cuda, ctx.saved_tensors[0].is_cuda])
            return grad * 2

    x = torch.ones(3, device="cuda", requires_grad=True)
    Double.apply(x).sum().backward()
    assert seen == [True, True] and x.grad.is_cuda


def test_accelerators_operators_and_marks_for_profilers(devices):
    assert torch.accelerator.is_available() and torch.accelerator.current_accelerator() == torch.device("cuda")
    assert torch.ones(1, device=torch.accelerator.current_accelerator()).is_cuda and torch.version.cuda

    @torch.library.custom_op("tilelang_ascend_test::double", mutates_args=(), device_types="cuda")
    def double(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    assert double(torch.ones(2, device="cuda")).sum() == 4
    torch.cuda.profiler.start()
    torch.cuda.cudart().cudaProfilerStop()
    torch.cuda.random.manual_seed(1)
    assert torch.cuda.memory.mem_get_info()[0] > 0
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]):
        pass
