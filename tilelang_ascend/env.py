"""Every environment variable the package reads, in one typed registry.

Values are read at each use, so a test or a notebook may change them at any time. `doctor` prints this table.
"""

from __future__ import annotations

import json
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable

_TRUE = ("1", "true", "yes", "on")
_FALSE = ("0", "false", "no", "off")


def _bool(text: str) -> bool:
    low = text.strip().lower()
    if low in _TRUE:
        return True
    if low in _FALSE:
        return False
    raise ValueError(f"expected one of {', '.join(_TRUE + _FALSE)}")


def _one_of(*choices: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        low = text.strip().lower()
        if low not in choices:
            raise ValueError(f"expected one of {', '.join(choices)}")
        return low

    return parse


def _seconds(text: str) -> float:
    number = float(text)
    if not 0 < number < 2e6:  # the driver counts milliseconds in an int32
        raise ValueError("expected a number of seconds above 0 and below 2000000")
    return number


def _target(text: str) -> Any:
    """A target string, or a JSON object for a target dict."""
    return json.loads(text) if text.lstrip().startswith("{") else text


@dataclass(frozen=True)
class Knob:
    """One environment variable: its name, default, parser and one line of documentation."""

    name: str
    default: Any
    parse: Callable[[str], Any]
    doc: str

    def get(self) -> Any:
        """The current value; an empty variable counts as one that is not set.

        Raises:
            ValueError: the variable is set to something that does not parse.
        """
        text = os.environ.get(self.name, "")
        if not text.strip():
            return self.default() if callable(self.default) else self.default
        try:
            return self.parse(text)
        except ValueError as reason:
            raise ValueError(f"environment variable {self.name}={text!r}: {reason}") from None


def _default_cache_dir() -> Path:
    import platformdirs

    folder = Path(platformdirs.user_cache_dir("tilelang_ascend", appauthor=False))
    if folder.is_absolute():
        return folder
    # A user without a home.
    return Path(tempfile.gettempdir()) / f"tilelang_ascend-{os.getuid()}"


def _folder(text: str) -> Path:
    try:
        return Path(text).expanduser()
    except RuntimeError as reason:
        raise ValueError(str(reason)) from None


CACHE_DIR = Knob("TILELANG_CACHE_DIR", _default_cache_dir, _folder, "folder in which the on-disk kernel cache makes its own one")
DISABLE_CACHE = Knob("TILELANG_DISABLE_CACHE", False, _bool, "1: neither read nor write the on-disk kernel cache")
DEFAULT_TARGET = Knob("TILELANG_DEFAULT_TARGET", "ascend", _target, "target of kernels that name none (text or JSON)")
EXECUTION_BACKEND = Knob(
    "TILELANG_EXECUTION_BACKEND",
    "auto",
    _one_of("auto", "sim", "npu", "rpc"),
    "where a kernel call runs: auto, sim, npu or rpc",
)
NPU_DEVICE = Knob("TILELANG_NPU_DEVICE", 0, int, "number of the NPU that calls with tensors of the host use")
NPU_TIMEOUT = Knob("TILELANG_NPU_TIMEOUT", 60.0, _seconds, "seconds after which a kernel that has not ended on the NPU is an error")
SIM_CHECKS = Knob(
    "TILELANG_SIM_CHECKS",
    "initcheck",
    _one_of("off", "initcheck", "on"),
    "checks of simulated kernel calls; initcheck: nothing undefined is returned; on: memcheck, initcheck, racecheck and synccheck; off: none",
)
VERIFY_PASSES = Knob("TILELANG_VERIFY_PASSES", False, _bool, "1: check the IR after every pass against the rules of its stage")
PRINT_ON_COMPILATION = Knob("TILELANG_PRINT_ON_COMPILATION", False, _bool, "1: one line per compiled kernel")
LOG_LEVEL = Knob(
    "TILELANG_LOG_LEVEL",
    "info",
    _one_of("debug", "info", "warning", "error", "critical"),
    "least severe message that is printed",
)
AUTO_TUNING_DISABLE_CACHE = Knob(
    "TILELANG_AUTO_TUNING_DISABLE_CACHE", False, _bool, "1: measure every configuration again in every process"
)
AUTO_TUNING_CPU_UTILITIES = Knob("TILELANG_AUTO_TUNING_CPU_UTILITIES", 0.9, float, "share of the available CPUs that tuning uses")
AUTO_TUNING_CPU_COUNTS = Knob("TILELANG_AUTO_TUNING_CPU_COUNTS", -1, int, "worker processes of the tuner; -1: as the share says")
AUTO_TUNING_MAX_CPU_COUNT = Knob("TILELANG_AUTO_TUNING_MAX_CPU_COUNT", -1, int, "most worker processes of the tuner; -1: no limit")

INTERPRET = Knob("TILELANG_INTERPRET", False, _bool, "1: kernel calls run the Python of the kernel on NumPy tiles instead of compiling it")
INTERPRET_SEED = Knob("TILELANG_INTERPRET_SEED", 0, int, "interpreted kernels: decides the order of blocks and of T.Parallel iterations")

TRACKER = Knob("TILELANG_ASCEND_TRACKER", "", str.strip, "HOST:PORT of the tracker whose servers run kernels with rpc")
RPC_KEY = Knob(
    "TILELANG_ASCEND_KEY", "", str.strip, "key of the servers that run kernels with rpc; the family of a kernel's chip by default (a2)"
)
RPC_TIMEOUT = Knob("TILELANG_ASCEND_RPC_TIMEOUT", 120.0, _seconds, "seconds after which a remote build, run or measurement is an error")

KNOBS: tuple[Knob, ...] = (
    CACHE_DIR,
    DISABLE_CACHE,
    DEFAULT_TARGET,
    EXECUTION_BACKEND,
    NPU_DEVICE,
    NPU_TIMEOUT,
    SIM_CHECKS,
    VERIFY_PASSES,
    PRINT_ON_COMPILATION,
    LOG_LEVEL,
    AUTO_TUNING_DISABLE_CACHE,
    AUTO_TUNING_CPU_UTILITIES,
    AUTO_TUNING_CPU_COUNTS,
    AUTO_TUNING_MAX_CPU_COUNT,
    INTERPRET,
    INTERPRET_SEED,
    TRACKER,
    RPC_KEY,
    RPC_TIMEOUT,
)


def __getattr__(name: str) -> Any:
    """``env.TILELANG_CACHE_DIR``: the value of a variable by its full name."""
    for knob in KNOBS:
        if knob.name == name:
            return knob.get()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
