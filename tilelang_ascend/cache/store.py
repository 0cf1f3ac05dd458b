"""The on-disk cache: one folder per key, written once, checked on every read, safe for concurrent processes."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import Iterator, Mapping

_MANIFEST = "manifest.json"


class Store:
    """Maps a key (hexadecimal digest) to a set of small text files below `root`.

    An entry is complete or absent: it is staged in a temporary folder and renamed into place. The manifest holds a
    digest of every file, so a truncated or edited entry is noticed, removed and built again.
    """

    def __init__(self, root: Path):
        self.root = Path(root)

    def read(self, key: str) -> dict[str, str] | None:
        """The files of an entry, or None when there is none or it is damaged."""
        folder = self._folder(key)
        try:
            manifest = json.loads((folder / _MANIFEST).read_text("utf-8"))
            files = {name: (folder / name).read_bytes() for name in manifest["files"]}
            if manifest["key"] == key and all(_digest(data) == manifest["files"][name] for name, data in files.items()):
                return {name: data.decode("utf-8") for name, data in files.items()}
        except FileNotFoundError:
            if not folder.exists():
                return None
        except (OSError, ValueError, KeyError, TypeError):
            pass
        self.remove(key)
        return None

    def write(self, key: str, files: Mapping[str, str]) -> bool:
        """Store an entry; the first writer wins. False when the folder cannot be written."""
        folder = self._folder(key)
        stage = None
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
            stage = Path(tempfile.mkdtemp(prefix=".stage-", dir=folder.parent))
            data = {name: text.encode("utf-8") for name, text in files.items()}
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
        """Delete an entry if it is there. Renaming first keeps readers from seeing half of it."""
        folder = self._folder(key)
        with contextlib.suppress(OSError):
            doomed = Path(tempfile.mkdtemp(prefix=".doomed-", dir=folder.parent))
            with contextlib.suppress(OSError):
                os.rename(folder, doomed / "entry")
            shutil.rmtree(doomed, ignore_errors=True)

    def clear(self) -> None:
        """Delete every entry."""
        shutil.rmtree(self.root / "kernels", ignore_errors=True)

    def size(self) -> tuple[int, int]:
        """Number of entries and their bytes."""
        entries = [p for p in self.root.glob("kernels/*/*") if (p / _MANIFEST).exists()]
        return len(entries), sum(f.stat().st_size for e in entries for f in e.iterdir())

    @contextlib.contextmanager
    def building(self, key: str) -> Iterator[None]:
        """Hold while building `key`, so that concurrent processes build it once. Never blocks for ever."""
        from filelock import FileLock, Timeout

        try:
            locks = self.root / "locks"
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

    def _folder(self, key: str) -> Path:
        return self.root / "kernels" / key[:2] / key


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
