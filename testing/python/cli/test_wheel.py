"""The wheel, installed where no checkout is: everything a kernel needs is inside."""

import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]

SCRIPT = """
import sys

import numpy as np
import tilelang
import tilelang.language as T
import tilelang_ascend
from tilelang_ascend import arch
from tilelang_ascend.sim import machine, twin

assert tilelang_ascend.__file__.startswith(sys.prefix), tilelang_ascend.__file__


@T.prim_func
def product(A: T.Tensor((32, 32), "float16"), B: T.Tensor((32, 32), "float16"), C: T.Tensor((32, 32), "float32")):
    with T.Kernel(1, threads=128) as bx:
        a = T.alloc_shared((32, 32), "float16")
        b = T.alloc_shared((32, 32), "float16")
        c = T.alloc_fragment((32, 32), "float32")
        T.copy(A, a)
        T.copy(B, b)
        T.clear(c)
        T.gemm(a, b, c)
        T.copy(c, C)


kernel = tilelang.compile(product, out_idx=-1)
a, b = (np.random.default_rng(i).standard_normal((32, 32)).astype(np.float16) for i in range(2))
wanted = a.astype(np.float32) @ b.astype(np.float32)
np.testing.assert_allclose(kernel(a, b), wanted, rtol=1e-4, atol=1e-5)

# The emitted text, compiled by the host's compiler, on the machine model.
(step,), c = kernel.artifact.steps, np.zeros((32, 32), np.float32)
text = twin.compile_text(kernel.get_kernel_source(), f"{step.kernel}_kernel", kernel.artifact.chip, step.kernel_type)
memory = [machine.Tensor(x.ctypes.data, x.nbytes, name) for x, name in ((a, "A"), (b, "B"), (c, "C"))]
words = [memory["ABC".index(slot.name)].address for slot in step.abi]
result = machine.run(arch.get_chip(kernel.artifact.chip), step.kernel_type, step.block_dim, text.entries, words, memory)
assert not result.hazards
np.testing.assert_allclose(c, wanted, rtol=1e-4, atol=1e-5)

kernel.export_library("exported")
print("all of it runs")
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """A wheel of the checkout; its build folder stays as it is."""
    pytest.importorskip("scikit_build_core")
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", ROOT, "--no-build-isolation", "--no-deps", "--no-index", "-q", "-w", folder]
    done = subprocess.run([*command, "-C", f"build-dir={folder / 'build'}"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    (made,) = folder.glob("*.whl")
    return made


@pytest.mark.slow
def test_what_is_inside(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    of_package = {name.removeprefix("tilelang_ascend/") for name in names if ".dist-info/" not in name}
    checked_in = {path.relative_to(ROOT / "tilelang_ascend").as_posix() for path in (ROOT / "tilelang_ascend").rglob("*") if path.is_file()}
    made = {name for name in of_package if name.startswith(("lib/", "include/", "cmake/"))}
    assert of_package - made == {name for name in checked_in if "__pycache__" not in name}
    assert {"lib/libtilelang_ascend.so", "cmake/FindCANN.cmake", "include/twin/include/kernel_operator.h", "include/isa/dtype.h"} <= made


@pytest.mark.slow
def test_a_kernel_and_its_text_run_from_the_installed_wheel(wheel, tmp_path):
    """In an environment of its own; only what the package depends on is shared with this one."""
    home = tmp_path / "environment"
    venv.create(home, with_pip=False)
    python, environment = home / "bin" / "python", {**os.environ, "TILELANG_CACHE_DIR": str(tmp_path / "cache")}
    environment.pop("PYTHONPATH", None)

    def run(*command):
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    run(sys.executable, "-m", "pip", "--python", python, "install", "--no-deps", "--no-index", "-q", wheel)
    packages = [path for path in sys.path if path.endswith("site-packages")]
    own = Path(sysconfig.get_path("purelib", vars={"base": str(home), "platbase": str(home)}))
    (own / "shared.pth").write_text("\n".join(packages))
    (tmp_path / "script.py").write_text(SCRIPT)
    assert "all of it runs" in run(home / "bin" / "tilelang-ascend", "run", "script.py")
    assert (tmp_path / "exported" / "cmake" / "FindCANN.cmake").is_file()
    assert f"{own}/tilelang_ascend/lib/libtilelang_ascend.so" in run(home / "bin" / "tilelang-ascend", "doctor")
