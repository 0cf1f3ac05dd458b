"""`tilelang-ascend tune` and `records`: tune the kernels of a script, and look after what was measured."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable, Iterator, Sequence

import click

from ..errors import TilelangAscendError
from . import processes
from .run import checked_target

if TYPE_CHECKING:
    from ..autotune.overrides import Tuned
    from ..autotune.records import Record


@click.command("tune", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option("-t", "--target", help="Chip (SKU or a2, a3, a5) for kernels that name no chip.")
@click.option("-b", "--backend", type=click.Choice(["auto", "sim", "npu", "rpc"]), help="Where to measure; default: where the kernels run.")
@click.option("-n", "--measurements", type=click.IntRange(1), help="Configurations measured on a board; default: a tenth of them.")
@click.option("--decorated", is_flag=True, help="Tune only functions with @autotune, not those whose tile sizes are defaults.")
@click.option("-g", "--gpu-script", is_flag=True, help="SCRIPT is written for GPU TileLang, as for `run`.")
@click.argument("script", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.argument("args", nargs=-1, type=click.UNPROCESSED)
def tune_command(
    target: str | None,
    backend: str | None,
    measurements: int | None,
    decorated: bool,
    gpu_script: bool,
    script: Path,
    args: tuple[str, ...],
) -> None:
    """Run SCRIPT and tune every kernel it compiles.

    Functions with @autotune use their configurations. Of other functions with @jit the parameters with defaults that calls leave out
    (tile sizes, stages) get values that suit the chip, and the script goes on with the best. What is measured is kept, so that a tuning
    that was ended goes on where it stopped.
    """
    from .. import compat
    from ..autotune import overrides
    from .script import run_script

    chosen = overrides.Overrides(None if backend == "auto" else backend, measurements, [])
    session = compat.session() if gpu_script else contextlib.nullcontext()
    every = contextlib.nullcontext() if decorated else _tuning_all()
    with processes.interruptible(), session, overrides.overriding(chosen), every:
        run = run_script(script, args, checked_target(target))
    if run.error is not None:
        click.echo(run.error, err=True)
    assert chosen.tuned is not None, "it was given"
    if chosen.tuned:
        _show(chosen.tuned)
    elif run.error is None and run.exit_code == 0:
        click.echo(f"{script} has tuned no kernel: none has @autotune or tile sizes as parameters with defaults", err=True)
        sys.exit(1)
    sys.exit(run.exit_code)


@contextlib.contextmanager
def _tuning_all() -> Iterator[None]:
    """Let functions without `@autotune` tune what their calls leave open."""
    from ..autotune.decorator import AutoTuneImpl
    from ..autotune.settings import ProfileArgs
    from ..jit import hooks

    tuners: dict[Any, AutoTuneImpl] = {}

    def complete(implementation: Any, args: tuple, kwargs: dict) -> dict:
        tuner = tuners.setdefault(implementation, AutoTuneImpl(implementation, None, ProfileArgs()))
        return tuner.completed(args, kwargs)

    with hooks.completing_calls(complete):
        yield


def _show(tuned: Sequence[Tuned]) -> None:
    """The final table: one row for each tuning."""
    from rich.console import Console
    from rich.table import Table

    from ..autotune.report import show_config

    table = Table(
        "kernel", "chip", "configurations", "measured", "best ms", "clock", "best configuration", title="Tuned", title_justify="left"
    )
    for t in tuned:
        results = [c.result for c in t.candidates]
        cells = [t.kernel, t.chip, str(len(results)), str(sum(r.ok for r in results)), f"{t.best.result.latency:.4f}", t.clock]
        table.add_row(*cells, show_config(t.best.config))
    console = Console(highlight=False)
    (console if console.is_terminal else Console(highlight=False, width=160)).print(table)


@click.group("records")
@click.option("--file", "path", type=click.Path(dir_okay=False, path_type=Path), help="The records; default: those of the cache folder.")
@click.pass_context
def records_command(context: click.Context, path: Path | None) -> None:
    """Look after what tunings have measured: list, export, import."""
    context.obj = path


@records_command.command("list")
@click.option("-k", "--kernel", help="Only of this kernel.")
@click.option("-c", "--chip", help="Only of this chip (SKU).")
@click.pass_obj
def list_command(path: Path | None, kernel: str | None, chip: str | None) -> None:
    """Show the records, the oldest first."""
    from rich.console import Console
    from rich.table import Table

    equal = {name: value for name, value in (("kernel", kernel), ("chip", chip)) if value}
    rows: list[Record] = []
    _with_records(path, lambda records: rows.extend(records.select(**equal)))
    table = Table("kernel", "chip", "place", "configuration", "ms", "simulated ms", "outcome", "arguments")
    number = lambda value: "" if value is None else f"{value:.4f}"
    for r in rows:
        o = r.outcome
        told = ": ".join(filter(None, (o.status.value, o.error)))
        table.add_row(r.kernel, r.chip, r.place, r.config, number(o.latency), number(o.predicted), told, r.shape)
    console = Console(highlight=False)
    (console if console.is_terminal else Console(highlight=False, width=240)).print(table)
    click.echo(f"{len(rows)} records")


@records_command.command("export")
@click.argument("target", type=click.Path(dir_okay=False, path_type=Path))
@click.pass_obj
def export_command(path: Path | None, target: Path) -> None:
    """Write all records to TARGET, one line of JSON each."""
    _with_records(path, lambda records: click.echo(f"{records.export(target)} records -> {target}"))


@records_command.command("import")
@click.argument("source", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.pass_obj
def import_command(path: Path | None, source: Path) -> None:
    """Add the records of SOURCE, an exported file, that are not there yet."""

    def action(records: Any) -> None:
        added, found = records.import_from(source)
        click.echo(f"{added} of {found} records are new")

    _with_records(path, action)


def _with_records(path: Path | None, action: Callable[[Any], Any]) -> None:
    """Run `action` on the records; one sentence and an exit code for what cannot be done."""
    from ..autotune.records import Records, RecordsError, path_of_user

    try:
        path = path or path_of_user()
        if path is None:
            raise RecordsError("there is no folder for records", hint="set TILELANG_CACHE_DIR to a folder that can be written")
        with Records(path) as records:
            action(records)
    except TilelangAscendError as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(1)
