"""`python -m tilelang_ascend`: run, compile, inspect, profile, tune, records, doctor, tracker, server, query. Commands load tvm only when they need it."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path

import click

from ..version import __version__
from . import collect, processes, streams
from .profile import profile_command
from .remote import query_command, server_command, tracker_command
from .run import run_command
from .tune import records_command, tune_command

_OUT = click.option(
    "-o",
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("out"),
    show_default=True,
    help="Folder for the results; one sub-folder for each kernel.",
)


class _Program(click.Group):
    """Ends as other programs do when it is interrupted, or nobody reads what it writes."""

    def main(self, *args, **extra):
        streams.open_missing()
        return super().main(*args, **extra)

    def invoke(self, ctx):
        try:
            with streams.ending_quietly():
                return super().invoke(ctx)
        except KeyboardInterrupt:
            processes.finish_interrupted()
            click.echo("\ninterrupted", err=True)
            sys.exit(processes.INTERRUPTED)


@click.group(cls=_Program, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="tilelang-ascend")
def main() -> None:
    """TileLang for Ascend: look at what the compiler makes of a script, and at this machine.

    SCRIPT is run as `python SCRIPT ARGS…` would run it, main block included; every kernel it compiles is collected.
    Kernels it calls run on the simulator. Scripts for GPU TileLang run by `run`, or with `--gpu-script`.
    """


@main.command("compile", context_settings=collect.PASS_ON)
@_OUT
@collect.TARGET
@collect.GPU
@collect.SCRIPT
@collect.ARGS
def compile_command(out: Path, target: str | None, gpu_script: bool, script: Path, args: tuple[str, ...]) -> None:
    """Run SCRIPT and write the Ascend C of every kernel it compiles, with a script that builds it."""
    from ..runtime.npu.build import build_script

    run = collect.run(script, args, target, gpu_script)
    for name, artifact in run.kernels.items():
        folder = out / name
        folder.mkdir(parents=True, exist_ok=True)
        texts = {
            "kernel.cpp": artifact.kernel_source,
            "host.cpp": artifact.host_source,
            "memory_map.txt": artifact.memory_map,
            "build.sh": build_script(artifact),
        }
        for file, text in texts.items():
            (folder / file).write_text(text, encoding="utf-8")
        steps = ", then ".join(f"{step.kernel_type} for {artifact.chip}, {step.block_dim} blocks" for step in artifact.steps)
        click.echo(f"{name}: {steps} -> {folder}")
    collect.finish(run, script)


@main.command("inspect", context_settings=collect.PASS_ON)
@_OUT
@collect.TARGET
@collect.GPU
@click.option(
    "--validate",
    is_flag=True,
    help="Interpret the kernel as it was written and after each pass, on the arguments of its first call, and compare.",
)
@click.option("--times", is_flag=True, help="Print how long each pass took, all its attempts together.")
@collect.SCRIPT
@collect.ARGS
def inspect_command(
    out: Path, target: str | None, gpu_script: bool, validate: bool, times: bool, script: Path, args: tuple[str, ...]
) -> None:
    """Run SCRIPT and write, for every kernel, the IR after each pass (numbered, it parses back) and the memory map. Notes say what the compiler
    did with loops and tiles, and what it could not do."""
    from ..runtime.launches import on_launch
    from .inspect import table_of_times, write_stages
    from .validate import Recorder

    recorder, sound = Recorder(), True
    with on_launch(recorder) if validate else contextlib.nullcontext():
        run = collect.run(script, args, target, gpu_script)
    for name, artifact in run.kernels.items():
        taken: dict[str, float] = {}
        paths = write_stages(artifact, out / name, taken)
        click.echo(f"{name} for {artifact.chip}: {len(paths)} dumps -> {out / name}")
        for path in paths:
            click.echo(f"  {path.name}")
        for note in artifact.notes:
            click.echo(f"note: {note}")
        click.echo(artifact.memory_map)
        if times:
            click.echo(table_of_times(taken))
        if validate:
            fine, text = recorder.report(artifact)
            sound = sound and fine
            click.echo(f"{name}: {text}", err=not fine)
    if not sound:
        sys.exit(1)
    collect.finish(run, script)


@main.command("doctor")
def doctor_command() -> None:
    """Say what this machine has, what it lacks, and what that means."""
    from .doctor import examine

    findings = examine()
    width = max(len(f.subject) for f in findings)
    for f in findings:
        click.echo(f"[{f.status:^7}] {f.subject:<{width}}  {f.detail}")
        if f.meaning:
            click.echo(f"{'':<{width + 12}}{f.meaning}")
    if any(f.status == "broken" for f in findings):
        sys.exit(1)


for _command in (run_command, profile_command, tune_command, records_command, tracker_command, server_command, query_command):
    main.add_command(_command)


if __name__ == "__main__":
    main()
