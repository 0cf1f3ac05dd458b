"""Running a user's script while collecting the kernels it compiles."""

from __future__ import annotations

import os
import runpy
import sys
import traceback
from dataclasses import dataclass, field
from pathlib import Path
from typing import Sequence

from ..errors import TilelangAscendError, is_internal
from ..runtime.artifact import Artifact
from .streams import reader_is_gone


@dataclass
class ScriptRun:
    """What became of a script.

    Attributes:
        kernels: every distinct kernel it compiled, in order, by a unique name.
        exit_code: what the process would have returned.
        error: the text to show the user when it failed.
        missing_module: name of the module whose import failed, when that is the error.
    """

    kernels: dict[str, Artifact] = field(default_factory=dict)
    exit_code: int = 0
    error: str | None = None
    missing_module: str | None = None


def run_script(path: Path, args: Sequence[str] = (), target: str | None = None) -> ScriptRun:
    """Run `path` as ``python path args…`` would, in this process.

    Args:
        target: default target of kernels that do not name one.
    """
    from ..jit.hooks import on_build

    run = ScriptRun()
    saved = (sys.argv, list(sys.path), os.environ.get("TILELANG_DEFAULT_TARGET"))
    sys.argv = [str(path), *args]
    sys.path.insert(0, str(path.resolve().parent))
    if target is not None:
        os.environ["TILELANG_DEFAULT_TARGET"] = target
    try:
        with on_build(lambda artifact: _collect(run.kernels, artifact)):
            runpy.run_path(str(path), run_name="__main__")
    except SystemExit as exit_request:
        run.exit_code, run.error = _exit_status(exit_request)
    except Exception as error:
        if isinstance(error, BrokenPipeError) and reader_is_gone():
            raise
        run.exit_code, run.error = 1, describe_error(error)
        run.missing_module = error.name if isinstance(error, ModuleNotFoundError) else None
    finally:
        sys.argv, sys.path[:] = saved[0], saved[1]
        _restore("TILELANG_DEFAULT_TARGET", saved[2])
    return run


def describe_error(error: BaseException) -> str:
    """The error as a user wants to read it: the frames of his own files, then the message; the same for the errors it
    came from, and for those of a group."""
    if isinstance(error, TilelangAscendError):  # its message leaves nothing to be explained
        frames = _users(traceback.extract_tb(error.__traceback__))
        return "".join([_HEADER, *frames.format()] if frames else []) + str(error)
    described = traceback.TracebackException.from_exception(error)
    _cut(described)
    return "".join(described.format()).rstrip("\n")


_HEADER = "Traceback (most recent call last):\n"


def _cut(error: traceback.TracebackException) -> None:
    """Leave the user's frames only, and of the errors it came from those that passed through them."""
    setattr(error, "stack", _users(error.stack) or None)  # None: no frames are printed, and no heading
    for link in ("__cause__", "__context__"):
        origin = getattr(error, link)
        if origin is not None:
            _cut(origin)
            if origin.stack is None:
                setattr(error, link, None)
    for part in getattr(error, "exceptions", None) or ():
        _cut(part)


def _users(stack: traceback.StackSummary) -> traceback.StackSummary:
    return traceback.StackSummary.from_list([frame for frame in stack if not is_internal(frame.filename)])


def _exit_status(request: SystemExit) -> tuple[int, str | None]:
    if request.code is None or isinstance(request.code, int):
        return request.code or 0, None
    return 1, str(request.code)


def _collect(kernels: dict[str, Artifact], artifact: Artifact) -> None:
    if any(artifact is known for known in kernels.values()):
        return
    name, number = artifact.name, 1
    while name in kernels:
        name, number = f"{artifact.name}_{number}", number + 1
    kernels[name] = artifact


def _restore(name: str, value: str | None) -> None:
    if value is None:
        os.environ.pop(name, None)
    else:
        os.environ[name] = value
