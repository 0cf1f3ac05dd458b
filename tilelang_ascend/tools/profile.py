"""`tilelang-ascend profile`: run a script and write a page that shows where the time of its kernels goes."""

from __future__ import annotations

import importlib.util
import sys
import webbrowser
from pathlib import Path
from typing import Any

import click

from ..errors import TilelangAscendError
from . import collect


@click.command("profile", context_settings=collect.PASS_ON)
@click.option(
    "-o", "--out", type=click.Path(dir_okay=False, path_type=Path), default=Path("out/profile.html"), show_default=True,
    help="The page; its data are written beside it, with the ending .json.",
)  # fmt: skip
@click.option(
    "--against",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="OTHER.json",
    help="Data of another run to show in the same page.",
)
@click.option("--open", "show", is_flag=True, help="Open the page in the browser.")
@collect.TARGET
@collect.GPU
@collect.SCRIPT
@collect.ARGS
def profile_command(
    out: Path, against: Path | None, show: bool, target: str | None, gpu_script: bool, script: Path, args: tuple[str, ...]
) -> None:
    """Run SCRIPT and write one HTML page about its kernels: time line, source, roofline, memories, tables.

    The first call of every kernel is simulated once more, on copies of its arguments, whatever runs the script's own calls.
    """
    if importlib.util.find_spec("bokeh") is None:
        _fail("the page needs the package bokeh", 'pip install "tilelang-ascend[profile]"')
    if out.suffix == ".json":
        raise click.BadParameter("the page is HTML; its data get the ending .json", param_hint="--out")
    from ..runtime.launches import on_launch
    from .page import data

    try:
        other = data.read(against) if against is not None else None
    except TilelangAscendError as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(1)
    observer = _Observer()
    with on_launch(observer):
        run = collect.run(script, args, target, gpu_script)
    kernels = [data.kernel_profile(name, a, observer.reports[id(a)]) for name, a in run.kernels.items() if id(a) in observer.reports]
    for name, artifact in run.kernels.items():
        if id(artifact) not in observer.reports:
            click.echo(f"{name}: not profiled, the script does not call it", err=True)
    if kernels:
        _write(out, data.profile(script, kernels), other, show)
    elif run.kernels and run.error is None and run.exit_code == 0:
        _fail(f"{script} calls none of its kernels", "call the kernel, or its .simulate(…), in the script")
    collect.finish(run, script)


class _Observer:
    """Listens to launches and simulates the first one of each kernel."""

    def __init__(self) -> None:
        self.reports: dict[int, Any] = {}
        self.artifacts: list[Any] = []  # keeps them alive: their ids stay theirs

    def __call__(self, artifact: Any, launch: Any) -> None:
        from ..runtime import simulation

        if id(artifact) not in self.reports:
            self.artifacts.append(artifact)
            self.reports[id(artifact)] = simulation.observe(artifact, launch)


def _write(out: Path, found: dict[str, Any], other: dict[str, Any] | None, show: bool) -> None:
    from .page.data import text_of
    from .page.render import page

    beside = out.with_suffix(".json")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        beside.write_text(text_of(found), encoding="utf-8")
        out.write_text(page(found, other), encoding="utf-8")
    except OSError as error:
        _fail(f"{out} cannot be written: {error.strerror}", "choose another file with --out")
    for kernel in found["kernels"]:
        report = kernel["report"]
        click.echo(f"{kernel['name']}: {report['simulated_us']:.2f} us simulated on {report['chip']}")
    click.echo(f"page -> {out}, data -> {beside}")
    if show and not webbrowser.open(out.resolve().as_uri()):
        click.echo(f"no browser was found; open {out} yourself", err=True)


def _fail(message: str, hint: str) -> None:
    click.echo(f"error: {message}\nhint: {hint}", err=True)
    sys.exit(1)
