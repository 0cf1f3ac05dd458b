"""Exported folders: CMake builds them with the compiler of CANN, C and torch call what it made, and nothing of this package takes part."""

import ctypes
import importlib.util
import os
import shutil
import subprocess
import sys

import pytest
import torch
from npu_kernels import compiled, first_columns, increment, product, scale, shift, sum_and_difference, talkative, two_launches
from npu_tensors import to_npu, torch_npu
from stand_in_cann import use

pytestmark = pytest.mark.skipif(shutil.which("cmake") is None, reason="no cmake")

CALLER = """
#include "two_launches_kernel.h"

int32_t aclInit(const char*);
int32_t aclrtSetDevice(int32_t);
int32_t aclrtMalloc(void**, size_t, int32_t);
int32_t aclrtMemcpy(void*, size_t, const void*, size_t, int32_t);
int32_t aclrtCreateStream(void**);
int32_t aclrtSynchronizeStreamWithTimeout(void*, int32_t);

/* Runs the kernel on host memory: B = 2 * (A + 1), halves swapped. */
int caller(const float* a, float* b) {
  void *there_a, *there_b, *workspace, *stream;
  aclInit(NULL);
  if (aclrtSetDevice(0) || aclrtMalloc(&there_a, 1024, 0) || aclrtMalloc(&there_b, 1024, 0)) return 1;
  if (aclrtMalloc(&workspace, two_launches_workspace_bytes(), 0) || aclrtCreateStream(&stream)) return 2;
  if (aclrtMemcpy(there_a, 1024, a, 1024, 1) || two_launches_launch(there_a, there_b, workspace, stream)) return 3;
  if (aclrtSynchronizeStreamWithTimeout(stream, 1000)) return 4;
  return aclrtMemcpy(b, 1024, there_b, 1024, 2);
}
"""


def cmake(folder, home, *more):
    """Configure and build; the text CMake left."""
    environment = {**os.environ, "ASCEND_HOME_PATH": str(home.path)}
    build = folder / "build"
    done = subprocess.run(["cmake", "-S", folder, "-B", build, *more], capture_output=True, text=True, env=environment)
    if done.returncode == 0:
        done = subprocess.run(["cmake", "--build", build], capture_output=True, text=True, env=environment)
    return done


def built(kernel, folder, home, op=None):
    kernel.export_library(folder, op)
    done = cmake(folder, home)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def torch_op_of(folder):
    """The module of an exported folder, which has registered its op."""
    (path,) = folder.glob("*_op.py")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("major", [8, 9])
def test_a_c_project_links_the_exported_library(homes, monkeypatch, tmp_path, major):
    home = use(homes[major], monkeypatch)
    compiled(two_launches()).export_library(tmp_path / "kernel")
    (tmp_path / "caller.c").write_text(CALLER.replace("#include", "#include <stddef.h>\n#include", 1))
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.18)\nproject(x C)\nadd_subdirectory(kernel)\nadd_library(caller SHARED caller.c)\n"
        "target_compile_options(caller PRIVATE -std=c99 -pedantic -Wall -Werror)\n"
        "target_link_libraries(caller two_launches_kernel ${CANN_LIBRARIES})\n"
    )
    done = cmake(tmp_path, home, f"-DCMAKE_SHARED_LINKER_FLAGS=-L{home.path}/lib64 -lascendcl")
    assert done.returncode == 0, done.stdout + done.stderr
    x, y = torch.arange(256.0), torch.zeros(256)
    caller = ctypes.CDLL(str(tmp_path / "build" / "libcaller.so"))
    assert caller.caller(ctypes.c_void_p(x.data_ptr()), ctypes.c_void_p(y.data_ptr())) == 0
    assert torch.equal(y, (x.roll(128) + 1) * 2)


def test_the_exported_op_under_torch_compile(cann, tmp_path):
    folder = built(compiled(scale()), tmp_path / "exported", cann, "exported::twice")
    op = torch_op_of(folder).op

    @torch.compile(backend="aot_eager", fullgraph=True)
    def function(x):
        return op(x + 1) * 3

    x = torch.randn(300)
    assert torch.equal(function(x), (x + 1) * 2 * 3)
    assert torch.equal(torch.ops.exported.twice(torch.ones(600)[::2]), torch.full((300,), 2.0))
    assert cann.driver.stand_in_live() == 0
    with pytest.raises(TypeError, match="parameter A: expected torch.float32, got torch.float16"):
        op(x.half())
    with pytest.raises(ValueError, match=r"parameter A: expected \(300,\), got \(299,\)"):
        op(x[1:])


def test_the_exported_op_writes_in_place_and_takes_any_extent(cann, tmp_path):
    op = torch_op_of(built(compiled(increment(), out_idx=None), tmp_path / "exported", cann)).op
    for n in (1, 130, 0):
        x = torch.arange(float(2 * n))
        op(x[::2], 2.5)
        assert torch.equal(x[::2], 2 * torch.arange(float(n)) + 2.5) and torch.equal(x[1::2], 2 * torch.arange(float(n)) + 1)


