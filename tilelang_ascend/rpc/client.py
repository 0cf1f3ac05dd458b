"""A session with one server: programs are built there, run, and timed."""

from __future__ import annotations

import math
import time
import weakref
from dataclasses import dataclass, fields
from typing import Any, Callable, Mapping, NamedTuple, Sequence

import numpy as np

from .. import env
from ..log import get_logger
from ..profiler.supply import TensorSupplyType
from ..runtime import dtypes
from ..runtime.arguments import Launch, bind
from ..runtime.artifact import Artifact
from . import failures, memory, protocol
from .failures import ProtocolError, RpcError, ServerLost, ServerTimeout
from .relay import Relay
from .settings import Address, Timeouts, check_key, tracker_address
from .tracker import take_server

_MORE_SECONDS = 2.0
"""A server ends a request by itself when its client should have given up so long ago."""

_TRIES = 3
"""Servers that are asked before a client gives up on opening a session."""


@dataclass(frozen=True)
class ServerInfo:
    """Who a server says it is. chip: the only one it takes kernels for, None for any. clock: what its times are. call_limit: seconds."""

    release: str = ""
    device: str = ""
    chip: str | None = None
    clock: str = ""
    machine: str = ""
    call_limit: float = math.inf


class Timing(NamedTuple):
    """Microseconds of each run. clock: ``simulated``, or ``device``: between events on the board, without transfers."""

    microseconds: tuple[float, ...]
    clock: str


class Build(NamedTuple):
    """A program on a server. known: it had been built before. seconds: what that took now."""

    digest: str
    known: bool
    seconds: float


def connect(tracker: str | None = None, key: str = "a2", timeouts: Timeouts = Timeouts()) -> "Session":
    """Take a server with the key for oneself until the session is closed.

    Args:
        tracker: HOST:PORT; None: ``TILELANG_ASCEND_TRACKER``.

    Raises:
        AddressError: the address or the key cannot be one.
        NoTracker, NoServer: there is none.
        ServerTimeout, ServerLost: servers that were free did not open a session.
    """
    address, key = tracker_address(tracker), check_key(key)
    for attempt in range(_TRIES):
        server, one_time_key = take_server(address, key, timeouts)
        try:
            return Session(server, one_time_key, timeouts)
        except (ServerTimeout, ServerLost):
            if attempt == _TRIES - 1:
                raise
    raise AssertionError("the loop returns or raises")


