"""What commands that run a script and look at its kernels have in common: options, the run, how it ends."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from . import processes
from .run import checked_target

if TYPE_CHECKING:
    from .script import ScriptRun

TARGET = click.option("-t", "--target", help="Chip (SKU or a2, a3, a5) for kernels that do not name a target.")
GPU = click.option(
    "-g",
    "--gpu-script",
    is_flag=True,
    help="SCRIPT is written for GPU TileLang: `import tilelang` and `torch.cuda` mean what they mean in `run`.",
)
SCRIPT = click.argument("script", type=click.Path(exists=True, dir_okay=False, path_type=Path))
ARGS = click.argument("args", nargs=-1, type=click.UNPROCESSED)
PASS_ON = {"ignore_unknown_options": True, "allow_interspersed_args": False}


def run(script: Path, args: tuple[str, ...], target: str | None, gpu_script: bool) -> ScriptRun:
    """Run a script and collect its kernels; Ctrl-C ends it and every process it has started."""
    from .. import compat
    from .script import run_script

    target = checked_target(target)
    with processes.interruptible(), compat.session() if gpu_script else contextlib.nullcontext():
        return run_script(script, args, target)


def finish(run: ScriptRun, script: Path) -> None:
    """Report a failed script, or one without kernels, and leave with its exit code."""
    if run.error is not None:
        click.echo(run.error, err=True)
    if run.missing_module == "tilelang":
        click.echo("hint: add --gpu-script to run it as a script for GPU TileLang", err=True)
    if run.error is None and run.exit_code == 0 and not run.kernels:
        click.echo(f"{script} compiled no kernel: call the kernel, or its .compile(…), in the script", err=True)
        sys.exit(1)
    sys.exit(run.exit_code)
