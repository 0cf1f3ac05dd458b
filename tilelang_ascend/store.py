"""What the package keeps on disk: one folder per key, written once, checked on every read, safe for concurrent processes."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import Iterator, Mapping

from .log import get_logger

FOLDER = "kernel-cache"
"""The folder the cache owns, below the one it is told to use, which may hold anything."""

MARKER = "CACHEDIR.TAG"
_MARK = "Signature: 8a477f597d28d172789f06886806bc55\n# Made by tilelang_ascend, which deletes what lies in this folder.\n"
"""Says that a folder is the cache's own. The first line tells programs that make backups to leave it out (bford.info/cachedir)."""

_MANIFEST = "manifest.json"
_told: set[Path] = set()


class Store:
    """Maps a key (hexadecimal digest) to a set of small files, in one section of the cache below `root`.

    An entry is complete or absent: it is staged in a temporary folder and renamed into place. The manifest holds a
    digest of every file, so a truncated or edited entry is noticed, removed and built again. A folder without the
    marker of the cache is neither read nor changed.
    """

    def __init__(self, root: Path, section: str = "kernels"):
        self.folder = Path(root) / FOLDER
        self.section = self.folder / section

    def read(self, key: str) -> dict[str, str] | None:
        """The texts of an entry, or None when there is none or it is damaged."""
        files = self.read_bytes(key)
        try:
            return files and {name: data.decode("utf-8") for name, data in files.items()}
        except ValueError:
            self.remove(key)
            return None

    def read_bytes(self, key: str) -> dict[str, bytes] | None:
        """The files of an entry, or None when there is none or it is damaged."""
        if not self._is_ours():
            return None
        folder = self.entry(key)
        try:
            manifest = json.loads((folder / _MANIFEST).read_text("utf-8"))
            files = {name: (folder / name).read_bytes() for name in manifest["files"]}
            if manifest["key"] == key and all(_digest(data) == manifest["files"][name] for name, data in files.items()):
                return files
        except FileNotFoundError:
            if not folder.exists():
                return None
        except (OSError, ValueError, KeyError, TypeError):
            pass
        self.remove(key)
        return None

    def write(self, key: str, files: Mapping[str, str | bytes]) -> bool:
        """Store an entry; the first writer wins. False when the folder cannot be written."""
        if not self._make():
            return False
        folder = self.entry(key)
        stage = None
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
            stage = Path(tempfile.mkdtemp(prefix=".stage-", dir=folder.parent))
            data = {name: text.encode("utf-8") if isinstance(text, str) else text for name, text in files.items()}
            for name, content in data.items():
                (stage / name).write_bytes(content)
            manifest = {"key": key, "files": {name: _digest(content) for name, content in data.items()}}
            (stage / _MANIFEST).write_text(json.dumps(manifest), "utf-8")
            os.rename(stage, folder)
            return True
        except OSError:
            return folder.exists()
        finally:
            if stage is not None:
                shutil.rmtree(stage, ignore_errors=True)

    def remove(self, key: str) -> None:
        """Delete an entry if it is there."""
        if self._is_ours():
            self._delete(self.entry(key))

    def clear(self) -> None:
        """Delete every entry."""
        if self._is_ours():
            self._delete(self.section)
            for rest in self.folder.glob(".doomed-*"):  # of a process that was killed
                shutil.rmtree(rest, ignore_errors=True)

    def size(self) -> tuple[int, int]:
        """Number of entries and their bytes."""
        entries = [p for p in self.section.glob("*/*") if (p / _MANIFEST).exists()] if self._is_ours() else []
        return len(entries), sum(f.stat().st_size for e in entries for f in e.iterdir())

    @contextlib.contextmanager
    def building(self, key: str) -> Iterator[None]:
        """Hold while building `key`, so that concurrent processes build it once. Never blocks for ever."""
        from filelock import FileLock, Timeout

        try:
            if not self._make():
                raise OSError
            locks = self.folder / "locks"
            locks.mkdir(parents=True, exist_ok=True)
            lock = FileLock(str(locks / key[:2]), timeout=60)
            lock.acquire()
        except (OSError, Timeout):
            # A read-only folder or a stuck neighbour costs a second build, not a failure.
            yield
            return
        try:
            yield
        finally:
            lock.release()

    def entry(self, key: str) -> Path:
        """Folder of the entry of `key`, whether or not there is one."""
        return self.section / key[:2] / key

    def _is_ours(self) -> bool:
        """Whether the cache's folder is there and is the cache's."""
        try:
            if (self.folder / MARKER).read_text("utf-8") == _MARK:
                return True
        except (OSError, ValueError):
            if not os.path.lexists(self.folder) or _is_empty(self.folder):
                return False
        self._tell("it was not made by tilelang_ascend; set TILELANG_CACHE_DIR to another folder")
        return False

    def _make(self) -> bool:
        """Make the cache's folder if it is not there; False when there is none to use."""
        if self._is_ours():
            return True
        base, stage = self.folder.parent, None
        try:
            base.mkdir(parents=True, exist_ok=True)
            # Renamed into place, so that it is never without its marker.
            stage = Path(tempfile.mkdtemp(prefix=f".{FOLDER}-", dir=base))
            (stage / MARKER).write_text(_MARK, "utf-8")
            os.rename(stage, self.folder)
        except OSError:  # not writable, or another process was first
            if stage is not None:
                shutil.rmtree(stage, ignore_errors=True)
        return self._is_ours()

    def _delete(self, folder: Path) -> None:
        """Renaming first keeps others from seeing half of it."""
        with contextlib.suppress(OSError):
            doomed = Path(tempfile.mkdtemp(prefix=".doomed-", dir=self.folder))
            with contextlib.suppress(OSError):
                os.rename(folder, doomed / "entry")
            shutil.rmtree(doomed, ignore_errors=True)

    def _tell(self, reason: str) -> None:
        """Warn once that the folder is not used."""
        if self.folder not in _told:
            _told.add(self.folder)
            get_logger().warning("the kernel cache %s is not used: %s", self.folder, reason)


def _is_empty(folder: Path) -> bool:
    try:
        return not any(os.scandir(folder))
    except OSError:
        return False


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