class Session:
    """A server, as long as the session lasts. Every method raises an `RpcError` in time when the server does not do its part.

    Use `connect` to get one, in a `with` statement.
    """

    def __init__(self, server: Address, one_time_key: str, timeouts: Timeouts):
        self.server = server
        self.info = ServerInfo()
        self._timeouts = timeouts
        self._known: set[str] = set()
        self._relay: Relay | None = None
        self._session: Any = None
        self._call: Callable[[bytes], bytes] | None = None
        self._open(one_time_key)
        try:
            found, _ = self._ask("open a session", {"do": "hello"}, seconds=timeouts.connect)
        except RpcError:
            self.close()
            raise
        known = {field.name for field in fields(ServerInfo)}
        self.info = ServerInfo(**{name: value for name, value in found.items() if name in known})

    def __enter__(self) -> "Session":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def close(self) -> None:
        """Let others have the server."""
        if self._relay is not None:
            self._end()
            self._relay = None
        self._call = self._session = None

    def abort(self) -> None:
        """End the session from another thread; a request that is on its way raises `ServerLost`."""
        relay = self._relay
        if relay is not None:
            relay.close()

    @property
    def is_open(self) -> bool:
        """Whether requests can be made; not after one that lost the connection."""
        return self._relay is not None

    # -- what a user asks for --------------------------------------------------------------------------------------------

    def build(self, kernel: Any) -> Build:
        """Build a kernel (`JITKernel` or `Artifact`) on the server, which keeps it by its content.

        Raises:
            BuildError: it does not compile there. ServerRefused: it is for another chip. ServerFull: no space is left.
        """
        artifact = _artifact(kernel)
        files = protocol.program_files(artifact)
        request = {"do": "build", "files": list(files)}
        found, _ = self._ask(f"build {artifact.name}", request, [text.encode() for text in files.values()])
        return Build(str(found["digest"]), bool(found["known"]), float(found["seconds"]))

    def run(self, kernel: Any, *args: Any) -> Any:
        """One call on tensors of this process; what a local call would return.

        Raises:
            errors.ArgumentError, errors.SimulationError: as for a local call.
        """
        artifact = _artifact(kernel)
        launch = bind(artifact.signature, artifact.name, args)
        self.launch(artifact, launch)
        launch.write_back()
        return launch.result

    def run_seeded(
        self,
        kernel: Any,
        seed: int = 0,
        supply: TensorSupplyType = TensorSupplyType.Auto,
        symbols: Mapping[str, int] | None = None,
        outputs: bool = True,
    ) -> dict[str, np.ndarray]:
        """One call on inputs that the server makes, equal to those of `Profiler.get_inputs` for the same seed.

        Returns:
            What the kernel has written, by the name of the parameter; {} without `outputs`, whose bytes then stay on the server.
        """
        artifact = _artifact(kernel)
        request = {"do": "run", "outputs": outputs, "checks": env.SIM_CHECKS.get(), **memory.seeded(seed, supply, symbols or {})}
        found, blobs = self._ask_of(artifact, f"run {artifact.name}", request)
        forms = found.get("written", ())
        if len(forms) != len(blobs):
            raise ProtocolError(f"server {self.server}: {len(forms)} outputs are announced, {len(blobs)} came")
        return {str(form["name"]): _array(form, blob) for form, blob in zip(forms, blobs)}

    def time(
        self,
        kernel: Any,
        *args: Any,
        seed: int | None = None,
        supply: TensorSupplyType = TensorSupplyType.Auto,
        symbols: Mapping[str, int] | None = None,
        warmup: int = 3,
        repeats: int = 10,
    ) -> Timing:
        """How long the kernel takes, on given tensors or, without any, on inputs that the server makes; no output comes back.

        On a simulated device times are simulated: they do not vary, so one run tells them and `microseconds` has one number.

        Args:
            seed: of the inputs the server makes (default 0).
            symbols: values of shape variables for such inputs.
            warmup, repeats: runs that do not count, and runs that do.
        """
        artifact = _artifact(kernel)
        blobs: Sequence[bytes] = ()
        if args:
            data, blobs = memory.send(bind(artifact.signature, artifact.name, args))
        else:
            data = memory.seeded(seed or 0, supply, symbols or {})
        return self._timed(artifact, {"warmup": warmup, "repeats": repeats, **data}, blobs)

    def launch(self, artifact: Artifact, launch: Launch) -> None:
        """Run a checked launch; its memory has the outputs, not yet written back."""
        data, blobs = memory.send(launch)
        request = {"do": "run", "checks": env.SIM_CHECKS.get(), **data}
        found, out = self._ask_of(artifact, f"run {artifact.name}", request, blobs)
        memory.receive(launch, found, out)

    def time_launch(self, artifact: Artifact, launch: Launch, warmup: int, repeats: int) -> Timing:
        """As `time`, of a checked launch."""
        data, blobs = memory.send(launch)
        return self._timed(artifact, {"warmup": warmup, "repeats": repeats, **data}, blobs)

    def _timed(self, artifact: Artifact, request: dict[str, Any], blobs: Sequence[bytes]) -> Timing:
        found, _ = self._ask_of(artifact, f"time {artifact.name}", {"do": "time", **request}, blobs)
        return Timing(tuple(float(t) for t in found["microseconds"]), str(found["clock"]))

    # -- one request -----------------------------------------------------------------------------------------------------

    def _open(self, one_time_key: str) -> None:
        from . import door

        seconds = self._timeouts.connect
        try:
            self._relay = Relay(self.server, seconds)
            # TVM's objects ask the server to free theirs when they go, with Python's lock held, which the relay needs: it has to end
            # before they do, also when the program ends or nobody has closed the session.
            self._end = weakref.finalize(self, self._relay.close)
            self._session, self._call = door.connect(*self._relay.address, one_time_key, protocol.FUNCTION)
        except AttributeError:
            self.close()
            raise ServerLost(f"{self.server} is a server of TVM, but not one of tilelang_ascend") from None
        except door.RemoteErrors as reason:
            expired = self._relay is not None and self._relay.expired or isinstance(reason, TimeoutError)
            self.close()
            if expired:
                raise ServerTimeout(f"the server {self.server} did not open a session in {seconds:g} s") from None
            raise ServerLost(f"the server {self.server} cannot be reached: {_first_line(reason)}") from None

    def _ask_of(self, artifact: Artifact, what: str, request: dict[str, Any], blobs: Sequence[bytes] = ()) -> tuple[dict, list[memoryview]]:
        """A request about a program, which is built first when the server does not know it."""
        digest = protocol.digest(protocol.program_files(artifact))
        if digest not in self._known:  # asked before tensors travel for nothing
            if not self._ask(what, {"do": "knows", "digest": digest})[0]["known"]:
                self.build(artifact)
            self._known.add(digest)
        found, out = self._ask(what, {**request, "digest": digest}, blobs)
        if found.get("unknown"):  # dropped in between
            self.build(artifact)
            found, out = self._ask(what, {**request, "digest": digest}, blobs)
        if found.get("unknown"):
            raise ProtocolError(f"server {self.server}: it does not keep what it builds")
        return found, out

    def _ask(
        self, what: str, request: dict[str, Any], blobs: Sequence[bytes] = (), seconds: float | None = None
    ) -> tuple[dict, list[memoryview]]:
        from . import door

        if self._relay is None or self._call is None:
            raise ServerLost(f"the session with {self.server} has ended")
        limit = min(self._timeouts.call if seconds is None else seconds, self.info.call_limit)
        message = protocol.pack({**request, "version": protocol.VERSION, "limit": limit + _MORE_SECONDS}, blobs)
        self._relay.limit(limit)
        start = time.monotonic()
        try:
            found, out = protocol.unpack(bytes(self._call(message)))
        except ProtocolError:
            self.close()
            raise
        except door.RemoteErrors:
            raise self._lost(what, time.monotonic() - start) from None
        self._relay.limit(None)
        for line in found.get("warnings", ()):
            get_logger().warning("%s", line)
        if found.get("printed"):
            print(found["printed"], end="")
        if not found.get("ok"):
            raise failures.from_json(found.get("error", {}), str(self.server))
        return found, out

    def _lost(self, what: str, after: float) -> RpcError:
        """Close what is left of the session. TVM's own words tell a user nothing."""
        expired = self._relay is not None and self._relay.expired
        self.close()
        if expired:
            return ServerTimeout(f"the server {self.server} did not {what} in {after:.1f} s")
        return ServerLost(
            f"the session with {self.server} ended after {after:.1f} s, when it was to {what}: the program crashed there, or the server ended"
        )


def _artifact(kernel: Any) -> Artifact:
    artifact = getattr(kernel, "artifact", kernel)
    if not isinstance(artifact, Artifact):
        raise TypeError(f"a kernel or an artifact is needed, not {type(kernel).__name__}")
    return artifact


def _array(form: Mapping[str, Any], blob: memoryview) -> np.ndarray:
    return np.frombuffer(bytearray(blob), dtypes.numpy_dtype(form["dtype"])).reshape(form["shape"])


def _first_line(reason: BaseException) -> str:
    return str(reason).strip().partition("\n")[0] or type(reason).__name__
