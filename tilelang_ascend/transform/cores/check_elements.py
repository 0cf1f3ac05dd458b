"""check_elements: no scalar reads or writes elements of a dtype the chip has no registers for (float64).

The program does not change; tiles of such dtypes are copied whole.

Requires: Ascend IR. Ensures: every `get_value` and `set_value` exists for the dtype of its element.
"""

from __future__ import annotations

from ...errors import UnsupportedConstruct
from ...ir import Bind, Call, Evaluate, IRModule, op_name, operand_parts, statements
from ...isa import lookup

_ELEMENT_OPS = ("ascend.get_value", "ascend.set_value")


def check_elements(module: IRModule, chip) -> IRModule:
    """Apply. Raises `UnsupportedConstruct` at the user's line."""
    legal = {name: {s[0] for s in lookup(name.removeprefix("ascend.")).signatures[chip.generation]} for name in _ELEMENT_OPS}
    for func in module.functions.values():
        for s in statements(func.body):
            call = s.value if isinstance(s, (Bind, Evaluate)) else None
            if not isinstance(call, Call) or (name := op_name(call)) not in _ELEMENT_OPS:
                continue
            _, dtype = operand_parts(call.args[0])
            if str(dtype) not in legal[name]:
                raise UnsupportedConstruct(
                    f"there is no arithmetic on elements of {dtype} on {chip.name}", at=s.span,
                    hint="convert to float32 on the host, or copy whole tiles; scalars of float64 may be parameters",
                )  # fmt: skip
    return module


__all__ = ["check_elements"]
