"""What running kernels on an NPU needs, and what of it this machine has."""

from __future__ import annotations

from pathlib import Path

from ..errors import DeviceError
from ..runtime.npu import board, cann, profile
from .finding import Finding, version

OLDEST = 8
"""Release of CANN whose text and command line are known."""

_SIMULATOR = "kernels run on the simulator"


def examine_npu() -> list[Finding]:
    """Each requirement; where there is no CANN, that is all there is to say."""
    found = cann.find()
    if found is None:
        return [_no_cann(), _devices_of_the_kernel()]
    return [_cann(found), _compiler(found), _driver(), _npu(), _torch_npu(), _msprof(found)]


def _no_cann() -> Finding:
    return Finding("missing", "CANN", cann.why_absent(), f"{_SIMULATOR}; for an NPU, {cann.SET_ENV}")


def _devices_of_the_kernel() -> Finding:
    devices = sorted(path.name for path in Path("/dev").glob("davinci[0-9]*"))
    if devices:
        return Finding("missing", "NPU", f"{', '.join(devices)} in /dev, but no CANN to use it", _SIMULATOR)
    return Finding("missing", "NPU", "no /dev/davinci* device", _SIMULATOR)


def _cann(found: cann.Cann) -> Finding:
    if not found.version:
        return Finding("ok", "CANN", f"unknown release in {found.home}", f"it is used as CANN {found.major}")
    if found.major < OLDEST:
        return Finding("broken", "CANN", f"{found.version} in {found.home}", f"install CANN {OLDEST}.0 or later")
    return Finding("ok", "CANN", f"{found.version} in {found.home}")


def _compiler(found: cann.Cann) -> Finding:
    if found.compiler is None:
        meaning = "kernels cannot be compiled for the NPU; install the CANN toolkit: the runtime package has no compiler"
        return Finding("missing", "bisheng", f"not in {found.home} nor in the PATH", meaning)
    said = found.tool_version.partition("\n")[2].partition("\n")[0]
    return Finding("ok", "bisheng", f"{said or 'no version'} ({found.compiler})")


def _driver() -> Finding:
    stated = cann.driver_version()
    if not stated:
        return Finding("missing", "NPU driver", f"no {cann.DRIVER_FILE}", "install the NPU driver if this machine has an NPU")
    return Finding("ok", "NPU driver", stated)


def _npu() -> Finding:
    there = board.find_board()
    if isinstance(there, DeviceError):
        meaning = f"{_SIMULATOR}; {there.hint}" if there.hint else _SIMULATOR
        return Finding("missing", "NPU", " ".join([there.message, *(f"({text})" for text, _ in there.notes)]), meaning)
    if board.board_chip() is None:
        return Finding("missing", "NPU", f"{there.soc}, a chip this release does not know", _SIMULATOR)
    return Finding("ok", "NPU", f"{there.soc}, {there.acl.device_count()} visible", 'target="ascend" means this chip, kernels run on it')


def _torch_npu() -> Finding:
    have = version("torch-npu") or version("torch_npu")
    if have is None:
        return Finding("missing", "torch_npu", "not installed", "tensors of the host are copied to the NPU and back at every call")
    return Finding("ok", "torch_npu", have)


def _msprof(found: cann.Cann) -> Finding:
    path = profile.msprof(found)
    if path is None:
        return Finding("missing", "msprof", "not found", "kernel.profile() has no tables to read; install the CANN toolkit")
    return Finding("ok", "msprof", str(path))
