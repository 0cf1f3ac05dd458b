"""Memory a kernel asks for, its dimensions, its block."""

from __future__ import annotations

import sys

from ..errors import InvalidArgument, KernelSyntaxError, NonStaticShape
from ..language.alloc import REDUCERS
from ..language.kernel import Kernel
from .memory import Tile, Variable, allocate
from .state import current, here, user_frame
from .values import Fault, Scalar, dtype_of, scalar, size_of


def _static(shape, what: str) -> tuple[int, ...]:
    dims = list(shape) if hasattr(shape, "__iter__") else [shape]
    out = []
    for axis, d in enumerate(dims):
        x = scalar(d)
        if x.dtype.startswith(("float", "bfloat")) or x.dtype == "bool":
            raise InvalidArgument(f"dimension {axis} of {what} is {d!r}, an integer is needed", at=here())
        if not isinstance(d, int) and not x.literal:
            raise NonStaticShape(axis=axis, what=what, expr=d, at=here())
        if x.get() <= 0:
            raise InvalidArgument(f"dimension {axis} of {what} is {d}, it must be positive", at=here())
        out.append(int(x.value))
    return tuple(out)


def _assigned_name(default: str) -> str:
    """The name the user's statement assigns to, as far as the bytecode shows it directly."""
    import dis

    frame = user_frame()
    if frame is None:
        return default
    try:
        following = _FOLLOWING.get((frame.f_code, frame.f_lasti))
        if following is None:
            code = [i for i in dis.get_instructions(frame.f_code) if i.offset > frame.f_lasti and i.opname not in _PASSED]
            following = code[0].argval if code and code[0].opname.startswith("STORE_") else default
            _FOLLOWING[(frame.f_code, frame.f_lasti)] = following
        return str(following)
    except Exception:  # the name only makes messages nicer
        return default


_FOLLOWING: dict = {}
_PASSED = ("CACHE", "EXTENDED_ARG", "PRECALL", "CALL")  # the call itself, and the one around it in a function of `names`


def _on_chip(what: str):
    def alloc(shape, dtype="float32", scope=None, **_hints) -> Tile:
        session = current()
        if session.grid is None:
            raise KernelSyntaxError(f"T.{what} outside T.Kernel", at=here(), hint="allocate inside `with T.Kernel(...)`")
        name = _assigned_name(what.removeprefix("alloc_"))
        return allocate(_static(shape, f"'{name}'"), dtype_of(dtype), name, "chip")

    return alloc


alloc_shared, alloc_fragment, alloc_local = _on_chip("alloc_shared"), _on_chip("alloc_fragment"), _on_chip("alloc_local")


def alloc_reducer(shape, dtype="float32", op="sum", replication=None) -> Tile:
    """`T.alloc_reducer`."""
    if op not in REDUCERS:
        raise InvalidArgument(f"T.alloc_reducer has no operation '{op}'", at=here(), hint=f"use one of: {', '.join(REDUCERS)}")
    tile = alloc_fragment(shape, dtype)
    tile.reducer = op
    return tile


def alloc_var(dtype, *args, scope="local.var", init=None) -> Variable:
    """`T.alloc_var`."""
    for a in args:
        init = init if isinstance(a, str) else a
    variable = Variable(allocate((1,), dtype_of(dtype), _assigned_name("var"), "chip"))
    if init is not None:
        variable.store(init)
    return variable


def _in_gm(shape, dtype, name: str, output: bool) -> Tile:
    """Memory outside of a launch is the same in every pass over the function."""
    session = current()
    dims = list(shape) if hasattr(shape, "__iter__") else [shape]
    sizes = tuple(map(size_of, dims))
    if session.grid is None:
        if session.allocated < len(session.globals):
            tile = session.globals[session.allocated]
            session.allocated += 1
            return tile
        session.allocated += 1
    tile = allocate(sizes, dtype_of(dtype), name, "global", [d if isinstance(d, int) else scalar(d) for d in dims], output)
    if session.grid is None:
        session.globals.append(tile)
    return tile


def alloc_global(shape, dtype="float32", scope="global") -> Tile:
    """`T.alloc_global`: in a launch, each block has its own."""
    return _in_gm(shape, dtype, _assigned_name("workspace"), False)


def alloc_buffer(shape, dtype="float32", scope=None, annotations=None) -> Tile:
    """`T.alloc_buffer`."""
    scope = scope or ("global" if current().grid is None else "shared")
    kinds = {"global": alloc_global, "shared": alloc_shared, "shared.dyn": alloc_shared, "local.fragment": alloc_fragment}
    if scope not in kinds:
        raise InvalidArgument(f"T.alloc_buffer has no scope '{scope}'", at=here(), hint="use one of: " + ", ".join(kinds))
    return kinds[scope](shape, dtype)


def empty(*shape, dtype="float32") -> Tile:
    """`T.empty`."""
    dims = list(shape)
    if dims and isinstance(dims[0], (tuple, list)):
        if len(dims) > 1:
            dtype = dims[1]
        dims = list(dims[0])
    elif dims and isinstance(dims[-1], str):
        dtype = dims.pop()
    if current().grid is not None:
        raise KernelSyntaxError(
            "T.empty inside T.Kernel", at=here(), hint="declare outputs before the launch; use T.alloc_global inside it"
        )
    return _in_gm(dims, dtype, _assigned_name("out"), True)


def annotate_safe_value(safe_value_map: dict) -> None:
    """`T.annotate_safe_value`."""
    for tensor, value in safe_value_map.items():
        if not isinstance(tensor, Tile) or tensor.scope != "global":
            raise InvalidArgument(f"T.annotate_safe_value of {tensor!r}, which is no tensor argument", at=here())
        current().safe_values[id(tensor)] = scalar(value).get()


