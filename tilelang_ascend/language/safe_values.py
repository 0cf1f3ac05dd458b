"""`T.annotate_safe_value`: what elements outside of a tensor read as."""

from __future__ import annotations

from ..errors import InvalidArgument
from ..frontend.builder import Builder, constant
from ..frontend.operators import plain
from ..frontend.values import is_buffer
from ..ir import scope_of


def annotate_safe_value(safe_value_map: dict) -> None:
    """``T.annotate_safe_value({A: -1.0})``: copies of parts outside of A read -1 there instead of 0.

    Keys are tensor arguments of the kernel, values constants. Applies to the whole kernel.
    """
    builder = Builder.current("T.annotate_safe_value")
    if not isinstance(safe_value_map, dict):
        raise InvalidArgument("T.annotate_safe_value needs a dictionary {tensor: value}")
    for tensor, value in safe_value_map.items():
        if not is_buffer(tensor) or scope_of(tensor) not in ("global", ""):
            raise InvalidArgument(
                f"T.annotate_safe_value of {tensor!r}, which is no tensor argument", hint="only copies from global memory have an outside"
            )
        number = constant(plain(value))
        if number is None:
            raise InvalidArgument(f"the safe value of '{tensor.name}' must be a constant, got {value!r}")
        builder.safe_values.append((tensor, number))


NAMES = ("annotate_safe_value",)
