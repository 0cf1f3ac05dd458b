"""Names of dimensions: `T.dynamic` (known at launch) and `T.const` (read from the arguments of an eager kernel)."""

from __future__ import annotations

from ..errors import InvalidArgument
from ..frontend.annotations import PointerSpec, dtype_name
from ..frontend.builder import Builder
from ..frontend.locations import user_location
from ..ir import Var


def _integer_dtype(dtype) -> str:
    name = dtype_name(dtype)
    if not name.startswith(("int", "uint")):
        raise InvalidArgument(f"a dimension of dtype {name}", hint="dimensions are integers: int32 or int64", at=user_location())
    return name


def _names(text: str) -> list[str]:
    if not isinstance(text, str):
        raise InvalidArgument(f"{text!r} is not a name", hint='write T.dynamic("M")', at=user_location())
    names = [n.strip() for n in text.replace(",", " ").split()]
    if not names or not all(n.isidentifier() for n in names):
        raise InvalidArgument(f"{text!r} is not a list of names", hint='write T.dynamic("M, N")', at=user_location())
    return names


def dynamic(name: str, dtype="int32"):
    """``M, N = T.dynamic("M, N")``: dimensions bound to the tensors' shapes at each launch."""
    out = [Var(n, _integer_dtype(dtype)) for n in _names(name)]
    if (builder := Builder.active()) is not None and builder.eager is not None:
        builder.eager.made_dynamic(out)
    return out[0] if len(out) == 1 else tuple(out)


symbolic = dynamic


def const(name: str, dtype="int32"):
    """``M, N = T.const("M, N")``: integers read from the arguments of an eager kernel; each value is compiled once."""
    builder = Builder.current("T.const")
    if builder.eager is None:
        raise InvalidArgument(
            "T.const in a kernel that is not eager",
            hint="take the constant from the enclosing function, or use T.dynamic",
        )
    out = [builder.eager.const(n, dtype_name(dtype)) for n in _names(name)]
    return out[0] if len(out) == 1 else tuple(out)


def ptr(dtype=None, storage_scope: str = "global", *, is_size_var: bool = False) -> PointerSpec:
    """``A: T.ptr``: a tensor argument that `T.make_tensor` gives a shape and a dtype."""
    return PointerSpec(None if dtype is None else dtype_name(dtype))


setattr(ptr, "_tl_annotation", True)

NAMES = ("dynamic", "symbolic", "const", "ptr")