# -- dimensions


def names_in(text: str) -> list[str]:
    """`"M, N"` as a list."""
    return [n.strip() for n in text.replace(",", " ").split()]


def dynamic(name: str, dtype="int32"):
    """`T.dynamic` inside of a kernel."""
    session, out = current(), []
    for n in names_in(name):
        if n not in session.symbols:
            raise InvalidArgument(f"the dimension '{n}' is in no tensor of this kernel", at=here())
        out.append(session.symbols[n])
    return out[0] if len(out) == 1 else tuple(out)


def const(name: str, dtype="int32"):
    """`T.const`: Python integers."""
    session, out = current(), []
    for n in names_in(name):
        if session.constants is None or n not in session.constants:
            raise InvalidArgument(
                f"the constant '{n}' cannot be read from the arguments",
                at=here(),
                hint=f"use {n} directly as a dimension of a tensor argument, or pass {n}=… by keyword",
            )
        out.append(session.constants[n])
    return out[0] if len(out) == 1 else tuple(out)


# -- the launch


class NextBlock(BaseException):
    """The pass over the function has done its block."""


class _Skip(BaseException):
    """Leaves the body of a launch that is not this pass's."""


class BlockIndex(Scalar):
    """The index of a one-dimensional grid: ``as bx`` and ``as (bx,)`` both work."""

    __slots__ = ("more",)

    def __init__(self, value, more=()):
        super().__init__(value, "int32")
        self.more = more

    def __iter__(self):
        return iter((Scalar(self.value, "int32"), *self.more))


class Launch(Kernel):
    """`T.Kernel` while a kernel is interpreted; `Kernel.__init__` turns into this class."""

    def open(self, blocks, is_npu) -> None:
        """What `__init__` does."""
        if len(blocks) == 1 and isinstance(blocks[0], (tuple, list)):
            blocks = tuple(blocks[0])
        blocks = blocks or (1,)
        if len(blocks) > 3:
            raise InvalidArgument(f"T.Kernel takes up to 3 grid extents, got {len(blocks)}", at=here())
        self.extents = list(blocks)
        self.sizes = tuple(int(scalar(b, "a grid extent").__index__()) for b in blocks)
        if any(n < 0 for n in self.sizes):
            raise InvalidArgument(f"a grid extent is {min(self.sizes)}", at=here())
        self.is_npu = is_npu

    def __enter__(self):
        session = current()
        if session.grid is not None:
            raise KernelSyntaxError("T.Kernel inside T.Kernel", at=here(), hint="give one T.Kernel up to three extents")
        mine = session.kernels
        session.kernels += 1
        self.skipped = mine < session.launch
        if self.skipped:
            _skip_body(self)
            return self._values((0,) * len(self.sizes))
        if mine > session.launch:
            raise NextBlock
        session.extents = self.sizes
        if session.block is None:  # the grid was not known before
            raise NextBlock
        session.parallel = 0
        index = session.block
        values = [Scalar(i, "int32") for i in index]
        session.grid = (values, self.extents)
        return self._values(index)

    def _values(self, index):
        more = ()
        if self.is_npu:
            fault = Fault("the compiler decides which vector core runs which rows", "write the kernel for whole tiles")
            more = (Scalar(0, "int32", fault=fault),)
        if len(index) == 1:
            return BlockIndex(index[0], more)
        return [*(Scalar(i, "int32") for i in index), *more]

    def __exit__(self, kind, error, traceback):
        if self.skipped:
            sys.settrace(self.tracing)
            self.frame.f_trace = self.frame_trace
            return kind is _Skip
        session = current()
        session.grid = None
        if kind is None and not session.last:
            raise NextBlock
        return None


def _skip_body(launch: Launch) -> None:
    """Python has no way to leave out the body of a `with`: its first line raises, and `__exit__` takes that back."""
    frame = user_frame()
    launch.frame, launch.frame_trace, launch.tracing = frame, frame.f_trace, sys.gettrace()

    def leave(_frame, _event, _arg):
        raise _Skip

    sys.settrace(lambda *_: None)
    frame.f_trace = leave


def open_kernel(self, *blocks, threads=None, prelude=None, cluster_dims=None, is_cpu=False, is_npu=False, pipeline=False) -> None:
    """`T.Kernel.__init__`."""
    self.__class__ = Launch
    self.open(blocks, is_npu)


def _grid(what: str):
    session = current()
    if session.grid is None:
        raise KernelSyntaxError(f"{what} outside T.Kernel", at=here(), hint="call it inside `with T.Kernel(...)`")
    return session.grid


def _pick(values, dim: int):
    if not 0 <= dim < len(values):
        raise InvalidArgument(f"the grid has {len(values)} dimensions, there is no dimension {dim}", at=here())
    return values[dim]


MEANINGS = {
    "alloc_shared": alloc_shared, "alloc_fragment": alloc_fragment, "alloc_local": alloc_local, "alloc_reducer": alloc_reducer,
    "alloc_var": alloc_var, "alloc_global": alloc_global, "alloc_buffer": alloc_buffer, "empty": empty,
    "annotate_safe_value": annotate_safe_value, "dynamic": dynamic, "symbolic": dynamic, "const": const, "Kernel": open_kernel,
    "get_block_bindings": lambda: list(_grid("T.get_block_bindings")[0]),
    "get_block_binding": lambda dim=0: _pick(_grid("T.get_block_binding")[0], dim),
    "get_block_extents": lambda: list(_grid("T.get_block_extents")[1]),
    "get_block_extent": lambda dim=0: _pick(_grid("T.get_block_extent")[1], dim),
}  # fmt: skip
