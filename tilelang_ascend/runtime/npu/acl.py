"""The functions of ACL (`libascendcl.so`) that running kernels takes, by ctypes; every error is one sentence with the driver's own text.

Names, parameter types and numbers are those of the public documentation of ACL; none was run on a board (assumed).
"""

from __future__ import annotations

import ctypes
import os
from pathlib import Path
from typing import Any

from ...errors import DeviceError, DeviceMemoryError, DeviceTimeoutError
from .cann import Cann, driver_version

LIBRARY = "libascendcl.so"

_ERROR = ctypes.c_int32
_POINTER = ctypes.c_void_p
_SIGNATURES: dict[str, tuple[Any, list]] = {
    "aclInit": (_ERROR, [ctypes.c_char_p]),
    "aclGetRecentErrMsg": (ctypes.c_char_p, []),
    "aclrtGetDeviceCount": (_ERROR, [ctypes.POINTER(ctypes.c_uint32)]),
    "aclrtSetDevice": (_ERROR, [ctypes.c_int32]),
    "aclrtGetSocName": (ctypes.c_char_p, []),
    "aclrtMalloc": (_ERROR, [ctypes.POINTER(_POINTER), ctypes.c_size_t, ctypes.c_int32]),
    "aclrtFree": (_ERROR, [_POINTER]),
    "aclrtMemcpy": (_ERROR, [_POINTER, ctypes.c_size_t, _POINTER, ctypes.c_size_t, ctypes.c_int32]),
    "aclrtCreateStream": (_ERROR, [ctypes.POINTER(_POINTER)]),
    "aclrtDestroyStream": (_ERROR, [_POINTER]),
    "aclrtSynchronizeStreamWithTimeout": (_ERROR, [_POINTER, ctypes.c_int32]),
    "aclrtCreateEvent": (_ERROR, [ctypes.POINTER(_POINTER)]),
    "aclrtDestroyEvent": (_ERROR, [_POINTER]),
    "aclrtRecordEvent": (_ERROR, [_POINTER, _POINTER]),
    "aclrtEventElapsedTime": (_ERROR, [ctypes.POINTER(ctypes.c_float), _POINTER, _POINTER]),
}
"""Function -> (result, parameters)."""

_HUGE_PAGES_FIRST = 0
TO_DEVICE, TO_HOST = 1, 2
"""Kinds of `aclrtMemcpy`."""

_ALREADY_INITIALISED = 100002
_TIMEOUT = 507046
_OUT_OF_MEMORY = {200000, 207001}
_MEANINGS = {
    100002: "it was initialised before",
    107000: "an argument is invalid",
    107001: "there is no such device",
    107002: "no device was set in this thread",
    107003: "the stream is of another context",
    200000: "memory of the host ran out",
    207000: "the device does not have the feature",
    207001: "memory of the device ran out",
    207004: "there is no device",
    500000: "an internal error",
    507000: "an internal error of the runtime",
    507014: "a core ran longer than the driver allows",
    507015: "a core raised an exception: an access outside of its memories or of a tensor, or a misaligned one",
    507033: "the device does not start",
    507034: "a vector core ran longer than the driver allows",
    507035: "a vector core raised an exception: an access outside of its memories or of a tensor, or a misaligned one",
    507046: "the work of the stream did not end in time",
    507899: "an internal error of the driver, as a driver that does not fit the release of CANN gives",
}
"""What the number of an error means; 507015 is reported by users, the others are of the documentation."""


