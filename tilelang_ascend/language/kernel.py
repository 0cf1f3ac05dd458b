"""`T.Kernel`: the launch grid."""

from __future__ import annotations

import math
from functools import partial

from ..errors import InvalidArgument, KernelSyntaxError, UnsupportedConstruct
from ..frontend.builder import Builder, index_var
from ..frontend.grid_barriers import barrier
from ..frontend.keywords import Ignored, checked
from ..frontend.locations import span_of, user_location
from ..frontend.operators import as_integer, loop_extent, plain
from ..frontend.values import StopProbe, Unavailable
from ..ir import For, ForKind, IntImm, const_int, seq

_MAX_GRID_DIMS = 3


_INSTEAD = {"branch": "put the condition inside of `with T.Kernel(...)`"}
"""Kind of a region -> what to write where it holds a launch."""

_checked_launch = partial(checked, name="T.Kernel")


class Kernel:
    """``with T.Kernel(gx, gy, gz, threads=128) as (bx, by, bz):`` — the body runs once per block of the grid.

    Args:
        blocks: up to three extents, integers or run-time expressions; one block without any.
        threads: a hint of GPU kernels, recorded and ignored.
        is_npu: NPU spelling. The block binds two names, ``as (cid, vid)``; which vector core runs a row is decided by
            the compiler, so `vid` cannot be read. prelude, cluster_dims, is_cpu, pipeline: accepted and ignored.
    """

    @_checked_launch
    def __init__(
        self,
        *blocks,
        threads=None,
        prelude: Ignored = None,
        cluster_dims: Ignored = None,
        is_cpu: Ignored = False,
        is_npu=False,
        pipeline: Ignored = False,
    ):
        if len(blocks) == 1 and isinstance(blocks[0], (tuple, list)):
            blocks = tuple(blocks[0])
        blocks = blocks or (1,)
        if len(blocks) > _MAX_GRID_DIMS:
            raise InvalidArgument(f"T.Kernel takes up to {_MAX_GRID_DIMS} grid extents, got {len(blocks)}")
        extents = [as_integer(b, "a grid extent") for b in blocks]
        known = [e for e in extents if isinstance(e, int)]
        for n in known:
            if n < 0:
                raise InvalidArgument(f"a grid extent is {n}")
        if (total := math.prod(known)) >= 2**31:
            raise InvalidArgument(
                f"the grid has {' x '.join(map(str, known))} = {total} blocks, at most {2**31 - 1} can be counted",
                hint="give each block more work: a larger tile, or a loop over several",
            )
        self.extents = [loop_extent(e) for e in extents]
        self.threads, self.is_npu = threads, is_npu
        self.names: tuple = ()
        self.kind = "list"

    def named(self, names: tuple, kind: str) -> Kernel:
        """Called by the `with` statement: the names of the block indices."""
        self.names, self.kind = names, kind
        return self

    def __enter__(self):
        builder = Builder.current("T.Kernel")
        if builder.eager is not None and builder.eager.probing:
            raise StopProbe
        if builder.region.inside("grid"):
            raise KernelSyntaxError("T.Kernel inside T.Kernel", hint="give one T.Kernel up to three extents")
        if builder.region is not builder.root:
            raise UnsupportedConstruct(
                "a launch inside run-time control flow: whether and how often a kernel is launched is known before it runs",
                notes=[("the enclosing block starts here", builder.region.where)],
                hint=_INSTEAD.get(builder.region.kind, "loop with `for i in range(n)` and a constant n, or call the kernel in a loop"),
            )
        self.where = user_location()
        if self.kind == "list" and len(self.names) not in (0, len(self.extents) + (1 if self.is_npu else 0), len(self.extents)):
            raise InvalidArgument(
                f"T.Kernel with {len(self.extents)} grid extents binds {len(self.names)} names", hint="one name for each extent"
            )
        names = list(self.names[: len(self.extents)]) if self.kind == "list" or len(self.extents) == 1 else []
        names += [f"b{axis}" for axis in "xyz"[len(names) :]]
        self.vars = [index_var(builder.unique(f"b{'xyz'[k]}" if n == "_" else n)) for k, n in enumerate(names[: len(self.extents)])]
        builder.grids += 1
        if self.threads is not None and builder.threads is None:
            builder.threads = [int(t) for t in self.threads] if isinstance(self.threads, (tuple, list)) else int(plain(self.threads))
        self.region = builder.push("grid", self.where)
        builder.grid = (self.vars, self.extents)
        values = list(self.vars)
        if self.is_npu and len(self.names) == len(values) + 1:
            values.append(
                Unavailable(
                    "the compiler decides which vector core runs which rows",
                    self.where,
                    "write the kernel for whole tiles; rows are split between the two vector cores automatically",
                )
            )
        return values[0] if self.kind == "one" and len(values) == 1 else values

    def __exit__(self, kind, error, traceback):
        if kind is not None:
            return
        builder = Builder.current()
        body, span = builder.pop(self.region), span_of(self.where)
        builder.grid = ([], [])
        if any(const_int(e) == 0 for e in self.extents):  # a grid without blocks does nothing
            body, self.extents = seq(), [IntImm("int32", 1)] * len(self.extents)
        for axis in reversed(range(len(self.vars))):
            zero = IntImm("int32", 0)
            body = For(
                self.vars[axis],
                zero,
                self.extents[axis],
                ForKind.SERIAL,
                body,
                annotations={"tl.grid": axis},
                span=span,
            )
        builder.emit(body)


def _grid(what: str) -> tuple[list, list]:
    builder = Builder.current(what)
    if not builder.region.inside("grid"):
        raise KernelSyntaxError(f"{what} outside T.Kernel", hint="call it inside `with T.Kernel(...)`")
    return builder.grid


def get_block_bindings() -> list:
    """The block indices of the enclosing launch."""
    return list(_grid("T.get_block_bindings")[0])


def get_block_binding(dim: int = 0):
    """The block index along grid dimension `dim`."""
    return _pick(get_block_bindings(), dim)


def get_block_extents() -> list:
    """The grid extents of the enclosing launch."""
    return list(_grid("T.get_block_extents")[1])


def get_block_extent(dim: int = 0):
    """The grid extent along dimension `dim`."""
    return _pick(get_block_extents(), dim)


def _pick(values: list, dim: int):
    if not 0 <= dim < len(values):
        raise InvalidArgument(f"the grid has {len(values)} dimensions, there is no dimension {dim}")
    return values[dim]


def sync_grid() -> None:
    """Barrier of all blocks: what stands behind it sees what any block has stored in front of it.

    The rest of the block is a launch of its own. Tiles and variables keep nothing across the barrier; it stands in no loop or branch.
    """
    builder = Builder.current("T.sync_grid")
    builder.emit(barrier(builder.span()))


NAMES = ("get_block_binding", "get_block_bindings", "get_block_extent", "get_block_extents", "sync_grid")
