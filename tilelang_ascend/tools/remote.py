"""`tilelang-ascend tracker`, `server` and `query`: kernels on other machines (docs/rpc.md)."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Callable

import click

from ..errors import TilelangAscendError
from ..rpc import settings

_HOST = click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
_REMOTE = click.option("--allow-remote", is_flag=True, help=f"Allow to {settings.REMOTE_WARNING}.")
_TRACKER = click.option(
    "--tracker", envvar="TILELANG_ASCEND_TRACKER", metavar="HOST:PORT", help="The tracker; default: TILELANG_ASCEND_TRACKER."
)


def _say(line: str) -> None:
    click.echo(line)


def _finish(action: Callable[[], int]) -> None:
    """One sentence for what cannot be done, and an exit code."""
    try:
        sys.exit(action())
    except TilelangAscendError as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(1)


@click.command("tracker")
@_HOST
@click.option("--port", type=click.IntRange(1, 65535), default=settings.DEFAULT_TRACKER_PORT, show_default=True, help="TCP port.")
@_REMOTE
def tracker_command(host: str, port: int, allow_remote: bool) -> None:
    """Know the servers and hand them out to clients, one at a time."""
    from ..rpc import tracker

    def action() -> int:
        settings.check_binding(host, allow_remote)
        address = settings.Address(host, port)
        return tracker.run(address, lambda: _say(f"tracker on {address}"))

    _finish(action)


@click.command("server")
@_TRACKER
@click.option("--key", required=True, help="Label under which clients ask for such a server, such as a2. It is no password.")
@click.option("--device", default="sim", show_default=True, help="What runs kernels: sim, or a board (npu:0).")
@click.option("--chip", help="Take kernels for this chip only (SKU or a2, a3, a5).")
@_HOST
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="TCP port; default: the first free one from 9090 on.")
@_REMOTE
@click.option(
    "--folder",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where builds are kept; default: a private folder that goes with the server.",
)
@click.option("--call-limit", type=click.FloatRange(1), default=600.0, show_default=True, help="Seconds one request may take.")
@click.option(
    "--idle-limit", type=click.FloatRange(1), default=300.0, show_default=True, help="Seconds a client may keep the server and ask nothing."
)
@click.option("--keep", type=click.IntRange(1), default=2000, show_default=True, help="Builds that are kept.")
def server_command(
    tracker: str | None, key: str, device: str, chip: str | None, host: str, port: int, allow_remote: bool,
    folder: Path | None, call_limit: float, idle_limit: float, keep: int,
) -> None:  # fmt: skip
    """Build, run and time kernels for clients, on a board or on the simulator."""
    from ..arch import get_chip
    from ..rpc.plan import Plan, parse_device
    from ..rpc.supervisor import Supervisor

    def action() -> int:
        settings.check_binding(host, allow_remote)
        address = settings.tracker_address(tracker)
        only = get_chip(chip).name if chip else None
        plan = Plan(
            address.host,
            address.port,
            settings.check_key(key),
            parse_device(device),
            host,
            port,
            port == 0,
            "",
            only,
            call_limit,
            idle_limit,
            keep,
        )
        return Supervisor(plan, folder, _say).run()

    _finish(action)


@click.command("query")
@_TRACKER
def query_command(tracker: str | None) -> None:
    """List the servers a tracker knows."""
    from ..rpc.tracker import query

    def action() -> int:
        found = query(settings.tracker_address(tracker))
        for entry in found.servers:
            click.echo(f"{entry.key:<12} {entry.address}")
        for key in sorted({entry.key for entry in found.servers}):
            total = sum(entry.key == key for entry in found.servers)
            click.echo(f"{key}: {total} registered, {found.free.get(key, 0)} free, {found.waiting.get(key, 0)} clients waiting")
        if not found.servers:
            click.echo("no servers")
        return 0

    _finish(action)
