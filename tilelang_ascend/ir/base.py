"""The one door to tvm: every other module of the package imports tvm names from `tilelang_ascend.ir`.

Names of the IR classes move between TVM releases; here is the only place that has to follow.
"""

from __future__ import annotations

import keyword as _keyword

import tvm
import tvm_ffi
from tvm import ir as _ir
from tvm import tirx
from tvm.ir import Call, IRModule, Op, Range, SourceName, Span, StringImm, TensorLoad, TensorRegion, Var
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

structural_equal = tvm_ffi.structural_equal

__all__ = [name for name in dir() if not name.startswith("_") and name not in ("annotations",)]

_OPAQUE = 3  # CallEffectKind.Opaque; the raw int, because PrimFunc() rejects the enum object


def register_op(name: str) -> Op:
    """Create (once) the opaque operator `name`, e.g. ``tl.copy`` or ``ascend.add``."""
    _ir.register_op_attr(name, "TCallEffectKind", _OPAQUE)
    # `T.ascend.and(...)` would not parse: keywords print with an underscore behind them.
    printed = name + "_" if _keyword.iskeyword(name.rpartition(".")[2]) else name
    _ir.register_op_attr(name, "TScriptPrinterName", printed, 20)
    return Op.get(name)


__all__ += ["register_op"]
