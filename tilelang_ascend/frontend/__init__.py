"""Front end: Python functions in, Tile IR out.

=========================  ===================================================================
`prim_func`, `macro`       the decorators of the language
`trace(fn, args, kwargs)`  lazy style: run `fn`, get its `PrimFunc`
`is_eager(fn)`             which style `fn` is written in, from its source alone
`EagerTemplate(fn)`        eager style: ``.bind(args, kwargs) -> Bound(func, inputs, key)``
=========================  ===================================================================

How it works: `source` finds the text of a function, `liveness` which names must survive a statement, `rewriter` turns
every construct that can meet a run-time value into a call to `ops`, and running the result once makes `builder`
collect Tile IR.
"""

from .annotations import Buffer, DType, Ref, StridedTensor, Tensor, TensorSpec
from .builder import Builder
from .eager import Bound, EagerTemplate, is_eager, scalar_parameters
from .foreign import install as _install
from .tracing import inline, macro, prim_func, trace

_install()

__all__ = [
    "Bound",
    "Buffer",
    "Builder",
    "DType",
    "EagerTemplate",
    "Ref",
    "StridedTensor",
    "Tensor",
    "TensorSpec",
    "inline",
    "is_eager",
    "macro",
    "prim_func",
    "scalar_parameters",
    "trace",
]
