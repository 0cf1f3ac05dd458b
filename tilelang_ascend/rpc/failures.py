"""What can go wrong between a client and a board: one class for each kind, one sentence for each error."""

from __future__ import annotations

from typing import Any, Mapping

from .. import errors
from ..errors import Location, TilelangAscendError


class RpcError(TilelangAscendError, RuntimeError):
    """Base class of what concerns the connection or the server, and not the kernel.

    `details` is longer text, such as all diagnostics of a compiler; "" when there is none.
    """

    details: str = ""


class AddressError(RpcError, ValueError):
    """Text that is no HOST:PORT, an address that must not be used, or a key that is none."""


class NoTracker(RpcError, ConnectionError):
    """There is no tracker at the address."""


class NoServer(RpcError):
    """The tracker knows no server with the key, or none became free in time."""


class ServerLost(RpcError, ConnectionError):
    """The session with a server has ended in the middle of something."""


class ServerTimeout(RpcError, TimeoutError):
    """A server did not answer in time."""


class ServerRefused(RpcError):
    """A server does not do what it was asked: another chip, another version, too large a message, no such input."""


class ServerFull(RpcError, OSError):
    """A server has no space left on its disk."""


class BuildError(RpcError):
    """The program does not compile on the server."""


class ProtocolError(RpcError):
    """Bytes that are no message."""


class ResultsError(RpcError, ValueError):
    """A file of results that cannot be read, or was written by another version."""


_OWN = {
    c.__name__: c
    for c in (AddressError, NoServer, ServerLost, ServerTimeout, ServerRefused, ServerFull, BuildError, ProtocolError, RpcError)
}
_SAME_AS_LOCAL = (
    "SimulationError", "DeviceAssertionError", "ArgumentValueError", "ArgumentTypeError", "TargetError",
    "DeviceError", "DeviceCompileError", "DeviceMemoryError", "DeviceTimeoutError",
)  # fmt: skip
"""Errors of a kernel, which are the same class as those of a local call. Those this release has not are an `RpcError`."""


def to_json(error: Exception, details: str = "") -> dict[str, Any]:
    """An error as plain values; `from_json` reverses it."""
    if not isinstance(error, TilelangAscendError):
        return {"kind": "RpcError", "message": f"{type(error).__name__}: {error}", "details": details}
    at = error.location
    return {
        "kind": type(error).__name__,
        "message": error.message,
        "location": vars(at) if at else None,
        "notes": [text for text, _ in error.notes],
        "hint": error.hint,
        "details": details or getattr(error, "details", ""),
    }


def from_json(data: Mapping[str, Any], server: str) -> TilelangAscendError:
    """The error a server reported; its message or a note names the server. Unknown kinds are an `RpcError`."""
    kind, message = str(data.get("kind")), str(data.get("message"))
    notes, hint, at = [str(n) for n in data.get("notes") or ()], data.get("hint"), data.get("location")
    location = Location(**at) if isinstance(at, dict) else None
    local = getattr(errors, kind, None) if kind in _SAME_AS_LOCAL else None
    if local is not None:
        return local(message, at=location, notes=[*notes, f"on the server {server}"], hint=hint)
    error = _OWN.get(kind, RpcError)(f"server {server}: {message}", at=location, notes=notes, hint=hint)
    error.details = str(data.get("details") or "")
    return error
