"""What fails on a board is one sentence, with the words of the compiler or the driver below it."""

import re

import numpy as np
import pytest
import torch
from npu_kernels import compiled, scale
from stand_in_cann import make_home, use

from tilelang_ascend.errors import DeviceCompileError, DeviceError, DeviceMemoryError, DeviceTimeoutError, TargetError
from tilelang_ascend.runtime.npu import board

X = torch.arange(300, dtype=torch.float32)


def failure(kind, call):
    """(sentence, all that is printed) of the error."""
    with pytest.raises(kind) as caught:
        call()
    assert len(re.findall(r"[.!?] [A-Z]", caught.value.message)) == 0 and "\n" not in caught.value.message
    return caught.value.message, str(caught.value)


def test_a_text_that_does_not_compile(cann):
    kernel = compiled(scale(factor=3.0))
    kernel.artifact.kernel_source = kernel.artifact.kernel_source.replace("AscendC::Muls(", "AscendC::Mulls(")
    sentence, text = failure(DeviceCompileError, lambda: kernel(X))
    assert sentence == "bisheng of CANN 9.0.0 does not compile kernel scale (exit status 1)"
    assert "Mulls" in text and "--npu-arch=dav-2201" in text  # what it said, and what it was asked


def test_no_compiler(cann, tmp_path, monkeypatch):
    home = make_home(tmp_path / "runtime", 9)
    (home.path / "bin" / "bisheng").unlink()
    use(home, monkeypatch)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    sentence, text = failure(DeviceCompileError, lambda: compiled(scale())(X))
    assert "no compiler bisheng" in sentence and "hint: install the CANN toolkit" in text


def test_a_kernel_that_raises_an_exception(cann):
    kernel = compiled(scale(factor=4.0))
    kernel.artifact.kernel_source = re.sub(
        r"SetFlag<AscendC::HardEvent::\w+>", "SetFlag<AscendC::HardEvent::V_S>", kernel.artifact.kernel_source
    )
    sentence, text = failure(DeviceError, lambda: kernel(X))
    assert sentence.startswith("kernel scale failed on the NPU: a core raised an exception")
    assert "returned 507015" in text and "flag" in text
    assert cann.driver.stand_in_live() == 0


def test_no_address_for_flags_between_cores(cann):
    from npu_kernels import product

    a = np.zeros((32, 32), np.float16)
    cann.fail("rtGetC2cCtrlAddr", 507000, "")
    sentence, text = failure(DeviceError, lambda: compiled(product(activation=True))(a, a))
    assert "cannot be launched" in sentence and "rtGetC2cCtrlAddr" in text and cann.driver.stand_in_live() == 0


def test_memory_of_the_device_runs_out(cann):
    cann.driver.stand_in_memory(2000)
    sentence, text = failure(DeviceMemoryError, lambda: compiled(scale())(X))
    assert sentence == "the NPU has no 1200 bytes of memory left"
    assert "alloc device memory failed, size=1200" in text and "207001" in text
    assert cann.driver.stand_in_live() == 0
    cann.driver.stand_in_memory(10**6)
    assert torch.equal(compiled(scale())(X), X * 2)


def test_a_kernel_that_hangs(cann, monkeypatch):
    monkeypatch.setenv("TILELANG_NPU_TIMEOUT", "1.5")
    kernel = compiled(scale())
    cann.driver.stand_in_hang()
    sentence, text = failure(DeviceTimeoutError, lambda: kernel(X))
    assert sentence == "kernel scale did not end within 1.5 s and may still run on the NPU"
    assert "timeout=1500ms" in text and "TILELANG_NPU_TIMEOUT" in text
    assert cann.driver.stand_in_live() == 2  # it may still write there
    assert torch.equal(kernel(X), X * 2) and cann.calls("aclrtCreateStream") == 2


def test_a_library_without_a_function(tmp_path, monkeypatch):
    use(make_home(tmp_path / "old", 8, "-DWITHOUT_TIMEOUT"), monkeypatch)
    sentence, text = failure(TargetError, lambda: compiled(scale())(X))
    assert "libascendcl.so of CANN 8.1.RC1 has no function aclrtSynchronizeStreamWithTimeout" in sentence


def test_a_library_of_a_kernel_that_does_not_load(cann):
    kernel = compiled(scale(factor=5.0))
    kernel.artifact.host_source = 'extern "C" int other_release();\n' + kernel.artifact.host_source.replace(
        "return 0;", "return other_release();"
    )
    sentence, text = failure(DeviceError, lambda: kernel(X))
    assert "cannot be loaded" in sentence and "undefined symbol: other_release" in text


def test_a_driver_that_does_not_fit(cann, tmp_path, monkeypatch):
    stated = tmp_path / "version.info"
    stated.write_text("Version=23.0.3\nancient=1\n")
    monkeypatch.setattr("tilelang_ascend.runtime.npu.cann.DRIVER_FILE", stated)
    cann.fail("aclrtSetDevice", 507899, "[drv api] halGetAPIVersion: driver too old for this runtime")
    sentence, text = failure(TargetError, lambda: compiled(scale())(X))
    assert "an internal error of the driver" in sentence and "driver too old for this runtime" in sentence
    assert "CANN 9.0.0, driver 23.0.3" in sentence


def test_libraries_that_do_not_load(cann, tmp_path, monkeypatch):
    home = make_home(tmp_path / "broken", 9)
    (home.path / "lib64" / "libascendcl.so").unlink()
    (home.path / "lib64" / "libascendcl.so").write_text("no library")
    use(home, monkeypatch)
    sentence, text = failure(TargetError, lambda: compiled(scale())(X))
    assert "libascendcl.so of CANN 9.0.0 cannot be loaded" in sentence and "invalid ELF header" in sentence or "too short" in sentence


def test_no_device(cann):
    cann.driver.stand_in_devices(0, b"")
    sentence, text = failure(TargetError, lambda: compiled(scale())(X))
    assert "the driver sees no NPU" in sentence and "use 'sim'" in sentence


def test_a_failure_of_the_driver_leaves_nothing_allocated(cann):
    for function in ("aclrtMemcpy", "aclrtCreateStream", "aclrtMalloc"):
        board._open.cache_clear()
        cann.fail(function, 507899, f"{function} says no")
        sentence, text = failure(DeviceError, lambda: compiled(scale())(X))
        assert sentence.startswith(f"{function} failed") and f"{function} says no" in text
        assert cann.driver.stand_in_live() == 0
