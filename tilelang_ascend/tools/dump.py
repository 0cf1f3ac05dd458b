"""IR as text that reads back: the numbered dumps of `inspect`, and the way to load one again."""

from __future__ import annotations

import functools
import importlib
from pathlib import Path
from typing import Any, Iterable


def dump_stages(stages: Iterable[tuple[str, Any]], folder: Path) -> list[Path]:
    """Write one `NN_<pass>.py` for each (pass name, IR after it), `NNN_launch_2_<pass>.py` where a kernel has several launches. Returns the
    paths."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    stages = list(stages)
    width = max(2, len(str(len(stages) - 1)))
    for number, (name, node) in enumerate(stages):
        path = folder / f"{number:0{width}d}_{_launch(node)}{name}.py"
        path.write_text(f"# IR after {name}\n{node.script(show_meta=False)}", encoding="utf-8")
        paths.append(path)
    return paths


def _launch(node: Any) -> str:
    """Which of several launches a function, or the functions of a module, belong to."""
    from .. import ir
    from ..ir.functions import LAUNCH

    numbers = {int(f.attrs[LAUNCH]) for f in (node.functions.values() if isinstance(node, ir.IRModule) else [node]) if LAUNCH in f.attrs}
    return f"launch_{numbers.pop() + 1}_" if len(numbers) == 1 else ""


def parse(text: str) -> Any:
    """The `PrimFunc` or `IRModule` of a dump. Spans are not part of the text."""
    from .. import ir

    _register_namespaces()
    node = ir.parse_script(text)
    if isinstance(node, ir.PrimFunc):
        return _plain_annotations(node)
    return ir.IRModule({name: _plain_annotations(f) for name, f in node.functions.items()})


def _plain_annotations(func):
    """The parser reads integer annotations of allocations as IR constants; passes write Python integers."""
    from .. import ir

    class Plain(ir.StmtMutator):
        def visit_AllocBuffer(self, s):
            notes = {key: ir.const_int(value) if ir.const_int(value) is not None else value for key, value in s.annotations.items()}
            return ir.AllocBuffer(s.buffer, annotations=notes, span=s.span) if notes else s

    return func.with_body(Plain()(func.body))


class _Namespace:
    """`T.tl.<op>(…)` and `T.ascend.<op>(…)` as the printer writes them."""

    def __init__(self, prefix: str):
        self._prefix = prefix

    def __getattr__(self, name: str):
        if name.startswith("_"):
            raise AttributeError(name)

        def call(*args):
            from .. import ir

            return ir.call(f"{self._prefix}.{name}", args, dtype=self._result(name, args))

        return call

    def _result(self, name: str, args: tuple) -> str:
        """dtype of a call; the printer leaves it out. Values of any dtype come from memory and have its dtype."""
        if self._prefix != "ascend":
            return "void"
        from .. import ir, isa

        returns = isa.lookup(name).returns
        if returns is None:
            return "void"
        return returns if returns in isa.DTYPE_CODES else ir.dtype_of(args[0])


@functools.lru_cache(maxsize=1)
def _register_namespaces() -> None:
    builder = importlib.import_module("tvm.tirx.script.builder.ir")
    for prefix in ("tl", "ascend"):
        builder.register_script_namespace(prefix, _Namespace(prefix))
