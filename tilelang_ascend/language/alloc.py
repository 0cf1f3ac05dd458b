"""Buffers: on-chip tiles, mutable scalars, device workspaces, outputs."""

from __future__ import annotations

from ..errors import InvalidArgument, KernelSyntaxError, NonStaticShape, NotYetAvailable
from ..frontend.annotations import DType, dtype_name, known_to_kernels
from ..frontend.builder import Builder, constant
from ..frontend.keywords import Ignored, other_meaning
from ..frontend.operators import as_integer, cast, plain
from ..frontend.values import ScalarVar, is_expr
from ..ir import BufferStore, IntImm, decl_buffer


def _dims(shape) -> list:
    if not isinstance(shape, (tuple, list)) and not hasattr(shape, "__iter__"):
        shape = (shape,)
    return [plain(d) for d in shape]


def _static(shape, name: str) -> list[int]:
    """On-chip shapes are known at compile time and positive."""
    out = []
    for axis, d in enumerate(_dims(shape)):
        known = constant(d) if is_expr(d) else d
        if isinstance(known, bool) or not isinstance(known, int):
            if known is not None and not is_expr(d):
                raise InvalidArgument(f"dimension {axis} of {name} is {d!r}, an integer is needed")
            raise NonStaticShape(axis=axis, what=name, expr=d)
        if known <= 0:
            raise InvalidArgument(f"dimension {axis} of {name} is {known}, it must be positive")
        if known >> 62:
            raise InvalidArgument(f"dimension {axis} of {name} is {known}: there is no such memory")
        out.append(known)
    if not out:
        raise InvalidArgument(
            f"{name} has no dimensions", hint="a single number is T.alloc_var(dtype), a tile of one element has the shape (1,)"
        )
    return out


def _on_chip(what: str, scope: str, shape, dtype, annotations=None):
    builder = Builder.current(f"T.{what}")
    if not builder.region.inside("grid"):
        raise KernelSyntaxError(f"T.{what} outside T.Kernel", hint="allocate inside `with T.Kernel(...)`")
    name = builder.hinted_name(scope.split(".")[-1])
    return builder.alloc(_static(shape, f"'{name}'"), dtype_name(dtype), scope, name, annotations)


def alloc_shared(shape, dtype="float32", scope: Ignored = "shared.dyn"):
    """A tile in on-chip memory that copies, cube and vector can use; the compiler decides where it lives."""
    return _on_chip("alloc_shared", "shared", shape, dtype)


def alloc_fragment(shape, dtype="float32", scope: Ignored = "local.fragment"):
    """A tile for accumulators and element-wise work; the compiler decides where it lives."""
    return _on_chip("alloc_fragment", "local.fragment", shape, dtype)


def alloc_local(shape, dtype="float32", scope: Ignored = "local"):
    """A small private array; on one Ascend core the same thing as a fragment."""
    return _on_chip("alloc_local", "local.fragment", shape, dtype)


def alloc_global(shape, dtype="float32", scope: Ignored = "global"):
    """A device workspace in GM that lives as long as the launch.

    Raises: NonStaticShape for dimensions of run time; the runtime reserves workspaces by a size that is part of the artifact.
    """
    builder = Builder.current("T.alloc_global")
    dims = [as_integer(d, f"dimension {axis} of a workspace") for axis, d in enumerate(_dims(shape))]
    for axis, d in enumerate(dims):
        if isinstance(d, int) and d <= 0:
            raise InvalidArgument(f"dimension {axis} of a workspace is {d}, it must be positive")
        if not isinstance(d, int) and constant(d) is None:
            raise NonStaticShape(
                axis=axis, what="a workspace", expr=d, hint="declare a tensor parameter of this shape and pass scratch memory"
            )
    return builder.alloc(dims, dtype_name(dtype), "global", builder.hinted_name("workspace"))


