"""The one door to tvm: every other module of the package imports tvm names from `tilelang_ascend.ir`.

Names of the IR classes move between TVM releases; here is the only place that has to follow.
"""

from __future__ import annotations

import keyword as _keyword
import os as _os

import tvm
import tvm_ffi
from tvm import ir as _ir
from tvm import tirx
from tvm.ir import Call, IRModule, Op, PrimType, Range, SourceName, Span, StringImm, TensorLoad, TensorRegion, Var
from tvm.tirx import (
    AllocBuffer,
    AssertStmt,
    Bind,
    Break,
    BufferLoad,
    BufferRegion,
    BufferStore,
    Cast,
    Continue,
    Evaluate,
    FloatImm,
    For,
    ForKind,
    IfThenElse,
    IntImm,
    PrimFunc,
    SeqStmt,
    Stmt,
    While,
    decl_buffer,
    is_buffer_var,
)
from tvm.tirx.expr import EqualOp, NotEqualOp

_item, _size = tvm_ffi.get_global_func("ffi.ArrayGetItem"), tvm_ffi.get_global_func("ffi.ArraySize")


def elements(array) -> list:
    """What an array of tvm holds: `list(array)` in a third of the time, and in less where it was asked for before: passes look at the same
    arrays, which nobody can change, again and again."""
    address = array.__chandle__()
    known = _elements.get(address)
    if known is None:
        if len(_elements) >= _MOST_ARRAYS:
            _elements.clear()
        known = _elements[address] = (tuple([_item(array, i) for i in range(_size(array))]), array)
    return list(known[0])


_MOST_ARRAYS = 5000
_elements: dict[int, tuple] = {}
"""Address of an array -> what it holds, and the array itself: nothing else can have the address meanwhile."""


structural_equal, structural_hash = tvm_ffi.structural_equal, tvm_ffi.structural_hash
Expr = tvm.ir.Expr
save_json = tvm.ir.save_json
# What is loaded was saved by the same version: tvm would first look for older ones, in Python, for longer than loading takes.
load_json = tvm_ffi.serialization.from_json_graph_str
parse_script = tvm.script.from_source
LIBRARY_ROOTS = tuple(_os.path.dirname(_os.path.abspath(library.__file__)) for library in (tvm, tvm_ffi))
"""Folders of tvm: code in them is never the user's."""


_OPAQUE = 3  # CallEffectKind.Opaque; the raw int, because PrimFunc() rejects the enum object


def register_op(name: str) -> Op:
    """Create (once) the opaque operator `name`, e.g. ``tl.copy`` or ``ascend.add``."""
    _ir.register_op_attr(name, "TCallEffectKind", _OPAQUE)
    # `T.ascend.and(...)` would not parse: keywords print with an underscore behind them.
    printed = name + "_" if _keyword.iskeyword(name.rpartition(".")[2]) else name
    _ir.register_op_attr(name, "TScriptPrinterName", printed, 20)
    return Op.get(name)


__all__ = [
    "AllocBuffer", "AssertStmt", "Bind", "Break", "BufferLoad", "BufferRegion", "BufferStore", "Call", "Cast",
    "Continue", "EqualOp", "Evaluate", "Expr", "FloatImm", "For", "ForKind", "IRModule", "IfThenElse", "IntImm", "LIBRARY_ROOTS",
    "NotEqualOp", "Op", "PrimFunc", "PrimType", "Range", "SeqStmt", "SourceName", "Span", "Stmt", "StringImm", "TensorLoad", "TensorRegion",
    "Var", "While", "decl_buffer", "elements", "is_buffer_var", "load_json", "parse_script", "register_op", "save_json",
    "structural_equal", "structural_hash", "tirx",
]  # fmt: skip
