"""`doctor` names each thing an NPU needs, and what to do about one that is not there."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from stand_in_cann import make_home, use

from tilelang_ascend.runtime.npu import board
from tilelang_ascend.tools import doctor_npu
from tilelang_ascend.tools.doctor_npu import examine_npu


@pytest.fixture(autouse=True)
def _plain_machine(monkeypatch, tmp_path):
    """Nothing of CANN in the PATH, and a driver that states its version."""
    stated = tmp_path / "driver.info"
    stated.write_text("Version=24.1.rc3\n")
    monkeypatch.setattr("tilelang_ascend.runtime.npu.cann.DRIVER_FILE", stated)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")


def findings() -> dict:
    return {f.subject: f for f in examine_npu()}


def test_all_is_there(cann):
    found = findings()
    assert [found[s].status for s in ("CANN", "bisheng", "NPU driver", "NPU")] == ["ok"] * 4
    assert found["CANN"].detail == f"9.0.0 in {cann.path}"
    assert found["bisheng"].detail == f"bisheng 9.0.0 (stand-in) ({cann.path}/bin/bisheng)"
    assert found["NPU driver"].detail == "24.1.rc3" and found["NPU"].detail == "Ascend910B3, 1 visible"


def test_no_cann(monkeypatch, tmp_path):
    found = findings()
    assert found["CANN"].status == "missing" and "source set_env.sh" in found["CANN"].meaning
    monkeypatch.setenv("ASCEND_HOME_PATH", str(tmp_path / "gone"))
    assert findings()["CANN"].detail == f"ASCEND_HOME_PATH is {tmp_path}/gone, which is no folder"


def test_a_release_that_is_too_old(cann, tmp_path, monkeypatch):
    home = make_home(tmp_path / "7", 8)
    (home.path / "compiler" / "version.info").write_text("Version=7.0.0\n")
    use(home, monkeypatch)
    assert findings()["CANN"] == doctor_npu.Finding("broken", "CANN", f"7.0.0 in {home.path}", "install CANN 8.0 or later")


def test_no_compiler_no_driver_no_library(tmp_path, monkeypatch):
    home = make_home(tmp_path / "bare", 9)
    (home.path / "bin" / "bisheng").unlink()
    (home.path / "lib64" / "libascendcl.so").unlink()
    monkeypatch.setattr("tilelang_ascend.runtime.npu.cann.DRIVER_FILE", tmp_path / "none")
    use(home, monkeypatch)
    found = findings()
    assert found["bisheng"].status == "missing" and "install the CANN toolkit" in found["bisheng"].meaning
    assert found["NPU driver"].status == "missing" and "install the NPU driver" in found["NPU driver"].meaning
    assert "has no libascendcl.so" in found["NPU"].detail and "install the CANN toolkit" in found["NPU"].meaning


@pytest.mark.parametrize(
    "spoil, detail, what_to_do",
    [
        (lambda home: home.driver.stand_in_devices(0, b""), "the driver sees no NPU", "npu-smi info"),
        (lambda home: home.driver.stand_in_devices(1, b"Ascend1234"), "a chip this release does not know", "simulator"),
        (lambda home: home.fail("aclInit", 507899, "driver too old"), "driver too old) (CANN 9.0.0, driver 24.1.rc3)", "simulator"),
    ],
)
def test_a_board_that_cannot_be_used(cann, spoil, detail, what_to_do):
    spoil(cann)
    board._open.cache_clear()
    assert detail in findings()["NPU"].detail and what_to_do in findings()["NPU"].meaning


@pytest.mark.parametrize(
    "file, text, version",
    [
        ("version.cfg", "# version: 1.0\nruntime_running_version=[8.0.0.1:8.0.RC3]\n", "8.0.RC3"),
        ("aarch64-linux/ascend_toolkit_install.info", "package_name=Ascend-cann-toolkit\nversion=8.1.RC1\ninnerversion=V100\n", "8.1.RC1"),
        ("opp/version.info", "Version=9.0.0\n", "9.0.0"),
    ],
)
def test_where_releases_state_their_version(tmp_path, file, text, version):
    from tilelang_ascend.runtime.npu.cann import version_of

    path = tmp_path / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    assert version_of(tmp_path) == version


def configure(folder, home) -> str:
    """What CMake says of a project that looks for CANN 8.0."""
    folder.mkdir()
    modules = Path(__file__).parents[3] / "cmake"
    (folder / "CMakeLists.txt").write_text(
        f'cmake_minimum_required(VERSION 3.18)\nproject(x NONE)\nlist(APPEND CMAKE_MODULE_PATH "{modules}")\nfind_package(CANN 8.0)\n'
        'message(STATUS "found ${CANN_FOUND} ${CANN_VERSION} ${CANN_COMPILER}")\n'
    )
    environment = {**os.environ, "ASCEND_HOME_PATH": str(home)}
    done = subprocess.run(["cmake", "-S", folder, "-B", folder / "build"], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    return re.sub(r"\s+", " ", done.stdout + done.stderr)


@pytest.mark.skipif(shutil.which("cmake") is None, reason="no cmake")
def test_cmake_finds_the_same(homes, tmp_path):
    for major, version in ((8, "8.1.RC1"), (9, "9.0.0")):
        said = configure(tmp_path / str(major), homes[major].path)
        assert f"found TRUE {version} {homes[major].path}/bin/bisheng" in said
    assert "Could NOT find CANN" in (said := configure(tmp_path / "none", "")) and "source set_env.sh" in said