class Acl:
    """An initialised ACL. Methods raise `errors.DeviceError`, or the class of it that says more."""

    def __init__(self, cann: Cann):
        self.cann = cann
        path = cann.library(LIBRARY)
        if path is None:
            raise DeviceError(f"{cann.label} in {cann.home} has no {LIBRARY}", hint="install the CANN toolkit, or its runtime package")
        self._library = self._load(path)
        # torch_npu, or another user of the process, may have done it.
        self._call("aclInit", None, allowed=(0, _ALREADY_INITIALISED))

    def _load(self, path: Path) -> ctypes.CDLL:
        try:
            library = ctypes.CDLL(str(path), mode=os.RTLD_NOW)
        except OSError as reason:
            raise DeviceError(
                f"{LIBRARY} of {self.cann.label} cannot be loaded",
                notes=[str(reason), *self._driver()],
                hint="source set_env.sh of CANN, and install the NPU driver: its libraries are in /usr/local/Ascend/driver/lib64",
            ) from None
        for name, (result, parameters) in _SIGNATURES.items():
            try:
                function = getattr(library, name)
            except AttributeError as reason:
                raise DeviceError(
                    f"{LIBRARY} of {self.cann.label} has no function {name}, which launching a kernel needs",
                    notes=[str(reason)],
                    hint="install CANN 8.0 or later",
                ) from None
            function.restype, function.argtypes = result, parameters
        return library

    def device_count(self) -> int:
        """Number of devices the driver sees."""
        count = ctypes.c_uint32()
        self._call("aclrtGetDeviceCount", ctypes.byref(count))
        return count.value

    def set_device(self, device: int) -> None:
        """Work of this thread goes to the device from now on."""
        self._call("aclrtSetDevice", device)

    def soc_name(self) -> str:
        """SKU of the chip, such as ``Ascend910B3``; empty when the driver does not say."""
        return (self._library.aclrtGetSocName() or b"").decode(errors="replace")

    def malloc(self, nbytes: int) -> int:
        """Address of so many bytes on the device.

        Raises:
            errors.DeviceMemoryError: there are not so many.
        """
        place = _POINTER()
        code = self._library.aclrtMalloc(ctypes.byref(place), nbytes, _HUGE_PAGES_FIRST)
        if code in _OUT_OF_MEMORY:
            raise DeviceMemoryError(
                f"the NPU has no {nbytes} bytes of memory left",
                notes=self._notes("aclrtMalloc", code),
                hint="free tensors on the device, or call the kernel with smaller ones",
            )
        self._check("aclrtMalloc", code)
        return int(place.value or 0)

    def free(self, address: int) -> None:
        """Give memory of the device back."""
        self._call("aclrtFree", address)

    def copy(self, to: int, source: int, nbytes: int, kind: int) -> None:
        """Copy between host and device, and return when it is done. kind: `TO_DEVICE` or `TO_HOST`."""
        self._call("aclrtMemcpy", to, nbytes, source, nbytes, kind)

    def create_stream(self) -> int:
        """A new stream of the device that is set."""
        return self._create("aclrtCreateStream")

    def create_event(self) -> int:
        """A new event of the device that is set."""
        return self._create("aclrtCreateEvent")

    def destroy_event(self, event: int) -> None:
        """Give an event back."""
        self._call("aclrtDestroyEvent", event)

    def record(self, event: int, stream: int) -> None:
        """Let the event take the time when the stream gets there."""
        self._call("aclrtRecordEvent", event, stream)

    def elapsed_us(self, start: int, end: int) -> float:
        """Microseconds between two events whose stream has been synchronised."""
        milliseconds = ctypes.c_float()
        self._call("aclrtEventElapsedTime", ctypes.byref(milliseconds), start, end)
        return milliseconds.value * 1e3

    def synchronize(self, stream: int, seconds: float, doing: str) -> None:
        """Wait until the stream has done its work. `doing` names it in errors.

        Raises:
            errors.DeviceTimeoutError: it was not done in so many seconds. DeviceError: it failed.
        """
        name = "aclrtSynchronizeStreamWithTimeout"
        code = self._library.aclrtSynchronizeStreamWithTimeout(stream, int(seconds * 1e3))
        if code == _TIMEOUT:
            raise DeviceTimeoutError(
                f"{doing} did not end within {seconds:g} s and may still run on the NPU",
                notes=self._notes(name, code),
                hint="a flag nobody sets lets a kernel hang: kernel.simulate(...) names it. TILELANG_NPU_TIMEOUT is the limit in seconds",
            )
        if code:
            raise DeviceError(f"{doing} failed on the NPU: {_meaning(code)}", notes=self._notes(name, code))

    def _create(self, name: str) -> int:
        made = _POINTER()
        self._call(name, ctypes.byref(made))
        return int(made.value or 0)

    def _call(self, name: str, *arguments: Any, allowed: tuple[int, ...] = (0,)) -> None:
        self._check(name, getattr(self._library, name)(*arguments), allowed)

    def _check(self, name: str, code: int, allowed: tuple[int, ...] = (0,)) -> None:
        if code not in allowed:
            raise DeviceError(f"{name} failed: {_meaning(code)}", notes=[*self._notes(name, code), *self._driver()])

    def _notes(self, name: str, code: int) -> list[str]:
        """Number of an error, and what the driver says of it."""
        said = (self._library.aclGetRecentErrMsg() or b"").decode(errors="replace").strip()
        return [f"{name} returned {code}", *([said] if said else [])]

    def _driver(self) -> list[str]:
        version = driver_version()
        return [f"{self.cann.label}, driver {version or 'of unknown version'}"]


def _meaning(code: int) -> str:
    return _MEANINGS.get(code, f"error {code}")
