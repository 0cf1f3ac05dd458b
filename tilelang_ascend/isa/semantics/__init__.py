"""NumPy semantics of every instruction: the definition the C++ machine is compared with.

>>> ub = np.zeros(1024, np.uint8)
>>> ub[:32] = np.arange(8, dtype=np.float32).view(np.uint8)
>>> execute("adds", {"UB": ub}, operands=[("UB", "float32", 64), ("UB", "float32", 0)], args=[1.5, 8])
>>> ub[64:96].view(np.float32)
array([1.5, 2.5, 3.5, 4.5, 5.5, 6.5, 7.5, 8.5], dtype=float32)
"""

from __future__ import annotations

import struct
from typing import Callable, Mapping, Sequence

import numpy as np

from ..base import Intrinsic, Space
from ..table import TABLE
from ..table import lookup as lookup_record
from .elementwise import ELEMENTWISE
from .memory import Execution, Machine, Tensor, decode_operand, encode_operand
from .select import SELECTION
from .shuffle import SHUFFLE
from .transfer import TRANSFER

__all__ = ["Execution", "Machine", "decode_operand", "encode_operand", "execute", "execute_stream", "lookup"]

_BY_NAME: dict[str, Callable[[Execution], object]] = {**ELEMENTWISE, **SELECTION, **SHUFFLE, **TRANSFER}
CORE_QUERIES = ("get_block_idx", "get_sub_block_idx", "get_block_num")
"""Instructions whose value depends on the core they run on, not on memory."""


def lookup(name: str) -> Callable[[Execution], object]:
    """The semantics of a record; the mask form shares its function with the count form unless it has its own."""
    if name in CORE_QUERIES:
        return lambda x: 0
    return _BY_NAME[name] if name in _BY_NAME else _BY_NAME[name.removesuffix("_mask")]


def _space(key) -> Space:
    return Space[key] if isinstance(key, str) else Space(key)


def execute(
    name: str,
    memories: Mapping,
    operands: Sequence = (),
    args: Sequence = (),
    attrs: Mapping[str, object] | None = None,
    machine: Machine | None = None,
):
    """Execute one instruction on `memories` (changed in place) and return its value, if it has one.

    Args:
        name: record name, with or without ``ascend.``.
        memories: space (name, code or `Space`) -> uint8 array. GM offsets are byte offsets into the GM array.
        operands: one operand word, or (space, dtype, byte offset), for each operand.
        args: scalar arguments in table order; integers, or the float values themselves.
        attrs: attribute values (names) or codes.
        machine: keeps the atomic mode from call to call; None = a fresh one on `memories`.

    Raises:
        IndexError: an access leaves its memory.
    """
    intrin = lookup_record(name)
    assert len(operands) == len(intrin.operands) and len(args) == len(intrin.args), f"{name}: arity"
    machine = machine or Machine({_space(k): v for k, v in memories.items()})
    tensors = {}
    for operand, given in zip(intrin.operands, operands):
        space, dtype, offset = decode_operand(given) if isinstance(given, (int, np.integer)) else given
        space = _space(space)
        tensors[operand.name] = Tensor(operand.name, machine.memories[space], space, dtype, int(offset))
    values = dict(zip((a.name for a in intrin.args), args))
    names = {key: _attr(intrin, key, value) for key, value in (attrs or {}).items()}
    assert set(names) == set(intrin.attrs), f"{name}: attributes {sorted(intrin.attrs)} are needed"
    return lookup(intrin.name)(Execution(intrin, machine, tensors, values, names))


def _attr(intrin: Intrinsic, name: str, value) -> str:
    return intrin.attrs[name][value] if isinstance(value, int) and intrin.attrs[name] else str(value)


def execute_stream(op: int, words: Sequence[int], machine: Machine):
    """Execute an instruction in its stream form: attr codes, operand words, arguments (docs/ir.md section 4)."""
    intrin = list(TABLE.values())[op]
    n_attrs, n_operands = len(intrin.attrs), len(intrin.operands)
    attrs = {name: int(code) for name, code in zip(intrin.attrs, words)}
    operands = [int(w) for w in words[n_attrs : n_attrs + n_operands]]
    dtype = decode_operand(operands[-1])[1] if operands else "int32"
    is_float = dtype.startswith(("float", "bfloat"))
    args = [
        _float_of(word) if arg.kind == "float" and is_float else int(word) for arg, word in zip(intrin.args, words[n_attrs + n_operands :])
    ]
    return execute(intrin.name, machine.memories, operands, args, attrs, machine)


def _float_of(word: int) -> float:
    return struct.unpack("<d", struct.pack("<Q", word & (2**64 - 1)))[0]
