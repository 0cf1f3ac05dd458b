"""The executor ``rpc``: a kernel call runs on whichever server of the tracker is free."""

from __future__ import annotations

from .. import env
from ..runtime.arguments import Launch
from ..runtime.artifact import Artifact
from .failures import AddressError
from .settings import Timeouts, check_key, parse_address


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
        from ..runtime.launches import wanted_times
        from .client import connect

        with connect(None, key_of(artifact), Timeouts(call=env.RPC_TIMEOUT.get())) as session:
            times = wanted_times()
            if times is not None:
                timing = session.time_launch(artifact, launch, 0, 1)
                (times.simulated if timing.clock == "simulated" else times.measured).extend(timing.microseconds)
            session.launch(artifact, launch)


def key_of(artifact: Artifact) -> str:
    """Key of the servers that run a kernel: ``TILELANG_ASCEND_KEY``, else the family of its chip."""
    from ..arch import get_chip

    return env.RPC_KEY.get() or get_chip(artifact.chip).family
