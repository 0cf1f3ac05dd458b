"""Kernels on a board, which is the machine model behind the C interface of ACL: the code that calls it cannot tell."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from npu_kernels import compiled, increment, product, scale, two_launches
from stand_in_cann import use

from tilelang_ascend.errors import ArgumentTypeError, TargetError


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


def test_a_scalar_the_launcher_cannot_pass(cann):
    import tilelang_ascend.language as T

    @T.prim_func
    def narrow(A: T.Tensor((64,), "float16"), s: T.float16):
        with T.Kernel(1, threads=128):
            for i in T.Parallel(64):
                A[i] = A[i] + s

    with pytest.raises(ArgumentTypeError, match="Parameter s is a float16 scalar, which the launcher on the NPU cannot pass"):
        compiled(narrow, out_idx=None)(np.zeros(64, np.float16), 1.0)
    assert cann.driver.stand_in_live() == 0
