"""CUDA and NPU devices of torch that do not exist here, as host memory.

Tensor methods and factories are redirected by torch's own function modes (`mode`); what torch does not route through
them (`torch.cuda.*`, generators, autocast) is replaced for the time of the session (`replacements`). A family of
devices that really is there is left alone.
"""

from __future__ import annotations

import contextlib
from typing import Iterator

FAMILIES = ("cuda", "npu")
"""Device types a GPU script may name."""


def absent_families() -> frozenset[str]:
    """The families without a device on this machine. torch must be imported."""
    import torch

    found = set()
    for family in FAMILIES:
        module = getattr(torch, family, None)
        if module is not None and module.is_available():
            found.add(family)
    return frozenset(FAMILIES) - found


@contextlib.contextmanager
def active() -> Iterator[None]:
    """Host memory stands for absent devices inside the `with` block; nothing happens when all of them are there. An absent
    default device ends with the block."""
    absent = absent_families()
    if not absent:
        yield
        return
    from .mode import HostDevices
    from .replacements import replaced

    mode = HostDevices(absent)
    with replaced(mode):
        try:
            with mode:
                yield
        finally:
            mode.forget_default_device()
