"""C++ identifiers from the user's names."""

from __future__ import annotations

import re

from .scalars import HELPERS

_CPP_WORDS = """
alignas alignof and and_eq asm auto bitand bitor bool break case catch char class compl const constexpr
const_cast continue decltype default delete do double dynamic_cast else enum explicit export extern false
float for friend goto if inline int long mutable namespace new noexcept not not_eq nullptr operator or or_eq
private protected public register reinterpret_cast return short signed sizeof static static_assert static_cast
struct switch template this thread_local throw true try typedef typeid typename union unsigned using virtual
void volatile wchar_t while xor xor_eq main
"""
_FIXED_WORDS = """
AscendC half bfloat16_t fp8_e4m3fn_t fp8_e5m2_t GM_ADDR
int8_t uint8_t int16_t uint16_t int32_t uint32_t int64_t uint64_t size_t
pipe call workspace workspace_bytes block_dim stream ffts_addr ffts_len
"""
# The table's templates open blocks of their own with these variables; a user's variable in an argument would be hidden.
_TEMPLATE_WORDS = "mask p kept listd lists"

_MACRO_WORDS = """
NULL EOF NAN INFINITY CHAR_BIT RAND_MAX BUFSIZ BYTE_ORDER BIG_ENDIAN LITTLE_ENDIAN errno stdin stdout stderr assert
ASCEND_IS_AIC ASCEND_IS_AIV ASCEND_IS_NOT_AIC ASCEND_IS_NOT_AIV KERNEL_TASK_TYPE_DEFAULT ICPU_RUN_KF ASCENDC_CPU_DEBUG
"""
# Families of macros of the standard headers: limits, and constants of <cmath>.
_MACROS = re.compile(
    r"(U?(INT|LONG|LLONG|SHRT|CHAR)|SCHAR|U?INT(8|16|32|64|PTR|MAX)|SIZE|PTRDIFF|WCHAR)_(MIN|MAX)|(FLT|L?DBL)_[A-Z0-9_]+|HUGE_VAL[FL]?"
    r"|M_(E|LOG2E|LOG10E|LN2|LN10|PI|PI_2|PI_4|1_PI|2_PI|2_SQRTPI|SQRT2|SQRT1_2)f?"
)

RESERVED = frozenset((_CPP_WORDS + _FIXED_WORDS + _MACRO_WORDS + _TEMPLATE_WORDS).split()) | frozenset(HELPERS)
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
        base = "v_" + base if _MACROS.fullmatch(base) else base
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
