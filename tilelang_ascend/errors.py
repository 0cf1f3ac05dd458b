"""Every error a user can cause: where, what, the numbers, why, and what to write instead.

Usage::

    raise ShapeMismatch("T.gemm: A has K = 32, B has K = 64", at=span, notes=["A is 128x32"], hint="...")
    raise UnknownName(api="T", name="gem", hint=...)          # message from the class template

`at` is a `Location`, or anything with ``source_name/line/column`` (a TVM `Span`). Code that knows where it is working
wraps itself in `with located(span):`; an error without a location that passes through picks this one up.
"""

from __future__ import annotations

import contextlib
import dataclasses
import linecache
import os
import sys
import sysconfig
from pathlib import Path
from typing import Any, Iterable, Iterator


@dataclasses.dataclass(frozen=True)
class Location:
    """A place in the user's source. Lines and columns count from 1; `end_col` is exclusive, 0 when unknown."""

    file: str
    line: int
    col: int = 1
    end_col: int = 0

    @property
    def source(self) -> str | None:
        """The text of the line, None when the file cannot be read."""
        text = linecache.getline(self.file, self.line)
        return text.rstrip("\n") if text else None

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.col}"

    def snippet(self) -> list[str]:
        """Source line and caret line; empty when the source is not available."""
        text = self.source
        if not text or not text.strip():
            return []
        number = f"{self.line:5d}"
        start = max(self.col, 1)
        stop = self.end_col if start < self.end_col <= len(text) + 1 else start + 1
        # Tabs are kept so that the caret stays under its character whatever the tab width is.
        pad = "".join("\t" if c == "\t" else " " for c in text[: start - 1])
        return [f"{number} | {text}", f"{' ' * len(number)} | {pad}{'^' * (stop - start)}"]


def location_of(where: Any) -> Location | None:
    """`Location` of a `Location`, a TVM `Span` or a statement that has one; None when there is none."""
    if where is None or isinstance(where, Location):
        return where
    span = getattr(where, "span", where)
    source, line = getattr(span, "source_name", None), getattr(span, "line", None)
    if source is None or line is None:
        return None
    end = span.end_column if getattr(span, "end_line", line) == line else 0
    return Location(str(source.name), int(line), max(int(span.column), 1), int(end))


class TilelangAscendError(Exception):
    """Base class. `template` gives the message, `default_hint` the hint, of errors raised with fields instead of text.

    Args:
        message: what is wrong, with numbers. None: `template` filled with `fields`.
        at: where (`Location`, TVM `Span`, or an object with a `span`).
        notes: further facts; a string, or a pair (text, where) that points at another line involved.
        hint: what to write instead.
    """

    template: str = "{message}"
    default_hint: str | None = None

    def __init__(
        self,
        message: str | None = None,
        *,
        at: Any = None,
        notes: Iterable = (),
        hint: str | None = None,
        **fields: Any,
    ):
        self.message = self.template.format(**fields) if message is None else message
        self.location = location_of(at)
        self.notes = [self._note(n) for n in notes]
        if hint is None and self.default_hint is not None:
            hint = self.default_hint.format(**fields) if fields else self.default_hint
        self.hint = hint
        self.fields = fields
        super().__init__(self.message)

    @staticmethod
    def _note(note) -> tuple[str, Location | None]:
        return (note, None) if isinstance(note, str) else (note[0], location_of(note[1]))

    def attach(self, where: Any) -> TilelangAscendError:
        """Set the location if there is none yet."""
        if self.location is None:
            self.location = location_of(where)
        return self

    def __str__(self) -> str:
        head = f"{self.location}: error: {self.message}" if self.location else self.message
        lines = [head]
        if self.location:
            lines += self.location.snippet()
        for text, where in self.notes:
            lines.append(f"{where}: note: {text}" if where else f"note: {text}")
            lines += where.snippet() if where else []
        if self.hint:
            lines.append(f"hint: {self.hint}")
        return "\n".join(lines)

    def __reduce__(self):
        return _rebuild, (type(self), self.message, self.location, list(self.notes), self.hint)


def _rebuild(cls, message, location, notes, hint):
    return cls(message, at=location, notes=notes, hint=hint)


@contextlib.contextmanager
def located(where: Any) -> Iterator[None]:
    """Errors that pass through and have no location yet get this one."""
    try:
        yield
    except TilelangAscendError as error:
        error.attach(where)
        raise


# --- the language and the front end ---------------------------------------------------------------------------------


class UnsupportedConstruct(TilelangAscendError, NotImplementedError):
    """Python (or TileLang) that a kernel cannot contain."""

    template = "{what} is not supported in a kernel"


class UnknownName(TilelangAscendError, AttributeError):
    """`T.<name>` does not exist."""

    template = "{api} has no name '{name}'"


class GpuOnlyApi(TilelangAscendError, AttributeError):
    """A thread-level or vendor-specific name of another machine."""

    template = "T.{name} is {kind}; an Ascend core has no such thing"


class NotYetAvailable(TilelangAscendError, NotImplementedError, AttributeError):
    """A name of the language whose lowering is not written yet; `hasattr` says no."""

    template = "T.{name} is not available yet"


class ShapeMismatch(TilelangAscendError, ValueError):
    """Two operands whose shapes do not fit together."""


class DtypeMismatch(TilelangAscendError, TypeError):
    """An operand has a dtype the operation does not take."""


class NonStaticShape(TilelangAscendError, ValueError):
    """An on-chip buffer or a tile whose shape is not known when the kernel is compiled."""

    template = "dimension {axis} of {what} is {expr}, which is not known when the kernel is compiled"
    default_hint = "use a Python integer for the tile and let the copy clip what hangs over the edge of the tensor"


