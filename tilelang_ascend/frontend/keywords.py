"""Arguments of the functions of the language: unknown ones are errors at the user's line, hints are listed in a note.

The signature of a function is the whole record: a parameter annotated `Ignored` is accepted for the sake of kernels
written for other machines, has no effect, and is noted when it is given.
"""

from __future__ import annotations

import difflib
import enum
import functools
import inspect
import threading
from typing import TYPE_CHECKING, Any, Callable

from ..errors import UnknownArgument
from .builder import Builder
from .locations import user_location

if TYPE_CHECKING:
    Ignored = Any
else:

    class Ignored:
        """Annotation of a parameter without effect on this machine: whatever kernels give is taken."""


_other = threading.local()


def interpret_with(meaning: Callable[[str], Any] | None) -> None:
    """In this thread, `T.copy` is `meaning("T.copy")` from now on (None: what it says in `language` again)."""
    _other.meaning = meaning


def other_meaning(name: str):
    """What a function of the language does instead of building IR; None when it builds IR."""
    meaning = getattr(_other, "meaning", None)
    return None if meaning is None else meaning(name)


def note_hint(text: str) -> None:
    """Record that a hint was given; outside a kernel nothing happens."""
    builder = Builder.active()
    if builder is not None:
        builder.hints.append(text)


def checked(function: Callable, name: str | None = None) -> Callable:
    """`function` that refuses arguments its signature does not have, with the line and the closest names.

    `name` is what the user calls it (default: its own name, after ``T.``).
    """
    name = name or f"T.{function.__name__}"
    signature = inspect.signature(function, eval_str=True)
    hints = {p.name: p.default for p in signature.parameters.values() if p.annotation is Ignored}

    @functools.wraps(function)
    def call(*args, **kwargs):
        other = other_meaning(name)
        if other is not None:
            if kwargs:
                _bound(signature, name, args, kwargs)
            return other(*args, **kwargs)
        bound = _bound(signature, name, args, kwargs)
        for hint, default in hints.items():
            given = bound.arguments.get(hint, default)
            if given is not default and not (isinstance(given, (bool, int, str)) and given == default):
                note_hint(f"{name}({hint}={_shown(given)})")
        return function(*args, **kwargs)

    return call


def _bound(signature: inspect.Signature, name: str, args: tuple, kwargs: dict) -> inspect.BoundArguments:
    try:
        return signature.bind(*args, **kwargs)
    except TypeError as error:
        raise _mismatch(name, signature, kwargs, error) from None


def _shown(value) -> str:
    if isinstance(value, enum.Enum):
        return value.name
    return repr(value) if isinstance(value, (bool, int, str)) else "..."


def _mismatch(name: str, signature: inspect.Signature, kwargs: dict, error: TypeError) -> UnknownArgument:
    known = [p.name for p in signature.parameters.values() if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    known = [n for n in known if n != "self"]
    unknown = [k for k in kwargs if k not in known]
    takes = f"{name} takes " + (", ".join(known) if known else "no arguments")
    if not unknown:
        return UnknownArgument(f"{name}: {error}", hint=takes, at=user_location())
    near = difflib.get_close_matches(unknown[0], known, n=1, cutoff=0.6)
    hint = f"did you mean {near[0]}=?" if near else takes
    return UnknownArgument(f"{name} has no argument '{unknown[0]}'", hint=hint, at=user_location())
