"""What GPU scripts take from the TVM that is part of tilelang, where the one installed here calls it something else, or not at all."""

from __future__ import annotations

import contextlib
import importlib
import sys
from typing import Any, Iterator


def _cli_form(target: Any) -> Any:
    """``{"kind": "cuda", "arch": "sm_80"}`` for ``"cuda -arch=sm_80"``, which TVM has given up; HIP is ROCm to it."""
    if not isinstance(target, str) or target.lstrip().startswith("{"):
        return target
    kind, *options = target.split() or [""]
    pairs = dict(o.lstrip("-").partition("=")[::2] for o in options)
    if not pairs and kind != "hip":
        return target
    return {"kind": "rocm" if kind == "hip" else kind, **{k: v for k, v in pairs.items() if v}}


@contextlib.contextmanager
def active() -> Iterator[None]:
    """Put the names into the modules of TVM for the time of a `with` block. TVM must be imported."""
    tvm: Any = sys.modules["tvm"]
    from ..frontend.values import is_expr
    from ..ir import dtype_of, itemsize
    from ..language.math import reinterpret as reinterpret_narrow
    from .aliases import target_of

    target_init, reinterpret_same = tvm.target.Target.__init__, tvm.tirx.reinterpret

    def reinterpret(dtype: Any, value: Any, *args: Any, **kwargs: Any) -> Any:
        if is_expr(value) and itemsize(dtype_of(value)) != itemsize(str(dtype)):
            return reinterpret_narrow(value, dtype)  # narrow integers are computed in int32 here
        return reinterpret_same(dtype, value, *args, **kwargs)

    def from_cli_form(self: Any, target: Any, host: Any = None) -> None:
        target_init(self, _cli_form(target), _cli_form(host))

    names: list[tuple[Any, str, Any]] = [
        (tvm.target.Target, "__init__", from_cli_form),
        (tvm.tirx, "reinterpret", reinterpret),
    ]
    if not hasattr(tvm.tirx, "PrimExpr"):
        names.append((tvm.tirx, "PrimExpr", tvm.ir.Expr))
    if not hasattr(getattr(tvm, "testing", None), "requires_package"):
        names.append((tvm, "testing", importlib.import_module(target_of("tilelang.testing") or "")))
    with contextlib.ExitStack() as undo:
        for owner, name, value in names:
            undo.callback(setattr, owner, name, getattr(owner, name)) if hasattr(owner, name) else undo.callback(delattr, owner, name)
            setattr(owner, name, value)
        yield
