"""A CANN that is none: a home with a `bisheng` that calls g++ and libraries with the C interface of ACL whose kernels run on the machine model."""

from __future__ import annotations

import ctypes
import functools
import json
import os
import signal
import stat
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tilelang_ascend import native
from tilelang_ascend.arch import get_chip
from tilelang_ascend.isa.base import KERNEL_TYPES
from tilelang_ascend.runtime.npu import board, cann
from tilelang_ascend.sim import machine, twin

HERE = Path(__file__).parent / "stand_in"
VERSIONS = {8: "8.1.RC1", 9: "9.0.0"}
OPTIONS = machine.SimOptions(checks=("memcheck", "racecheck", "synccheck"))

_MACHINE = ctypes.CFUNCTYPE(
    ctypes.c_int32, ctypes.c_char_p, ctypes.c_uint32, ctypes.c_void_p, ctypes.POINTER(ctypes.c_int64), ctypes.c_int32,
    ctypes.POINTER(ctypes.c_int64), ctypes.c_int32, ctypes.POINTER(ctypes.c_float), ctypes.POINTER(ctypes.c_char),
)  # fmt: skip


@dataclass(frozen=True)
class Home:
    """A stand-in of one release. `driver` is its library, for tests that let it fail."""

    path: Path
    driver: ctypes.CDLL

    def reset(self, record: list | None = None, chip: str = "Ascend910B3") -> None:
        """As new; kernels run on a machine of their own, which appends its results to `record`."""
        callback = _runner(chip, record if record is not None else [], self.path)
        _alive.append(callback)
        self.driver.stand_in_reset(callback)

    def fail(self, function: str, code: int, message: str) -> None:
        """The next call of a function of the driver gives a code, and this text."""
        self.driver.stand_in_fail(function.encode(), code, message.encode())

    def calls(self, function: str) -> int:
        """How often a function was called since the reset."""
        return self.driver.stand_in_calls(function.encode())

    def compiled(self) -> list[str]:
        """Options of every compilation so far."""
        log = self.path / "compiled.txt"
        return log.read_text().splitlines() if log.exists() else []


_alive: list = []


def adopt(home: Path, chip: str = "Ascend910B3") -> None:
    """Let the driver of a home that another process has made run kernels in this one. A file `fault` in the home makes the next run fail:
    ``timeout`` and ``exception`` as the driver reports them; ``hang`` does not come back."""
    native.load()
    driver = _typed(ctypes.CDLL(str(home / "lib64" / "libascendcl.so")))
    Home(home, driver).reset(chip=chip)


def _fault(home: Path | None) -> str:
    """What the next run is to suffer, once."""
    if home is None:
        return ""
    try:
        text = (home / "fault").read_text()
        (home / "fault").unlink()
    except FileNotFoundError:
        return ""
    return text


_FAULTS = {"exception": 1, "timeout": 2}


def _runner(chip: str, record: list, home: Path | None = None):
    def run(kind, blocks, entry, words, n, regions, count, microseconds, why):
        kernel_type = kind.decode()
        fault = _fault(home)
        if fault == "hang":
            signal.pause()
        if fault:
            return _FAULTS[fault]
        tensors = [machine.Tensor(regions[i], regions[i + 1], f"device memory {i // 2}") for i in range(0, count, 2)]
        try:
            entries = {core: entry for core in KERNEL_TYPES[kernel_type]}
            result = machine.run(get_chip(chip), kernel_type, blocks, entries, words[:n], tensors, OPTIONS)
        except Exception as error:  # noqa: BLE001  nothing may pass through C
            text = str(error)
        else:
            record.append(result)
            microseconds[0] = result.simulated_us
            if result.output:
                text = "aicore exception: the launch gave no memory for what the kernel prints"
            elif not result.hazards:
                return 0
            else:
                text = result.hazards[0].text()
        for i, byte in enumerate(text.encode()[:500] + b"\0"):
            why[i] = byte
        return 1

    return _MACHINE(run)


@functools.cache
def _library(*flags: str) -> Path:
    folder = Path(_FOLDER.name) / f"lib{len(os.listdir(_FOLDER.name))}"
    folder.mkdir()
    path = folder / "libascendcl.so"
    base = [twin.find_compiler(), "-std=c++17", "-O1", "-fPIC", "-shared", "-Wall", "-Werror", f"-Wl,-soname,{path.name}"]
    subprocess.run([*base, *flags, str(HERE / "ascendcl.cc"), "-o", str(path)], check=True)
    return path


_FOLDER = tempfile.TemporaryDirectory(prefix="tilelang-stand-in-")


def use(home: Home, monkeypatch) -> Home:
    """Let this process find a home, with a driver that is as new."""
    monkeypatch.setenv("ASCEND_HOME_PATH", str(home.path))
    cann._find.cache_clear()
    board._open.cache_clear()
    home.reset()
    return home


def make_home(path: Path, major: int, *flags: str) -> Home:
    """A home of a release in a new folder. flags: for the compiler of its libraries, such as ``-DWITHOUT_TIMEOUT``."""
    native.load()  # what compiled kernels refer to
    library = _library(*flags)
    for folder in ("bin", "lib64", "headers", "compiler"):
        (path / folder).mkdir(parents=True)
    for name in ("libascendcl.so", "libruntime.so"):
        (path / "lib64" / name).symlink_to(library)
    for name, text in twin._generated_headers("c220").items():
        (path / "headers" / name).write_text(text)
    (path / "compiler" / "version.info").write_text(f"Version={VERSIONS[major]}\nversion_dir={VERSIONS[major]}\n")
    root = twin.header_root()
    flags = ("-std=c++17", "-O0", "-fPIC", "-shared", "-Wl,-Bsymbolic")
    includes = [f"-I{folder}" for folder in (root / "twin" / "include", root, path / "headers")]
    settings = {"major": major, "version": VERSIONS[major], "cxx": twin.find_compiler(), "flags": [*flags, *includes]}
    (path / "stand_in.json").write_text(json.dumps(settings))
    compiler = path / "bin" / "bisheng"
    compiler.write_text(f"#!{sys.executable}\n{(HERE / 'bisheng.py').read_text()}")
    compiler.chmod(compiler.stat().st_mode | stat.S_IXUSR)
    return Home(path, _typed(ctypes.CDLL(str(library))))


def _typed(driver: ctypes.CDLL) -> ctypes.CDLL:
    driver.stand_in_reset.argtypes = [_MACHINE]
    driver.stand_in_reset.restype = None
    driver.stand_in_fail.argtypes = [ctypes.c_char_p, ctypes.c_int32, ctypes.c_char_p]
    driver.stand_in_memory.argtypes = [ctypes.c_size_t]
    driver.stand_in_devices.argtypes = [ctypes.c_uint32, ctypes.c_char_p]
    driver.stand_in_calls.argtypes = [ctypes.c_char_p]
    return driver
