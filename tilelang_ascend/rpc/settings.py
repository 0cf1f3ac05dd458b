"""Addresses, keys and time-outs, free of tvm."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass

from .. import env
from .failures import AddressError

DEFAULT_TRACKER_PORT = 9190
DEFAULT_SERVER_PORT = 9090
PORTS_TRIED = 100
"""A server that is not told its port takes the first free one of so many from `DEFAULT_SERVER_PORT` on."""

REMOTE_WARNING = (
    "listen on an address that is not of this machine alone: this lets ANYONE who can reach the port run any code as you, as TVM's protocol"
    " has neither passwords nor encryption and the key is a label; an SSH tunnel does not need it"
)
"""Help of the flag without which nothing listens for other machines."""

_KEY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z")


@dataclass(frozen=True)
class Timeouts:
    """Seconds after which a client gives up.

    Attributes:
        tracker: until the tracker answers a question.
        wait: until a server is free.
        connect: until a server that was free has opened the session.
        call: for one build, run or measurement, besides the time its data needs at `SLOWEST`.
    """

    tracker: float = 5.0
    wait: float = 60.0
    connect: float = 10.0
    call: float = 120.0


SLOWEST = 4_000_000
"""Bytes per second below which a transfer counts as hung; TVM's protocol moves 10 to 40 million."""


@dataclass(frozen=True)
class Address:
    """A host and a TCP port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_address(text: str) -> Address:
    """``HOST:PORT``, ``[IPv6]:PORT``, or a host alone, which means `DEFAULT_TRACKER_PORT`.

    Raises:
        AddressError: it is something else.
    """
    host, colon, port = text.strip().rpartition(":")
    if not colon or text.strip().endswith("]"):
        host, port = text.strip(), str(DEFAULT_TRACKER_PORT)
    host = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    if not host or not port.isdecimal() or not 0 < int(port) < 1 << 16:
        raise AddressError(f"{text!r} is not HOST:PORT, such as 127.0.0.1:{DEFAULT_TRACKER_PORT}")
    return Address(host, int(port))


def tracker_address(given: str | None) -> Address:
    """The tracker a user means: `given`, else ``TILELANG_ASCEND_TRACKER``.

    Raises:
        AddressError: there is none, or it is no address.
    """
    text = given or env.TRACKER.get()
    if not text:
        raise AddressError("no tracker is named", hint="set TILELANG_ASCEND_TRACKER=HOST:PORT, or pass the address")
    return parse_address(text)


def check_key(key: str) -> str:
    """The key, if it can be one.

    Raises:
        AddressError: TVM's protocol parts keys at spaces and colons.
    """
    if not _KEY.match(key):
        raise AddressError(f"{key!r} is no key: write letters, digits, '.', '_' and '-', at most 64")
    return key


def is_loopback(host: str) -> bool:
    """Whether nobody but this machine reaches the address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def check_binding(host: str, allow_remote: bool) -> None:
    """Refuse to listen for other machines unless that was asked for.

    Raises:
        AddressError: it was not.
    """
    if not is_loopback(host) and not allow_remote:
        raise AddressError(
            f"{host} can be reached by other machines, and whoever reaches it can run code as you",
            hint="use the default 127.0.0.1 and an SSH tunnel, or say --allow-remote",
        )
