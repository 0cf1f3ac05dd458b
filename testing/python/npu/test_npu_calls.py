"""Kernels on a board, which is the machine model behind the C interface of ACL: the code that calls it cannot tell."""

import dataclasses
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from npu_kernels import compiled, increment, product, scale, shift, talkative, two_launches
from stand_in_cann import use

from tilelang_ascend.errors import DeviceError, TargetError


def lines(capsys) -> list[str]:
    """What was said of where kernels run."""
    return [line.partition(": ")[2] for line in capsys.readouterr().err.splitlines() if "kernels run on" in line]


@pytest.fixture(params=[8, 9])
def release(request, homes, monkeypatch):
    return use(homes[request.param], monkeypatch)


def test_a_kernel_of_vector_cores(release):
    x = torch.randn(300)
    assert torch.equal(compiled(scale())(x), x * 2)
    assert release.calls("aclrtMalloc") == release.calls("aclrtFree") == 2 and release.driver.stand_in_live() == 0


def test_a_kernel_of_cube_cores(release):
    a, b = (np.random.default_rng(0).standard_normal((32, 32)).astype(np.float16) for _ in range(2))
    np.testing.assert_allclose(compiled(product())(a, b), a.astype(np.float32) @ b.astype(np.float32), rtol=1e-4)


def test_a_kernel_of_both(release):
    a, b = (np.random.default_rng(1).standard_normal((32, 32)).astype(np.float16) for _ in range(2))
    wanted = np.maximum(a.astype(np.float32) @ b.astype(np.float32), 0)
    np.testing.assert_allclose(compiled(product(activation=True))(a, b), wanted, rtol=1e-4, atol=1e-5)
    assert release.calls("rtGetC2cCtrlAddr") == 1 and release.driver.stand_in_live() == 0


def test_scalars_shape_variables_and_tensors_that_are_read_and_written(cann):
    kernel = compiled(increment(), out_idx=None)
    for n in (1, 130):
        x = np.arange(n, dtype=np.float32)
        kernel(x, 2.5)
        np.testing.assert_array_equal(x, np.arange(n, dtype=np.float32) + 2.5)


def test_calls_from_another_thread(cann):
    """A device is set thread by thread."""
    kernel, x = compiled(scale()), torch.randn(300)
    kernel(x)
    with ThreadPoolExecutor(1) as pool:
        assert torch.equal(pool.submit(kernel, x).result(), x * 2)


def test_several_launches_share_a_workspace(cann):
    x = np.arange(256, dtype=np.float32)
    np.testing.assert_array_equal(compiled(two_launches())(x), (np.roll(x, 128) + 1) * 2)
    assert cann.calls("aclrtMalloc") == 3 and cann.driver.stand_in_live() == 0


def test_strides_and_tensors_without_elements(cann):
    x = torch.arange(600, dtype=torch.float32)
    assert torch.equal(compiled(scale())(x[::2]), x[::2] * 2)
    n = np.zeros(0, np.float32)
    compiled(increment(), out_idx=None)(n, 1.0)


def test_the_binary_is_kept_by_content_and_tool_version(cann, monkeypatch):
    x = torch.randn(300)
    before = len(cann.compiled())
    kernel = compiled(scale(factor=7.0))
    kernel(x)
    kernel(x)
    compiled(scale(factor=7.0))(x)
    assert len(cann.compiled()) == before + 1
    compiled(scale(factor=8.0))(x)
    assert len(cann.compiled()) == before + 2
    monkeypatch.setattr("tilelang_ascend.runtime.npu.cann._says", lambda *_: "another one")
    kernel(x)
    assert len(cann.compiled()) == before + 3


@pytest.mark.parametrize("major", [8, 9])
def test_the_command_line_is_that_of_the_release_and_the_core(homes, monkeypatch, major):
    home = use(homes[major], monkeypatch)
    for func, core in ((scale(factor=major), "-vec"), (product(), "-cube"), (product(activation=True), "")):
        compiled(func)  # compiles the text; bisheng comes with the first call
        inputs = [np.zeros(p.extents, p.dtype) for p in compiled(func).params[:-1]]
        compiled(func)(*inputs)
        wanted = "-xasc --npu-arch=dav-2201" if major == 9 else f"-xcce --cce-aicore-arch=dav-c220{core} "
        assert any(wanted in line for line in home.compiled()), (wanted, home.compiled())
    assert all("--cce-auto-sync=off" in line for line in home.compiled())


def test_times_are_those_of_events(cann):
    from tilelang_ascend.profiler import do_bench

    record: list = []
    cann.reset(record)
    kernel, x = compiled(scale()), torch.randn(300)
    milliseconds = do_bench(lambda: kernel(x), _n_warmup=1, _n_repeat=2, return_mode="min")
    assert len(record) == 5  # to see where it runs, once to see how long it takes, 1 + 2
    assert milliseconds == pytest.approx(min(r.simulated_us for r in record[-2:]) / 1e3, rel=1e-5)
    assert kernel.get_profiler().do_bench(n_warmup=1, n_repeat=1) == pytest.approx(record[-1].simulated_us / 1e3, rel=1e-5)
    assert len(record) > 5 and cann.calls("aclrtCreateEvent") == cann.calls("aclrtDestroyEvent") > 0


