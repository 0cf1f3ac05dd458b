"""The other end of `pool`: a loop that takes jobs from a socket and is a fork of a template (`warm`)."""

from __future__ import annotations

import contextlib
import importlib
import traceback
from multiprocessing import connection, reduction
from pathlib import Path

_OOM_SCORE_ADJ = Path("/proc/self/oom_score_adj")


def serve(function: str, socket: int) -> None:
    """Serve jobs until the parent closes the socket or dies."""
    _be_the_first_to_lack_memory()
    module, _, name = function.partition(":")
    work = getattr(importlib.import_module(module), name)
    channel = connection.Connection(socket)
    files: dict[str, int] = {}
    with contextlib.suppress(EOFError, OSError):
        channel.send(("ready", None))
        while True:
            kind, content = channel.recv()
            if kind == "file":
                files[content] = reduction.recv_handle(channel)
            else:
                channel.send(_guarded(work, content, files))


def _guarded(work, payload, files: dict[str, int]) -> tuple[str, object]:
    try:
        return "result", work(payload, files)
    except Exception as error:
        return "error", ("".join(traceback.format_exception_only(error)).strip(), traceback.format_exc())


def _be_the_first_to_lack_memory() -> None:
    """When memory runs out the system should end this process, not the user's."""
    with contextlib.suppress(OSError):
        _OOM_SCORE_ADJ.write_text("500")
