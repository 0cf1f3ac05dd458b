"""Where the user's program is: frames outside of this package, their places in files, spans of statements."""

from __future__ import annotations

import os
import sys
from typing import Any

from ..errors import Location, location_in_code
from ..ir import LIBRARY_ROOTS, SourceName, Span

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_NOT_USER = tuple(root + os.sep for root in (_PACKAGE, *LIBRARY_ROOTS))
_source_names: dict[str, SourceName] = {}
_positions: dict[int, tuple[Any, list]] = {}  # by identity; the value keeps the code object alive


def is_user_code(code) -> bool:
    """True for code that is neither part of this package nor of the IR library."""
    return not code.co_filename.startswith(_NOT_USER)


def user_frame():
    """The innermost frame outside this package, None if there is none."""
    frame = sys._getframe(1)
    while frame is not None and not is_user_code(frame.f_code):
        frame = frame.f_back
    return frame


def user_location() -> Location | None:
    """Where the user's program is: the innermost frame outside this package."""
    frame = user_frame()
    if frame is None:
        return None
    code = frame.f_code
    entry = _positions.get(id(code))
    if entry is None:
        table = list(code.co_positions()) if hasattr(code, "co_positions") else None
        entry = _positions[id(code)] = (code, table)
    return location_in_code(code, frame.f_lasti, frame.f_lineno, entry[1])


def span_of(where: Location | None) -> Span | None:
    """TVM span of a location."""
    if where is None:
        return None
    name = _source_names.get(where.file)
    if name is None:
        name = _source_names[where.file] = SourceName(where.file)
    return Span(name, where.line, where.line, where.col, where.end_col or where.col)
