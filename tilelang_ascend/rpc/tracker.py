"""The tracker: running TVM's, and asking one."""

from __future__ import annotations

import contextlib
import secrets
import signal
import socket
import threading
from dataclasses import dataclass
from typing import Any, Iterator

from .failures import AddressError, NoServer, NoTracker
from .settings import Address, Timeouts


@dataclass(frozen=True)
class Entry:
    """A server that has registered. address: as clients are told it."""

    address: str
    key: str


@dataclass(frozen=True)
class Summary:
    """What a tracker knows. free, waiting: by key, servers nobody uses now and clients that wait for one."""

    servers: tuple[Entry, ...]
    free: dict[str, int]
    waiting: dict[str, int]


def query(address: Address, timeouts: Timeouts = Timeouts()) -> Summary:
    """Ask a tracker what it knows.

    Raises:
        NoTracker: there is none.
    """
    with _talking(address, timeouts.tracker) as session:
        return _summary(session)


def take_server(address: Address, key: str, timeouts: Timeouts) -> tuple[Address, str]:
    """Address and one-time key of a server, once one with this key is free.

    Raises:
        NoTracker: there is no tracker. NoServer: no server has the key, or none became free in time.
    """
    with _talking(address, timeouts.tracker) as session:
        found = _summary(session)
        same = [entry for entry in found.servers if entry.key == key]
        if not same:
            others = ", ".join(sorted({entry.key for entry in found.servers}))
            raise NoServer(f"the tracker {address} knows no server with the key {key!r}", hint=f"there are {others}" if others else None)
        try:
            host, port, one_time_key = session.take(key, timeouts.wait)
        except TimeoutError:
            number = f"all {len(same)} servers with the key {key!r} were" if len(same) > 1 else f"the only server with the key {key!r} was"
            raise NoServer(f"{number} busy for {timeouts.wait:g} s; the tracker is {address}") from None
    return Address(host, port), one_time_key


@contextlib.contextmanager
def _talking(address: Address, seconds: float) -> Iterator[Any]:
    from .door import TrackerSession

    try:
        with contextlib.closing(TrackerSession(address, seconds)) as session:
            yield session
    except NoServer:
        raise
    except TimeoutError:
        raise NoTracker(f"the tracker {address} does not answer") from None
    except ConnectionRefusedError:
        raise NoTracker(f"there is no tracker at {address}", hint=f"start one: tilelang-ascend tracker --port {address.port}") from None
    except OSError as reason:
        raise NoTracker(f"the tracker {address} cannot be reached: {reason}") from None
    except (RuntimeError, ValueError, TypeError, KeyError) as reason:
        raise NoTracker(f"what answers at {address} is no tracker: {reason}") from None


def _summary(session) -> Summary:
    found = session.summary()
    servers = [
        Entry(str(Address(str(item["addr"][0]), int(item["addr"][1]))), str(item["key"]).removeprefix("server:"))
        for item in found["server_info"]
    ]
    queues = found["queue_info"]
    return Summary(
        tuple(sorted(servers, key=lambda e: (e.key, e.address))),
        {key: int(row["free"]) for key, row in queues.items()},
        {key: int(row["pending"]) for key, row in queues.items()},
    )


def run(address: Address, ready) -> int:
    """Be a tracker until SIGTERM or Ctrl-C. Calls `ready` once it listens. Returns the exit code.

    Raises:
        AddressError: the port is taken, or the address not of this machine.
    """
    from . import door

    if not door.have_tornado():
        raise AddressError("the tracker needs the package tornado", hint="pip install tilelang-ascend[rpc]")
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    try:
        listening = socket.create_server((address.host, address.port), family=family, backlog=128)
    except OSError as reason:
        raise AddressError(f"cannot listen on {address}: {reason.strerror or reason}") from None
    thread = threading.Thread(target=door.run_tracker, args=(listening, secrets.token_hex()), daemon=True)
    thread.start()
    ready()
    while thread.is_alive() and not stop.wait(0.5):
        pass
    return 0 if stop.is_set() else 1
