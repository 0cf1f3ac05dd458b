"""The executor ``rpc``: a kernel call runs on whichever server of the tracker is free."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from .. import env
from ..runtime.arguments import Launch
from ..runtime.artifact import Artifact
from ..runtime.launches import Measure, wanted_times
from .failures import AddressError
from .settings import Timeouts, check_key, parse_address

if TYPE_CHECKING:
    from ..profiler.supply import TensorSupplyType
    from .client import Session


class RpcExecutor:
    """One session for each call, so that several clients share the servers; a server keeps what it has built."""

    name = "rpc"
    devices: tuple[str, ...] = ("cpu",)

    def unavailable(self, artifact: Artifact | None = None) -> str | None:
        """Why it cannot be used, in one clause. Whether there are servers shows when one is asked."""
        if not env.TRACKER.get():
            return "TILELANG_ASCEND_TRACKER does not name a tracker (HOST:PORT)"
        try:
            parse_address(env.TRACKER.get())
            if env.RPC_KEY.get():
                check_key(env.RPC_KEY.get())
        except AddressError as error:
            return error.message
        return None

    def label(self) -> str:
        """What runs kernels there, for messages."""
        return f"the servers of the tracker {env.TRACKER.get()}"

    def launch(self, artifact: Artifact, launch: Launch) -> None:
        """Run the kernel on the launch's memory and return when it is done.

        Raises:
            RpcError: tracker, server or connection do not do their part; at the latest after `Timeouts`.
        """
        with _session(artifact) as session:
            times = wanted_times()
            if times is not None:
                timing = session.time_launch(artifact, launch, 0, 1)
                (times.simulated if timing.clock == "simulated" else times.measured).extend(timing.microseconds)
            session.launch(artifact, launch)

    @contextlib.contextmanager
    def measuring(self, artifact: Artifact, launch: Launch) -> Iterator[Measure]:
        """Gives what measures the kernel in a `with` block, on one server; the launch's memory stays as it is.

        Raises:
            RpcError: as for `launch`.
        """
        with _session(artifact) as session:
            yield lambda warmup, repeats: session.time_launch(artifact, launch, warmup, repeats)

    @contextlib.contextmanager
    def measuring_seeded(self, artifact: Artifact, supply: TensorSupplyType, symbols: Mapping[str, int]) -> Iterator[Measure]:
        """The same on inputs that the server makes: those of `Profiler.get_inputs`."""
        with _session(artifact) as session:
            yield lambda warmup, repeats: session.time(artifact, supply=supply, symbols=symbols, warmup=warmup, repeats=repeats)


def _session(artifact: Artifact) -> Session:
    from .client import connect

    return connect(None, key_of(artifact), Timeouts(call=env.RPC_TIMEOUT.get()))


def key_of(artifact: Artifact) -> str:
    """Key of the servers that run a kernel: ``TILELANG_ASCEND_KEY``, else the family of its chip."""
    from ..arch import get_chip

    return env.RPC_KEY.get() or get_chip(artifact.chip).family
