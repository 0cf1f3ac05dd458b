"""C++ identifiers from the user's names."""

from __future__ import annotations

import re

_CPP_WORDS = """
alignas alignof and and_eq asm auto bitand bitor bool break case catch char class compl const constexpr
const_cast continue decltype default delete do double dynamic_cast else enum explicit export extern false
float for friend goto if inline int long mutable namespace new noexcept not not_eq nullptr operator or or_eq
private protected public register reinterpret_cast return short signed sizeof static static_assert static_cast
struct switch template this thread_local throw true try typedef typeid typename union unsigned using virtual
void volatile wchar_t while xor xor_eq main
"""
_FIXED_WORDS = """
AscendC half bfloat16_t fp8_e4m3fn_t fp8_e5m2_t GM_ADDR FloorDiv FloorMod Min Max BitCast
pipe call workspace workspace_bytes block_dim stream ffts_addr ffts_len
"""
# The table's templates open blocks of their own with these variables; a user's variable in an argument would be hidden.
_TEMPLATE_WORDS = "mask p kept listd lists"

RESERVED = frozenset((_CPP_WORDS + _FIXED_WORDS + _TEMPLATE_WORDS).split())
"""Names the emitted text cannot give to the user's variables."""


def identifier(hint: str) -> str:
    """`hint` as a legal C++ identifier (not necessarily free). Double underscores are reserved in C++."""
    name = re.sub(r"\W", "_", hint) or "v"
    name = re.sub(r"__+", "_", name).strip("_") or "v"
    return "v" + name if name[0].isdigit() else name


class Names:
    """Hands out one identifier per variable, keeping the user's name where it is free."""

    def __init__(self):
        self._taken: set[str] = set(RESERVED)
        self._names: dict = {}

    def alias(self, var, other) -> None:
        """Give `other` the name of `var`."""
        self._names[other] = self.of(var)

    def fresh(self, hint: str) -> str:
        """A new identifier close to `hint`."""
        base = identifier(hint)
        name, count = base, 0
        while name in self._taken:
            count += 1
            name = f"{base}_{count}"
        self._taken.add(name)
        return name

    def of(self, var) -> str:
        """The identifier of a variable; made on first use."""
        if var not in self._names:
            self._names[var] = self.fresh(var.name)
        return self._names[var]