def alloc_buffer(shape, dtype="float32", scope=None, annotations: Ignored = None):
    """`alloc_fragment`, `alloc_shared` or `alloc_global` by scope name; without one a tile, and in front of `T.Kernel` a workspace."""
    if scope is None:
        scope = "shared" if Builder.current("T.alloc_buffer").region.inside("grid") else "global"
    kinds = {
        "global": alloc_global,
        "shared": alloc_shared,
        "shared.dyn": alloc_shared,
        "local.fragment": alloc_fragment,
    }
    if scope not in kinds:
        raise InvalidArgument(f"T.alloc_buffer has no scope '{scope}'", hint="use one of: " + ", ".join(kinds))
    return kinds[scope](shape, dtype)


def alloc_var(dtype, *args, scope: Ignored = "local.var", init=None):
    """A mutable scalar: ``x = T.alloc_var("int32", init=0)``; ``x = x + 1`` stores, reading the name loads.

    The initial value may also be the second positional argument; without one it is 0, in every block and iteration that gets to the declaration.
    """
    for a in args:
        init = init if isinstance(a, str) else a  # a string is the scope, which is always local.var
    init = 0 if init is None else init
    builder = Builder.current("T.alloc_var")
    name = builder.hinted_name("var")
    buffer = builder.alloc((1,), dtype_name(dtype), "local.var", name)
    builder.emit(BufferStore(buffer, cast(init, dtype), [IntImm("int32", 0)], span=builder.span()))
    return ScalarVar(name, builder.region, buffer)


def _declare(dtype):
    return (other_meaning("alloc_var") or alloc_var)(dtype)


DType.declare = staticmethod(_declare)


REDUCERS = ("sum", "max", "min", "bitand", "bitor", "bitxor")


def alloc_reducer(shape, dtype="float32", op="sum", replication: Ignored = None):
    """A fragment that parallel iterations accumulate into; see `reducer_update` and `finalize_reducer`."""
    if op not in REDUCERS:
        raise InvalidArgument(f"T.alloc_reducer has no operation '{op}'", hint=f"use one of: {', '.join(REDUCERS)}")
    if op.startswith("bit") and not dtype_name(dtype).startswith(("int", "uint", "bool")):
        raise InvalidArgument(f"a reducer with {op} needs integers, not {dtype_name(dtype)}")
    return _on_chip("alloc_reducer", "local.fragment", shape, dtype, {"tl.reducer": op})


def empty(*shape, dtype="float32"):
    """An output tensor the launch allocates; return it from the kernel. ``T.empty((M, N), dtype)`` or ``T.empty(M, N,
    dtype=…)``.
    """
    dims = list(shape)
    if dims and isinstance(dims[0], (tuple, list)):
        if len(dims) > 1:
            dtype = dims[1]
        dims = list(dims[0])
    elif dims and isinstance(dims[-1], str):
        dtype = dims.pop()
    builder = Builder.current("T.empty")
    if builder.region is not builder.root:
        raise KernelSyntaxError("T.empty inside T.Kernel", hint="declare outputs before the launch; use T.alloc_global inside it")
    name = builder.hinted_name("out")
    buffer = decl_buffer(
        [as_integer(d, f"dimension {axis} of {name}") for axis, d in enumerate(dims)],
        known_to_kernels(dtype_name(dtype)),
        name,
        scope="global",
    )
    builder.outputs.append(buffer)
    return buffer


def _explicit(name: str, memory: str):
    def refuse(*_args, **_kwargs):
        raise NotYetAvailable(name=name, hint=f"write T.alloc_shared or T.alloc_fragment: the compiler places buffers in {memory} itself")

    refuse.__name__, refuse.__doc__ = name, f"Explicit placement in {memory}; not available yet."
    return refuse


_EXPLICIT = {"alloc_ub": "UB", "alloc_L1": "L1", "alloc_L0A": "L0A", "alloc_L0B": "L0B", "alloc_L0C": "L0C"}
globals().update({name: _explicit(name, memory) for name, memory in _EXPLICIT.items()})

NAMES = (
    "alloc_shared", "alloc_fragment", "alloc_local", "alloc_global", "alloc_buffer", "alloc_var", "alloc_reducer",
    "empty", *_EXPLICIT,
)  # fmt: skip
