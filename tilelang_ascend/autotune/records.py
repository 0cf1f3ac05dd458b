"""What tunings have measured, in a SQLite file that processes share.

Every outcome is written when it is known, so that a tuning that was killed goes on where it stopped, and spaces that
overlap share what they have in common. A file of another version of the format, or of another program, is left as it is.
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, astuple, dataclass, field, fields
from pathlib import Path
from typing import Any, Callable

from .. import cache, env
from ..errors import TilelangAscendError
from ..log import get_logger
from .outcome import Outcome, Status

VERSION = 1
"""Of the table below; another number means another table."""

_APPLICATION = 0x544C4153
"""SQLite's `application_id`, by which a file says whose it is ("TLAS")."""

_FILE = "records.sqlite"
_PATIENCE_SECONDS = 30.0
_FORMAT = "tilelang_ascend tuning records"


class RecordsError(TilelangAscendError, OSError):
    """The file of records, or one that is imported, cannot be used."""


@dataclass(frozen=True)
class Record:
    """One measured configuration.

    Attributes:
        key: digest of the program, its inputs and, for simulated times, of the machine model.
        place: where it was measured (`places.Place.name`).
        kernel, chip, shape, config: for people; shape and config as text.
        cann: release of CANN, "" where there is none.
        release: of this package.
        outcome: what came of it.
        created: seconds since 1970.
    """

    key: str
    place: str
    kernel: str = ""
    chip: str = ""
    cann: str = ""
    release: str = ""
    shape: str = ""
    config: str = ""
    outcome: Outcome = field(default_factory=lambda: Outcome(Status.ERROR))
    created: float = 0.0

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values; `from_json` reverses it."""
        return {**asdict(self), "outcome": self.outcome.to_json()}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Record:
        """Inverse of `to_json`.

        Raises:
            ValueError, TypeError, KeyError: it is none.
        """
        record = Record(**{**data, "outcome": Outcome.from_json(data["outcome"])})
        texts = [value for value in astuple(record)[:_TEXTS] if not isinstance(value, str)]
        if texts or not record.key or not record.place or not isinstance(record.created, (int, float)):
            raise ValueError(f"not a record: {data!r}")
        return record


_COLUMNS = tuple(f.name for f in fields(Record))
_TEXTS = _COLUMNS.index("outcome")
_TABLE = f"""CREATE TABLE records (
  {", ".join(f"{name} TEXT NOT NULL" for name in _COLUMNS[:_TEXTS])}, outcome TEXT NOT NULL, created REAL NOT NULL,
  PRIMARY KEY (key, place))"""


class Records:
    """The records in a file, which is made if it is not there.

    Raises:
        RecordsError: it is of another version, of another program, damaged, or cannot be read.
    """

    def __init__(self, path: str | Path):
        self.path = Path(path)
        with self._reasons("cannot be opened"):
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
            # Every statement is a transaction of its own. Threads of a session write one after the other.
            self._database = sqlite3.connect(self.path, timeout=_PATIENCE_SECONDS, isolation_level=None, check_same_thread=False)
        try:
            with self._reasons("cannot be read"):
                self._prepare()
        except BaseException:
            self._database.close()
            raise

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    def __enter__(self) -> Records:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __len__(self) -> int:
        return int(self._database.execute("SELECT count(*) FROM records").fetchone()[0])

    def load(self, key: str, place: str) -> Outcome | None:
        """What is known about a program at a place."""
        with self._reasons("cannot be read"):
            row = self._database.execute("SELECT outcome FROM records WHERE key = ? AND place = ?", (key, place)).fetchone()
        try:
            return None if row is None else Outcome.from_json(json.loads(row[0]))
        except (KeyError, ValueError, TypeError):  # of a future release that has kept the version
            return None

    def save(self, record: Record) -> None:
        """Write a record; it takes the place of an earlier one."""
        self._insert("REPLACE", record)

    def select(self, **equal: str) -> Iterator[Record]:
        """The records whose columns have these values, oldest first."""
        where = " AND ".join(f"{name} = ?" for name in equal) or "1"
        with self._reasons("cannot be read"):
            rows = self._database.execute(f"SELECT * FROM records WHERE {where} ORDER BY created, key", tuple(equal.values())).fetchall()
        for row in rows:
            with contextlib.suppress(KeyError, ValueError, TypeError):
                yield Record.from_json({**dict(zip(_COLUMNS, row)), "outcome": json.loads(row[_TEXTS])})

    def export(self, path: str | Path) -> int:
        """Write all records as lines of JSON; how many. The file appears complete or not at all."""
        target = Path(path)
        stage = target.with_name(f".{target.name}.{os.getpid()}")
        count = 0
        try:
            with open(stage, "w", encoding="utf-8") as file:
                file.write(json.dumps({"format": _FORMAT, "version": VERSION}) + "\n")
                for record in self.select():
                    file.write(json.dumps(record.to_json()) + "\n")
                    count += 1
            os.replace(stage, target)
        except OSError as reason:
            raise RecordsError(f"{target} cannot be written: {reason.strerror}") from None
        finally:
            stage.unlink(missing_ok=True)
        return count

    def import_from(self, path: str | Path) -> tuple[int, int]:
        """Add the records of an exported file that are not there yet: all of them or, if one is damaged, none.

        Returns:
            (records added, records in the file).

        Raises:
            RecordsError: it is no such file, of another version, or damaged.
        """
        found = list(_read(Path(path)))
        before = len(self)
        with self._reasons("cannot be written"):
            self._database.execute("BEGIN IMMEDIATE")
            try:
                for record in found:
                    self._insert("IGNORE", record)
                self._database.execute("COMMIT")
            except BaseException:
                self._database.execute("ROLLBACK")
                raise
        return len(self) - before, len(found)

    def _insert(self, conflict: str, record: Record) -> None:
        values = [*astuple(record)[:_TEXTS], json.dumps(record.outcome.to_json()), record.created]
        marks = ", ".join("?" * len(values))
        with self._reasons("cannot be written"):
            self._database.execute(f"INSERT OR {conflict} INTO records VALUES ({marks})", values)

    def _prepare(self) -> None:
        """Check whose file it is; make the table in an empty one."""
        ask = lambda what: self._database.execute(f"PRAGMA {what}").fetchone()[0]
        self._database.execute("BEGIN IMMEDIATE")  # one process makes the table
        try:
            application, version = ask("application_id"), ask("user_version")
            tables = self._database.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
            if not application and not version and not tables:
                self._database.execute(_TABLE)
                self._database.execute(f"PRAGMA application_id = {_APPLICATION}")
                self._database.execute(f"PRAGMA user_version = {VERSION}")
            elif application != _APPLICATION:
                raise RecordsError(f"{self.path} is a database, but not of tuning records; it is left as it is")
            elif version != VERSION:
                raise RecordsError(
                    f"{self.path} has tuning records of version {version}, this release reads version {VERSION}; it is left as it is",
                    hint="use the release that wrote it to export them, or another TILELANG_CACHE_DIR",
                )
        finally:
            self._database.execute("COMMIT")
        with contextlib.suppress(sqlite3.OperationalError):  # some file systems cannot share memory
            self._database.execute("PRAGMA journal_mode = WAL")

    @contextlib.contextmanager
    def _reasons(self, what: str) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError) as reason:
            if isinstance(reason, RecordsError):
                raise
            raise RecordsError(f"tuning records {self.path} {what}: {reason}") from None


def _read(path: Path) -> Iterator[Record]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as reason:
        raise RecordsError(f"{path} cannot be read: {reason}") from None
    try:
        header = json.loads(lines[0])
        ours, version = header["format"] == _FORMAT, header["version"]
    except (IndexError, ValueError, KeyError, TypeError):
        ours, version = False, None
    if not ours:
        raise RecordsError(f"{path} is no file of exported tuning records")
    if version != VERSION:
        raise RecordsError(f"{path} has tuning records of version {version}, this release reads version {VERSION}")
    for number, line in enumerate(lines[1:], 2):
        try:
            yield Record.from_json(json.loads(line))
        except (ValueError, KeyError, TypeError, AttributeError):
            raise RecordsError(f"{path}, line {number}: this is no tuning record") from None


class Memory:
    """The records a tuning uses: those of the user's cache folder, or none, with one line that says why.

    They are switched off with the kernel cache, or alone by `TILELANG_AUTO_TUNING_DISABLE_CACHE`.
    """

    def __init__(self) -> None:
        self._records: Records | None = None
        if not cache.is_cache_enabled() or env.AUTO_TUNING_DISABLE_CACHE.get():
            return
        path = path_of_user()
        if path is not None:
            try:
                self._records = Records(path)
            except RecordsError as error:
                self._give_up(error)

    def load(self, key: str, place: str) -> Outcome | None:
        """What is known about a program at a place."""
        return self._try(lambda records: records.load(key, place))

    def save(self, record: Record) -> None:
        """Remember an outcome, unless another try might end differently."""
        if record.outcome.status.repeatable:
            self._try(lambda records: records.save(record))

    def history(self, chip: str, place: str) -> list[Record]:
        """All records of a chip at a place."""
        return self._try(lambda records: list(records.select(chip=chip, place=place))) or []

    def close(self) -> None:
        """Close the file."""
        if self._records is not None:
            self._records.close()

    def _try(self, action: Callable[[Records], Any]) -> Any:
        try:
            return None if self._records is None else action(self._records)
        except RecordsError as error:
            self._give_up(error)

    def _give_up(self, error: RecordsError) -> None:
        """What is measured is worth more than its record: it is told once, then nothing is remembered."""
        get_logger().warning("%s; this tuning is not remembered", error.message)
        self.close()
        self._records = None


def path_of_user() -> Path | None:
    """Where a user's records lie; None when there is no folder for them."""
    return cache.measurements().path(_FILE)


def now() -> float:
    """The time of a record."""
    return round(time.time(), 3)
