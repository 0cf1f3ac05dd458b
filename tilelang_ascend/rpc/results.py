"""Results in a file, one line of JSON each, written when they are there: whatever ends the program, none that was made is lost."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .failures import ResultsError

VERSION = 1
_HEADER = {"format": "tilelang_ascend results", "version": VERSION}


class Results:
    """Values by name, in memory and in a file to which processes may add at the same time.

    The first line names format and version. A file of another version, or of something else, is never changed. A last line that was cut
    off, by a full disk for instance, is dropped; a damaged line in between is an error.

    Raises:
        ResultsError: the file is of another version, or damaged. OSError: it cannot be read or written.
    """

    def __init__(self, path: str | Path):
        self.path = Path(path)
        self._values: dict[str, Any] = {}
        self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX)
            self._load()
        except BaseException:
            os.close(self._file)
            raise
        fcntl.flock(self._file, fcntl.LOCK_UN)

    def __enter__(self) -> "Results":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; the values stay."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def __contains__(self, name: object) -> bool:
        return name in self._values

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def add(self, name: str, value: Any) -> None:
        """Keep a value of JSON; the last one of a name counts.

        Raises:
            TypeError: name or value are not of JSON. OSError: the file cannot be written; the value is in memory all the same.
        """
        if not isinstance(name, str):
            raise TypeError(f"results are named by strings, not by {type(name).__name__}")
        line = json.dumps({"name": name, "value": value}).encode() + b"\n"
        self._values[name] = json.loads(line)["value"]
        self._append(line)

    def _append(self, line: bytes) -> None:
        """All of a line or nothing."""
        fcntl.flock(self._file, fcntl.LOCK_EX)
        try:
            end = os.fstat(self._file).st_size
            try:
                if os.write(self._file, line) != len(line):
                    raise OSError(28, "no space is left", str(self.path))
            except OSError:
                os.ftruncate(self._file, end)
                raise
            os.fsync(self._file)
        finally:
            fcntl.flock(self._file, fcntl.LOCK_UN)

    def _load(self) -> None:
        text = self.path.read_bytes()
        if not text:
            os.write(self._file, json.dumps(_HEADER).encode() + b"\n")
            return
        lines = text.split(b"\n")
        self._check_header(lines[0])
        for number, line in enumerate(lines[1:-1], 2):
            try:
                row = json.loads(line)
                self._values[row["name"]] = row["value"]
            except (ValueError, KeyError, TypeError):
                raise ResultsError(f"{self.path}, line {number}: this is no result") from None
        if lines[-1]:
            os.ftruncate(self._file, len(text) - len(lines[-1]))

    def _check_header(self, line: bytes) -> None:
        try:
            header = json.loads(line)
            ours, version = header["format"] == _HEADER["format"], header["version"]
        except (ValueError, KeyError, TypeError):
            ours, version = False, None
        if not ours:
            raise ResultsError(f"{self.path} is no file of results")
        if version != VERSION:
            raise ResultsError(
                f"{self.path} has results of version {version}, this is version {VERSION}; the file is left as it is",
                hint="name another file",
            )
