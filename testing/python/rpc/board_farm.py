"""A board for servers of a farm: a stand-in of CANN, which their processes find, and a machine for its driver to run kernels on."""

from __future__ import annotations

import sys
from pathlib import Path

NPU_TESTS = Path(__file__).resolve().parents[1] / "npu"

_START = """
import importlib.machinery, sys

sys.modules["torch"] = None  # servers start faster without


class Driver:
    \"\"\"Gives the driver a machine as soon as a process looks for it, and not before: most processes never do.\"\"\"

    NAME = "tilelang_ascend.runtime.npu.acl"

    def find_spec(self, name, path, target=None):
        if name != self.NAME:
            return None
        sys.meta_path.remove(self)
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        load = spec.loader.exec_module

        def exec_module(module):
            load(module)
            start = module.Acl.__init__

            def begin(acl, cann):
                sys.path.insert(0, {tests!r})
                import stand_in_cann

                stand_in_cann.adopt(cann.home)
                start(acl, cann)

            module.Acl.__init__ = begin

        spec.loader.exec_module = exec_module
        return spec


sys.meta_path.insert(0, Driver())
"""


def make_board(folder: Path) -> Path:
    """A home of CANN 9 with one Ascend910B3, in a new folder that also has the `sitecustomize` for servers with it."""
    if str(NPU_TESTS) not in sys.path:
        sys.path.insert(0, str(NPU_TESTS))
    from stand_in_cann import make_home

    home = make_home(folder / "cann", 9).path
    (folder / "sitecustomize.py").write_text(_START.format(tests=str(NPU_TESTS)))
    return home
