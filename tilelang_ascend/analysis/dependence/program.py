"""Structured program: the statement tree of one kernel reduced to what memory planning and synchronisation look at.

Leaves are instructions (with their queue and accesses) and synchronisation statements; inner nodes are blocks, loops and
branches. A *queue* is one pipe of one core, e.g. `("aiv", "MTE2")`; queues are numbered by `QUEUES`. Scalar statements
(lets, stores to mutable scalars, declarations) are not nodes: they order nothing but the scalar pipe.
"""

from __future__ import annotations

import functools
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field

from ...ir import Bind, BufferStore, For, statements
from ..index.linear import Atom, Linear

CORES = ("aic", "aiv")
QUEUES = tuple(("aic", p) for p in ("S", "M", "MTE1", "MTE2", "MTE3", "FIX")) + tuple(("aiv", p) for p in ("S", "V", "MTE2", "MTE3"))
QUEUE_INDEX = {queue: i for i, queue in enumerate(QUEUES)}


@dataclass(eq=False, slots=True)
class Access:
    """Bytes an instruction may touch: `[start, start + size)` of one version of one buffer.

    Attributes:
        buffer: the buffer variable.
        space: memory, e.g. `shared.ub`, or `global`.
        read, write: direction.
        version: linear form of the version index, None when the buffer has one version (or the version cannot be told).
        versions: number of versions.
        version_stride: bytes between versions when the version is part of the offset (GM), 0 when it is an index of its
        own.
        start: first byte within the version.
        size: bytes, None = up to the end of the version.
        piece, pitch: when pitch > 0, only `piece` bytes at every multiple of `pitch` from `start` are touched.
        exact: every byte of it, or of its pieces, is written, not just none outside.
        anew: a loop in whose first iteration it does not read what it writes, None if there is none such.
        atomic: (operation, dtype) of a write to GM that is combined with what is there; equal ones may happen in any order.
        within: loop atom -> first and last iteration in which the instruction runs, for loops around it of which it stands in a window.
    """

    buffer: object
    space: str
    read: bool
    write: bool
    version: Linear | None
    versions: int
    version_stride: int
    start: Linear
    size: int | None
    piece: int = 0
    pitch: int = 0
    exact: bool = False
    anew: Atom | None = None
    atomic: tuple | None = None
    within: Mapping = field(default_factory=dict)


@dataclass(eq=False, slots=True)
class Block:
    """A statement list. `nodes` holds only the children that matter; `position` of a node is its index in the statement
    list."""

    owner: Loop | Branch | None = None
    length: int = 0
    nodes: list = field(default_factory=list)


@dataclass(eq=False, slots=True)
class Node:
    """Common part: the block a node stands in and its position there."""

    parent: Block
    position: int
    stmt: object


@dataclass(eq=False, slots=True)
class Loop(Node):
    """`for` (with the atom of its variable and its trip count) or `while` (atom only, no count).

    `independent`: iterations are different tiles of the user's grid, which no program may order through GM.
    `unordered`: iterations are iterations of a parallel nest, of which no two may store different numbers to an element of a user's tensor.
    """

    atom: Atom = None
    extent: Linear | None = None
    trip: int | None = None
    body: Block = None
    has_jump: bool = False
    independent: bool = False
    unordered: bool = False


@dataclass(eq=False, slots=True)
class Branch(Node):
    """`if`; `other` is None without an `else`. `window`: in which iterations of a loop it is taken, None if nobody knows. `seldom`: it is taken in
    one of several iterations, where its condition is what it looks like."""

    then: Block = None
    other: Block | None = None
    window: Window | None = None
    seldom: bool = False


@dataclass(frozen=True, eq=False, slots=True)
class Window:
    """All iterations of `loop` but the `first` first and the `last` last ones."""

    loop: Loop
    first: int
    last: int


@dataclass(eq=False, slots=True)
class Instr(Node):
    """One instruction on one queue.

    `ordered` is False when the next instruction of the queue may not rely on this one being complete.
    """

    name: str = ""
    queue: int = 0
    accesses: tuple = ()
    ordered: bool = True
    order: int = 0
    loops: tuple = ()

    def writes(self, buffer) -> bool:
        """True if it writes to a buffer."""
        return any(a.write and a.buffer.same_as(buffer) for a in self.accesses)


@dataclass(eq=False, slots=True)
class Sync(Node):
    """A synchronisation statement.

    kind: `set`, `wait` (queues `src` and `dst`), `barrier` (`src`, or every queue of the core when `src` is None),
    `cross_set` (`src`, towards the other core), `cross_wait`.
    """

    kind: str = ""
    core: str = ""
    src: int | None = None
    dst: int | None = None
    ident: Linear | None = None


