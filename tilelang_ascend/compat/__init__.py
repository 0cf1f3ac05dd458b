"""Running scripts that were written for GPU TileLang, as they are.

`session()` makes a process look like the one such a script expects: `import tilelang` gives this package (`aliases`),
CUDA and NPU devices of torch that do not exist are host memory (`host_devices`), libraries that are not installed are
missed only when they are used (`missing`), TVM has the names of the one that is part of tilelang (`tvm_names`), and a GPU `target=` means the
default chip (`targets`), also in processes that `multiprocessing` starts (`workers`). `tilelang-ascend run` is this and a script. Outside a session nothing of it
has any effect.
"""

from __future__ import annotations

import contextlib
from typing import Iterator

__all__ = ["session"]


@contextlib.contextmanager
def session() -> Iterator[None]:
    """Everything a GPU script needs, undone afterwards. Imports neither torch nor tvm; torch is prepared when it is
    imported."""
    from . import aliases, imports, targets, workers

    with aliases.active(), targets.active(), workers.active(), imports.active():
        yield
