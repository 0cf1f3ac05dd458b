"""Indented text with comments that lead back to the user's source."""

from __future__ import annotations

import linecache
import os
from contextlib import contextmanager


class Writer:
    """Collects lines. `source_comment` writes a comment whenever the user's line changes."""

    def __init__(self):
        self._lines: list[str] = []
        self._indent = 0
        self._where: tuple[str, int] | None = None

    def line(self, text: str = "") -> None:
        """One line at the current indentation."""
        self._lines.append("  " * self._indent + text if text else "")

    def directive(self, text: str) -> None:
        """A preprocessor line; it starts in the first column."""
        self._lines.append(text)

    def paste(self, text: str) -> None:
        """The lines of a finished text, indented further."""
        self.lines(*text.splitlines())

    def lines(self, *texts: str) -> None:
        """Several lines."""
        for text in texts:
            self.line(text)

    @contextmanager
    def block(self, head: str, tail: str = "}"):
        """`head`, an indented body, `tail` (left out when empty). Leaving a block ends a group of statements."""
        self.line(head)
        self._indent += 1
        yield
        self._indent -= 1
        if tail:
            self.line(tail)
        self._where = None

    def source_comment(self, span) -> None:
        """`// file:line  text` when `span` is another line than the statement before."""
        if span is None or not int(span.line):
            return
        where = (str(span.source_name.name), int(span.line))
        if where == self._where:
            return
        self._where = where
        text = linecache.getline(*where).strip()
        # A backslash at the end would continue the comment onto the next line.
        text = text.rstrip("\\").rstrip()
        self.line(f"// {os.path.basename(where[0])}:{where[1]}" + (f"  {text}" if text else ""))

    def text(self) -> str:
        """Everything, with a newline at the end."""
        return "\n".join(self._lines) + "\n"