@dataclass(eq=False, slots=True)
class Jump(Node):
    """`break` or `continue`."""


@dataclass(eq=False)
class Program:
    """A kernel as a tree.

    Attributes:
        instrs: instructions in program order.
        loops: all loops.
        extents: loop atom -> largest trip count, where it is known.
        cores: cores that have instructions.
        addresses: local buffer -> byte address, where memory is planned.
        user_tensors: GM parameters that hold the user's data.
        hulls: identity of an access -> byte addresses it may touch, filled by `dependence`.
        reaches: identity of an instruction -> the same of its accesses.
        orders: identity of a loop -> its first and last instruction, filled by `liveness`.
    """

    root: Block
    instrs: list
    loops: list
    extents: dict
    cores: tuple
    addresses: dict
    user_tensors: frozenset = frozenset()
    hulls: dict = field(default_factory=dict)
    reaches: dict = field(default_factory=dict)
    orders: dict = field(default_factory=dict)

    @functools.cached_property
    def places(self) -> dict[int, int]:
        """Identity of a node -> its index among the nodes of its block."""
        return {id(node): k for block in self._blocks() for k, node in enumerate(block.nodes)}

    @functools.cached_property
    def jumping(self) -> dict[int, list[int]]:
        """Identity of a block -> indices of its nodes by which an iteration may be left (`jumps_of`), for blocks that have some."""
        found = {id(block): [k for k, node in enumerate(block.nodes) if jumps_of(node)] for block in self._blocks()}
        return {block: indices for block, indices in found.items() if indices}

    def _blocks(self) -> list[Block]:
        """All blocks, each behind the one it stands in."""
        found = [self.root]
        for block in found:
            for node in block.nodes:
                arms = [node.body] if isinstance(node, Loop) else [node.then, node.other] if isinstance(node, Branch) else []
                found += [arm for arm in arms if arm is not None]
        return found

    def jumps_before(self, node: Node) -> int:
        """How many statements in front of `node`, in its block, may leave the iteration."""
        block = node.parent
        places = self._leaving.get(id(block))
        if places is None:
            places = self._leaving[id(block)] = [n.position for n in block.nodes if jumps_of(n)]
        return bisect_left(places, node.position)

    @functools.cached_property
    def _leaving(self) -> dict:
        """Identity of a block -> positions of its statements that may leave the iteration."""
        return {}


def users_of_buffers(program: Program) -> dict:
    """Buffer -> instructions that access it, in program order, once for each access."""
    users: dict = {}
    for instr in program.instrs:
        for a in instr.accesses:
            users.setdefault(a.buffer, []).append(instr)
    return users


def names_inside(stmt) -> set:
    """Variables that a statement, or one below it, defines or stores to: numbers of loops, lets and scalars."""
    inner = statements(stmt)
    found = {s.loop_var for s in inner if isinstance(s, For)} | {s.var for s in inner if isinstance(s, Bind)}
    return found | {s.buffer for s in inner if isinstance(s, BufferStore)}


def path_to_root(block: Block) -> list[Block]:
    """Blocks from `block` outwards."""
    chain = [block]
    while chain[-1].owner is not None:
        chain.append(chain[-1].owner.parent)
    return chain


def branches_of(program: Program) -> set[Branch]:
    """The branches around instructions."""
    return {b.owner for i in program.instrs for b in path_to_root(i.parent) if isinstance(b.owner, Branch)}


def position_in(node: Node, block: Block) -> int:
    """Position in `block` of the statement that is, or contains, `node`."""
    while node.parent is not block:
        node = node.parent.owner
    return node.position


def jumps_of(node: Node) -> list:
    """The `break` and `continue` statements by which `node` may leave an iteration of the loop around it."""
    if isinstance(node, Jump):
        return [node.stmt]
    arms = [a for a in (node.then, node.other) if a is not None] if isinstance(node, Branch) else []
    return [s for arm in arms for n in arm.nodes for s in jumps_of(n)]


def common_block(a: Node, b: Node) -> Block:
    """Innermost block that contains both nodes."""
    outer = set(map(id, path_to_root(a.parent)))
    return next(block for block in path_to_root(b.parent) if id(block) in outer)


def enclosing_loops(block: Block) -> tuple:
    """Loops around the statements of `block`, outermost first."""
    return tuple(b.owner for b in reversed(path_to_root(block)) if isinstance(b.owner, Loop))


__all__ = [
    "Access", "Block", "Branch", "CORES", "Instr", "Jump", "QUEUES", "QUEUE_INDEX", "Loop", "Node", "Program",
    "Sync", "Window", "branches_of", "common_block", "enclosing_loops", "jumps_of", "names_inside", "path_to_root", "position_in",
    "users_of_buffers",
]  # fmt: skip