def test_ascend_means_the_chip_of_the_board_and_says_so_in_one_line(cann, capsys):
    kernel = compiled(scale(), backend=None, target="ascend")
    assert kernel.artifact.chip == "Ascend910B3"
    for _ in range(2):
        assert torch.equal(kernel(torch.ones(300)), torch.full((300,), 2.0))
    assert cann.calls("aclrtSynchronizeStreamWithTimeout") == 2
    assert lines(capsys) == ["kernels run on Ascend910B3 with CANN 9.0.0"]


def test_without_a_board_ascend_means_the_simulator_and_says_why_in_one_line(cann, capsys):
    cann.driver.stand_in_devices(0, b"")
    kernel = compiled(scale(), backend=None, target="ascend")
    assert kernel.artifact.chip == "Ascend910B1"
    for _ in range(2):
        assert torch.equal(kernel(torch.ones(300)), torch.full((300,), 2.0))
    assert lines(capsys) == ["kernels run on the simulator: the driver sees no NPU"]


@pytest.mark.parametrize(
    "target, why", [("a5", "is compiled for Ascend950PR_958x, the NPU is Ascend910B3"), ("Ascend910B1", "launches 48 blocks")]
)
def test_a_kernel_for_another_chip_runs_on_the_simulator(cann, capsys, target, why):
    kernel = compiled(scale(n=48 * 128), backend=None, target=target)
    x = torch.randn(48 * 128)
    assert torch.equal(kernel(x), x * 2)
    (line,) = lines(capsys)
    assert line.startswith("kernels run on the simulator") and why in line
    with pytest.raises(TargetError, match=why):
        compiled(scale(n=48 * 128), target=target)(x)


def test_a_chip_nobody_knows(cann):
    cann.driver.stand_in_devices(1, b"Ascend1234")
    with pytest.raises(TargetError, match="the NPU is Ascend1234 with CANN 9.0.0, a chip this release does not know"):
        compiled(scale())(torch.ones(300))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_narrow_scalars_arrive_rounded_to_their_dtype(release, dtype):
    kernel, x = compiled(shift(dtype)), torch.randn(64)
    for value in (0.3, -1.5, 65000.0, 1e-7, 0.0, float("inf"), 1e39):
        assert torch.equal(kernel(x, value), x + torch.tensor(value, dtype=torch.float64).to(getattr(torch, dtype)).float())
    assert torch.isnan(kernel(x, float("nan"))).all()


def test_a_kernel_that_prints_runs_silently_and_says_so_once(release, capsys):
    record: list = []
    release.reset(record)
    kernel, x = compiled(talkative()), torch.linspace(-1, 1, 64)
    kernel.artifact.told.clear()  # which an earlier kernel of the same text may share
    for _ in range(2):
        assert torch.equal(kernel(x), x * 2)
    assert not any(result.printed for result in record)
    told = [line.partition(": ")[2] for line in capsys.readouterr().err.splitlines() if "print" in line]
    assert told == ["talkative: what it prints is not shown on the NPU; kernel.simulate(...) prints it"]
    with pytest.raises(DeviceError, match="kernel talkative failed on the NPU: a core raised an exception"):
        kernel(x + 10)  # assertions hold there, too


def test_a_device_without_memory_for_printing_fails_when_a_text_prints(cann):
    """What the switch in the text is for: without it the stand-in refuses."""
    kernel = compiled(talkative())
    loud = kernel.artifact.kernel_source.replace("#ifdef TILELANG_ASCEND_SILENT", "#if 0")
    with pytest.raises(DeviceError, match="a core raised an exception") as caught:
        type(kernel)(dataclasses.replace(kernel.artifact, kernel_source=loud), "npu")(torch.zeros(64))
    assert "no memory for what the kernel prints" in str(caught.value)


def test_a_profiler_measures_on_the_board_with_memory_that_is_copied_once(cann):
    record: list = []
    cann.reset(record)
    profiler = compiled(scale()).get_profiler()
    times = profiler.do_bench(n_warmup=2, n_repeat=3, quantiles=[0, 1])
    assert len(record) == 1 + 2 + 3  # the first tells how long one takes
    measured = [result.simulated_us / 1e3 for result in record[-3:]]
    assert times == pytest.approx([min(measured), max(measured)], rel=1e-5)
    assert cann.calls("aclrtMemcpy") == 1 and cann.driver.stand_in_live() == 0  # the output is not copied, and nothing comes back
    del record[:]
    once = profiler.do_bench(warmup=0, rep=0, input_tensors=[torch.ones(300)])
    assert len(record) == 2 and once == pytest.approx(record[-1].simulated_us / 1e3, rel=1e-5)
    del record[:]
    profiler.do_bench(warmup=2.5 * once, rep=4.5 * once)
    assert len(record) == 1 + 2 + 4
    assert cann.calls("aclrtCreateEvent") == cann.calls("aclrtDestroyEvent") > 0
