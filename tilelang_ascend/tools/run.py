"""`tilelang-ascend run`: a GPU TileLang script, unmodified."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path

import click

from . import processes


@click.command("run", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option("-t", "--target", help="Chip (SKU or a2, a3, a5) for kernels that name no chip.")
@click.argument("script", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.argument("args", nargs=-1, type=click.UNPROCESSED)
def run_command(target: str | None, script: Path, args: tuple[str, ...]) -> None:
    """Run SCRIPT, written for GPU TileLang, as it is.

    `import tilelang` gives this package, CUDA devices are host memory if there are none, and kernels run on the NPU or,
    without one, on the simulator. Everything after SCRIPT is passed to it.
    """
    sys.exit(run(script, args, target))


def run(script: Path, args: tuple[str, ...] = (), target: str | None = None) -> int:
    """Run `script` in this process as ``python script args…`` would be, in a session of `compat`. Returns its exit
    code.

    Ctrl-C ends the script and every process it has started.
    """
    from .. import compat
    from .script import run_script

    try:
        with processes.interruptible(), compat.session():
            result = run_script(script, args, checked_target(target))
    except KeyboardInterrupt:
        processes.finish_interrupted()
        click.echo("\ninterrupted", err=True)
        return processes.INTERRUPTED
    with contextlib.suppress(BrokenPipeError):
        sys.stdout.flush()
    if result.error is not None:
        click.echo(result.error, err=True)
    return result.exit_code


def checked_target(target: str | None) -> str | None:
    """`target`, once it is known to name a chip."""
    if target is None:
        return None
    from ..arch import parse_target
    from ..errors import TargetError

    try:
        parse_target(target)
    except TargetError as error:
        raise click.BadParameter(str(error), param_hint="--target") from None
    return target
