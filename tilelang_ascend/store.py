"""What the package keeps on disk: one folder per key, written once, checked on every read, safe for concurrent processes."""

from __future__ import annotations

import atexit
import contextlib
import functools
import hashlib
import json
import os
import shutil
import stat
import tempfile
from pathlib import Path
from typing import Callable, Iterator, Mapping

from .log import get_logger

FOLDER = "kernel-cache"
"""The folder the cache owns, below the one it is told to use, which may hold anything."""

MARKER = "CACHEDIR.TAG"
_MARK = b"Signature: 8a477f597d28d172789f06886806bc55\n# Made by tilelang_ascend, which deletes what lies in this folder.\n"
"""Says that a folder is the cache's own. The first line tells programs that make backups to leave it out (bford.info/cachedir)."""

_MANIFEST = "manifest.json"
_PATIENCE_SECONDS = 60
_told: set[Path] = set()


class Store:
    """Maps a key (hexadecimal digest) to a set of small files, in one section of the cache below `root`.

    An entry is complete or absent: it is staged in a temporary folder and renamed into place. The manifest holds a
    digest of every file, so a damaged entry is noticed, removed and built again. Against others the digest is no help,
    as it lies beside the files: all is made for this user alone, and what belongs to, or can be written by, somebody
    else is not read. A folder without the marker of the cache is neither read nor changed.
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
        """The files of an entry, or None when there is none, it is damaged, or others could have written it."""
        try:
            with contextlib.ExitStack() as stack:
                at = self._open(stack)
                for name in self.entry(key).relative_to(self.folder).parts:
                    at = _open_folder(stack, name, at)
                manifest = json.loads(_read_file(_MANIFEST, at))
                files = {str(name): _read_file(str(name), at) for name in manifest["files"]}
            if manifest["key"] == key and all(_digest(data) == manifest["files"][name] for name, data in files.items()):
                return files
        except _NotOurs as reason:
            self._tell(reason)
            return None
        except (FileNotFoundError, NotADirectoryError):
            if not os.path.lexists(self.entry(key)):
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
            with contextlib.ExitStack() as stack:
                at = self._open(stack)
                for parent in (self.section, folder.parent):
                    parent.mkdir(mode=0o700, exist_ok=True)
                    at = _open_folder(stack, parent.name, at)
            stage = Path(tempfile.mkdtemp(prefix=".stage-", dir=folder.parent))
            data = {name: text.encode("utf-8") if isinstance(text, str) else text for name, text in files.items()}
            for name, content in data.items():
                _write_file(stage / name, content)
            manifest = {"key": key, "files": {name: _digest(content) for name, content in data.items()}}
            _write_file(stage / _MANIFEST, json.dumps(manifest).encode())
            os.rename(stage, folder)
            return True
        except OSError:
            return self.read_bytes(key) is not None
        except _NotOurs as reason:
            self._tell(reason)
            return False
        finally:
            if stage is not None:
                shutil.rmtree(stage, ignore_errors=True)

    def keep(self, key: str, name: str, build: Callable[[], bytes]) -> Path:
        """Path of the only file, `name`, of an entry, which is built if it is not there. What no cache can keep lies in a folder that goes
        with the process."""
        path = self.entry(key) / name
        if self.read_bytes(key) is not None:
            return path
        private = private_folder(os.getpid()) / f"{key}-{name}"
        if private.exists():
            return private
        built = build()
        if self.write(key, {name: built}):
            return path
        private.write_bytes(built)
        return private

    def path(self, name: str) -> Path | None:
        """Where a file lies that the caller keeps in this section by itself; None when there is no folder for it."""
        if not self._make():
            return None
        try:
            with contextlib.ExitStack() as stack:
                at = self._open(stack)
                self.section.mkdir(mode=0o700, exist_ok=True)
                _open_folder(stack, self.section.name, at)
        except OSError:
            return None
        except _NotOurs as reason:
            self._tell(reason)
            return None
        return self.section / name

    def remove(self, key: str) -> None:
        """Delete an entry if it is there."""
        folder = self.entry(key)
        with contextlib.suppress(OSError, _NotOurs), contextlib.ExitStack() as stack:
            at = self._open(stack)
            for parent in (self.section, folder.parent):
                at = _open_folder(stack, parent.name, at)
            self._delete(folder)

    def clear(self) -> None:
        """Delete every entry. Warns of what cannot be deleted."""
        if self._is_ours():
            self._delete(self.section)
            if self.section.exists() and not os.access(self.folder, os.W_OK):
                get_logger().warning("the entries of %s stay: the folder cannot be written", self.section)
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
            locks.mkdir(mode=0o700, exist_ok=True)
            lock = FileLock(str(locks / key), timeout=_PATIENCE_SECONDS, mode=0o600)
            lock.acquire()
        except (OSError, NotImplementedError, Timeout):
            # A read-only folder or a stuck neighbour costs a second build, not a failure.
            yield
            return
        try:
            yield
        finally:
            # Whoever comes later finds the entry; those who wait already have the file open.
            with contextlib.suppress(OSError):
                os.unlink(lock.lock_file)
            lock.release()

    def entry(self, key: str) -> Path:
        """Folder of the entry of `key`, whether or not there is one."""
        return self.section / key[:2] / key

    def _open(self, stack: contextlib.ExitStack) -> int:
        """Descriptor of the cache's folder, once it is known to be the cache's.

        Raises:
            OSError: it is not there. _NotOurs: it is something else.
        """
        if stat.S_ISLNK(os.lstat(self.folder).st_mode):
            raise _NotOurs(self.folder, "it is a symbolic link")
        _judge(os.lstat(self.folder), self.folder)  # opening that of another user may fail
        at = _open_folder(stack, self.folder)
        with contextlib.suppress(FileNotFoundError):
            if _read_file(MARKER, at) == _MARK:
                return at
        if not os.listdir(at):
            raise FileNotFoundError(self.folder)
        raise _NotOurs(self.folder, "it was not made by tilelang_ascend")

    def _is_ours(self) -> bool:
        """Whether the cache's folder is there and is the cache's."""
        try:
            with contextlib.ExitStack() as stack:
                self._open(stack)
            return True
        except _NotOurs as reason:
            self._tell(reason)
        except OSError:
            pass
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
            _write_file(stage / MARKER, _MARK)
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

    def _tell(self, reason: _NotOurs) -> None:
        """Warn once that something in the folder, or all of it, is not used."""
        if self.folder not in _told:
            _told.add(self.folder)
            get_logger().warning("%s", reason)


@functools.cache
def private_folder(process: int) -> Path:
    """A folder that goes with the process."""
    folder = tempfile.mkdtemp(prefix="tilelang-ascend-")
    atexit.register(lambda: os.getpid() == process and shutil.rmtree(folder, ignore_errors=True))
    return Path(folder)


class _NotOurs(Exception):
    """A file or folder that the cache has not made, or that others could have changed."""

    def __init__(self, path: Path | str, reason: str):
        super().__init__(
            f"{path} is not used as kernel cache: {reason}\nhint: set TILELANG_CACHE_DIR to a folder in which only you can write"
        )


_NO_LINK = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


def _open_folder(stack: contextlib.ExitStack, path: Path | str, at: int | None = None) -> int:
    """Descriptor of a folder that nobody else can write to; names in it cannot change their meaning any more."""
    descriptor = os.open(path, _NO_LINK | os.O_DIRECTORY, dir_fd=at)
    stack.callback(os.close, descriptor)
    _judge(os.fstat(descriptor), path)
    return descriptor


def _read_file(name: str, at: int) -> bytes:
    """Contents of a file that nobody else can write to."""
    if name != os.path.basename(name):
        raise ValueError(name)
    with open(os.open(name, _NO_LINK, dir_fd=at), "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise ValueError(name)
        _judge(status, name)
        return file.read()


def _judge(status: os.stat_result, path: Path | str) -> None:
    if status.st_uid != os.geteuid():
        raise _NotOurs(path, "it belongs to another user")
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise _NotOurs(path, "others can write to it")


def _write_file(path: Path, content: bytes) -> None:
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