class ScopeError(TilelangAscendError, NameError):
    """A name read where it has no (single) value."""


class InvalidArgument(TilelangAscendError, ValueError):
    """A `T.*` call with arguments it does not take."""


class UnknownArgument(InvalidArgument, TypeError):
    """A `T.*` call whose arguments do not match the signature: an unknown keyword, one too many, one missing."""


class KernelSyntaxError(TilelangAscendError, SyntaxError):
    """A statement that is legal Python but has no meaning at this place of a kernel."""

    def __str__(self) -> str:  # SyntaxError has its own rendering
        return TilelangAscendError.__str__(self)


class SourceUnavailable(TilelangAscendError, OSError):
    """The text of a function cannot be found."""

    template = "the source of '{name}' is not available, so it cannot be compiled"
    default_hint = (
        "define it in a file or a notebook cell; for text run with exec(), register it first: "
        "linecache.cache[name] = (len(text), None, text.splitlines(True), name)"
    )


class SourceChanged(TilelangAscendError, OSError):
    """A function is not what its file says now."""

    template = "the source of '{name}' has changed since Python has read it: what is there now is not what Python would run"
    default_hint = "reload the module, or start again"


class InvalidKernel(TilelangAscendError, ValueError):
    """The kernel as a whole is not well formed."""


# --- the compiler ---------------------------------------------------------------------------------------------------


class CompileError(TilelangAscendError, RuntimeError):
    """The compiler cannot translate this kernel."""


class OutOfMemory(CompileError):
    """The buffers of a kernel do not fit in an on-chip memory."""

    template = "{memory} overflow: {needed} bytes needed, {available} available on {chip}"


class OutOfTile(CompileError, IndexError):
    """An access that leaves its tile whenever the kernel runs."""

    template = "{place} of dimension {axis} of '{name}': the tile has {size} there"
    default_hint = "make the tile larger or the loop shorter, or guard the access with a condition"


class TargetError(TilelangAscendError, ValueError):
    """Unknown target or chip."""


class UnsupportedOnChip(CompileError):
    """The chip has no instruction for this."""


# --- calling a kernel -----------------------------------------------------------------------------------------------


class ArgumentError(TilelangAscendError):
    """A kernel was called with arguments it does not take."""


class ArgumentValueError(ArgumentError, ValueError):
    """Wrong shape, stride, device or number of arguments."""


class ArgumentTypeError(ArgumentError, TypeError):
    """Wrong dtype or kind of argument."""


class AliasingOutput(ArgumentValueError):
    """An output tensor shares memory with another argument."""

    template = "output '{output}' shares memory with argument '{other}'"
    default_hint = "pass a separate tensor, or copy one of them first"


class SimulationError(TilelangAscendError, RuntimeError):
    """The machine model found that the program is wrong (hazard, deadlock, illegal access)."""


class DeviceAssertionError(SimulationError, AssertionError):
    """An `assert` or `T.device_assert` of a kernel does not hold; the message has the values in it."""


# --- the board ------------------------------------------------------------------------------------------------------


class DeviceCompileError(CompileError):
    """The compiler of CANN does not compile the emitted text, or there is none; the notes have its own words."""


class DeviceError(TilelangAscendError, RuntimeError):
    """A function of the driver failed, or a kernel did on the board; the notes have the driver's own words."""


class DeviceMemoryError(DeviceError, MemoryError):
    """The memory of the board is too small for the tensors and workspaces of a call."""


class DeviceTimeoutError(DeviceError, TimeoutError):
    """A kernel did not end in time."""


def first_lines(diagnostics: str, limit: int = 40) -> str:
    """The beginning of what a compiler says: one mistake can fill pages of template instantiations, and the first lines name it."""
    lines = diagnostics.strip().splitlines()
    rest = len(lines) - limit
    return "\n".join(lines[:limit] + ([f"... {rest} more lines"] if rest > 0 else []))


# --- finding the user's line ----------------------------------------------------------------------------------------


def location_from_traceback(traceback, is_user_frame) -> Location | None:
    """Innermost frame of `traceback` for which `is_user_frame(code)` holds; frames whose text can be shown come
    first.
    """
    found = None
    while traceback is not None:
        code = traceback.tb_frame.f_code
        if is_user_frame(code) and (found is None or linecache.getline(code.co_filename, traceback.tb_lineno)):
            found = traceback
        traceback = traceback.tb_next
    if found is None:
        return None
    return location_in_code(found.tb_frame.f_code, found.tb_lasti, found.tb_lineno)


def location_in_code(code, last_instruction: int, line: int, positions=None) -> Location:
    """Place of an instruction of `code`: exact columns where Python has them (3.11 and later), else the start of
    `line`.
    """
    if sys.version_info >= (3, 11):
        table = positions if positions is not None else list(code.co_positions())
        first, last, col, end_col = table[last_instruction // 2]
        if first is not None and col is not None:
            if last != first:  # show the part on the first line
                end_col = len(linecache.getline(code.co_filename, first).rstrip())
            return Location(code.co_filename, first, col + 1, end_col + 1)
    text = linecache.getline(code.co_filename, line)
    return Location(code.co_filename, line, len(text) - len(text.lstrip()) + 1)


_INSTALLED = tuple(
    f"{folder}{os.sep}"
    for folder in {Path(__file__).resolve().parent, *(sysconfig.get_paths()[k] for k in ("stdlib", "platstdlib", "purelib", "platlib"))}
)


def is_internal(filename: str) -> bool:
    """True for files of this package, of installed packages and of Python itself."""
    return filename.startswith((*_INSTALLED, "<frozen "))
