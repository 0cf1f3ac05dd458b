"""Compiled kernels, in memory and on disk.

The key of a kernel is a digest of its traced Tile IR, so everything that shaped it counts: its source, the globals,
closures and helper functions it used, the values of its constants. Chip, options, and the versions of this package,
of the instruction table and of TVM are part of the key too.
"""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock
from typing import Callable

from .. import env
from ..runtime.artifact import Artifact
from ..store import Store

KEPT = 256
"""So many kernels stay in memory, those asked for last; others live as long as somebody holds them. One with what the simulator has made of it takes a MB and
more (measured)."""

_memory: OrderedDict[str, Artifact] = OrderedDict()
_lock = Lock()
_enabled: bool | None = None


def enable_cache() -> None:
    """Use the on-disk cache, whatever `TILELANG_DISABLE_CACHE` says."""
    global _enabled
    _enabled = True


def disable_cache() -> None:
    """Compile afresh in every process: neither read nor write the on-disk cache."""
    global _enabled
    _enabled = False


def is_cache_enabled() -> bool:
    """Whether the on-disk cache is used."""
    return not env.DISABLE_CACHE.get() if _enabled is None else _enabled


def clear_cache() -> None:
    """Forget every compiled kernel, in memory and on disk, and on disk every measurement of the tuner and every library
    compiled from emitted text."""
    clear_memory()
    for section in (store(), measurements(), libraries()):
        section.clear()


def clear_memory() -> None:
    """Forget the kernels of this process; the disk keeps them."""
    with _lock:
        _memory.clear()


def store() -> Store:
    """The on-disk cache of this user."""
    return Store(env.CACHE_DIR.get())


def measurements() -> Store:
    """What this user's tunings have measured."""
    return Store(env.CACHE_DIR.get(), "measurements")


def libraries() -> Store:
    """What `sim.twin` compiled from emitted text."""
    from ..sim import twin

    return twin.libraries()


def get_or_build(key: str, build: Callable[[], Artifact]) -> Artifact:
    """The artifact of `key`, from memory, from disk, or from `build`."""
    found = _memory.get(key)
    if found is None:
        found = _from_disk_or_build(key, build) if is_cache_enabled() else build()
    with _lock:
        found = _memory.setdefault(key, found)
        _memory.move_to_end(key)
        while len(_memory) > KEPT:
            _memory.popitem(last=False)
    return found


def _from_disk_or_build(key: str, build: Callable[[], Artifact]) -> Artifact:
    disk = store()
    found = _load(disk, key)
    if found is not None:
        return found
    with disk.building(key):
        found = _load(disk, key)
        if found is None:
            found = build()
            disk.write(key, found.to_files())
    return found


def _load(disk: Store, key: str) -> Artifact | None:
    files = disk.read(key)
    if files is None:
        return None
    try:
        return Artifact.from_files(files)
    except (KeyError, ValueError, TypeError):
        disk.remove(key)
        return None