def test_results_of_the_exported_op_have_the_order_of_out_idx(cann, tmp_path):
    op = torch_op_of(built(compiled(sum_and_difference(), out_idx=[3, 2]), tmp_path / "exported", cann)).op
    x = torch.randn(64)
    less, more = op(x, 2)
    assert torch.equal(less, x - 2) and torch.equal(more, x + 2)
    negative = torch.complex(x, x).conj().imag  # a view whose elements are the negatives of what is in memory
    assert negative.is_neg() and torch.equal(op(negative, 1)[0], -x - 1)
    with pytest.raises(ValueError, match="int32 does not hold 4294967297"):
        op(x, 2**32 + 1)


def test_what_the_exported_op_writes_has_memory_of_its_own(cann, tmp_path):
    op = torch_op_of(built(compiled(sum_and_difference(), out_idx=None), tmp_path / "exported", cann, "exported::in_place")).op
    x, less = torch.randn(128), torch.zeros(64)
    with pytest.raises(ValueError, match="More is written by the kernel, but shares memory with the tensor passed for A"):
        op(x[:64], 1, x[32:96], less)
    op(x[:64], 1, x[64:], less)
    assert torch.equal(x[64:], x[:64] + 1)


def test_rows_that_are_too_far_apart_for_transfers(cann, tmp_path):
    """The C function refuses them by its number, the op as a call of the kernel does."""
    folder = built(compiled(first_columns(), out_idx=None), tmp_path / "exported", cann)
    op = torch_op_of(folder).op
    a, n, b = torch.arange(300.0).reshape(3, 100), torch.zeros(50, dtype=torch.int8), torch.zeros(3, 64)
    op(a, n, b)
    assert torch.equal(b, a[:, :64])
    launch = ctypes.CDLL(str(folder / "build" / "libfirst_columns_kernel.so")).first_columns_launch
    assert launch(None, None, None, ctypes.c_int32(1 << 28), None, None) == 2
    assert "2 where rows of a tensor are 2^31 bytes apart" in (folder / "first_columns_kernel.h").read_text()
    far, columns = torch.zeros(1).expand(3, 1 << 29), torch.zeros(1, dtype=torch.int8).expand(1 << 28)
    with pytest.raises(ValueError, match=r"Rows of parameter A are 2147483648 bytes apart, but \(n \* 2\) is int32"):
        op(far, columns, b)


def test_the_exported_op_takes_narrow_scalars(cann, tmp_path):
    op = torch_op_of(built(compiled(shift("bfloat16")), tmp_path / "exported", cann)).op
    x = torch.randn(64)
    for value in (0.3, -2.5, 1e39):
        assert torch.equal(op(x, value), x + torch.tensor(value, dtype=torch.float64).to(torch.bfloat16).float())
    assert "uint16_t s" in (tmp_path / "exported" / "shift_kernel.h").read_text()
    assert "| `s` | bfloat16, as its bits |" in (tmp_path / "exported" / "README.md").read_text()


def test_the_exported_op_of_a_kernel_that_prints(cann, tmp_path):
    op = torch_op_of(built(compiled(talkative()), tmp_path / "exported", cann)).op
    assert torch.equal(op(torch.ones(64)), torch.full((64,), 2.0))
    assert "prints nothing" in (tmp_path / "exported" / "README.md").read_text()


def test_the_exported_op_uses_tensors_on_the_npu_in_place(cann, tmp_path, monkeypatch):
    folder = built(compiled(product(activation=True)), tmp_path / "exported", cann)
    kernel = torch_op_of(folder).Library(folder)
    npu = torch_npu(cann.driver)
    monkeypatch.setitem(sys.modules, "torch_npu", npu)
    a, b = torch.randn(32, 32).half(), torch.randn(32, 32).half()
    c = kernel(to_npu(cann.driver, a), to_npu(cann.driver, b))
    cann.driver.aclrtSynchronizeStreamWithTimeout(ctypes.c_void_p(npu.npu.current_stream(0).npu_stream), 1000)
    torch.testing.assert_close(c.as_subclass(torch.Tensor), (a.float() @ b.float()).relu(), rtol=1e-4, atol=1e-4)
    assert cann.calls("aclrtMemcpy") == 0


def test_the_exported_folder_needs_nothing_of_this_package(cann, tmp_path):
    compiled(scale()).export_library(tmp_path)
    names = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file()}
    assert names == {
        "kernel.cpp", "launcher.cpp", "scale_kernel.h", "CMakeLists.txt", "cmake/FindCANN.cmake", "kernel.json", "scale_op.py", "README.md"
    }  # fmt: skip
    assert "import tilelang" not in (tmp_path / "scale_op.py").read_text() and __file__ not in (tmp_path / "kernel.json").read_text()


def test_errors_of_export(homes, cann, tmp_path):
    with pytest.raises(ValueError, match="writes a folder"):
        compiled(scale()).export_library(tmp_path / "kernel.so")
    compiled(scale(), target="ascend -cann=9").export_library(tmp_path / "nine")
    done = cmake(tmp_path / "nine", homes[8])
    assert done.returncode != 0 and "the text is in the form of CANN 9" in done.stderr
    compiled(scale()).export_library(tmp_path / "unbuilt")
    with pytest.raises(FileNotFoundError, match="build it: cmake -S"):
        torch_op_of(tmp_path / "unbuilt")
