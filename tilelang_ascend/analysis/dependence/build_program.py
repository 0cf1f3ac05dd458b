"""From a `PrimFunc` in Ascend IR (one core, or both cores together) to the `Program` the back-end analyses work on."""

from __future__ import annotations

from ...ir import AllocBuffer, Bind, Break, Continue, Evaluate, For, IfThenElse, TensorLoad, While, const_int, stmts_of, tirx
from ...isa import split_event
from ...tile.uses import INDEPENDENT, UNORDERED, is_scalar_var
from ..index.linear import INF, LinearForms, upper_bound
from ..index.windows import window_of
from .accesses import AccessReader
from .core_use import CoreUse, call_of, record_of
from .program import QUEUE_INDEX, Block, Branch, Instr, Jump, Loop, Program, Sync, Window, jumps_of

SYNC_KINDS = {
    "ascend.set_flag": "set",
    "ascend.wait_flag": "wait",
    "ascend.pipe_barrier": "barrier",
    "ascend.cross_core_set_flag": "cross_set",
    "ascend.cross_core_wait_flag": "cross_wait",
}
"""Synchronisation intrinsics -> kind of `Sync` node."""
SELDOM = 4
"""What is done in one of so many iterations is worth no flag in all of them."""
ATOMIC_PIPES = ("MTE3", "FIX")
"""Pipes whose writes to GM honour `set_atomic`."""


def build_program(func, chip) -> Program:
    """The `Program` of `func`, which nobody may change: passes one behind the other that change nothing look at the same one. `chip` tells which
    pipes complete in order (`chip.orders`)."""
    global _last
    known, known_chip, program = _last
    if known is None or known_chip is not chip or not _same(known, func):
        program = _Builder(func, chip).build()
        _last = func, chip, program
    return program


_last: tuple = (None, None, None)
"""(function, chip, program) built last."""


def _same(a, b) -> bool:
    """True if functions are the same to `_Builder`: attributes it does not read may differ."""
    return a.body.same_as(b.body) and a.params.same_as(b.params) and all((a.attrs or {}).get(k) == (b.attrs or {}).get(k) for k in _ATTRS)


_ATTRS = ("ascend.core", "ascend.num_workspaces")


class _Builder:
    def __init__(self, func, chip):
        self.func, self.chip = func, chip
        self.cores = CoreUse(func)
        self.forms = LinearForms()
        self.extents: dict = {}
        self.read_accesses = AccessReader(self.forms, self.extents)
        self.instrs: list[Instr] = []
        self.loops: list[Loop] = []
        self.loop_stack: list[Loop] = []
        self.within: dict = {}
        """Loop atom -> its first and last iteration that may come to the statement, where those are not all."""
        self.addresses: dict = {}
        self.atomic: dict = {}
        """Core -> (operation, dtype) of its writes to GM."""

    def build(self) -> Program:
        root = self.block(self.func.body, None)
        present = tuple(c for c in ("aic", "aiv") if c in self.cores.present)
        return Program(root, self.instrs, self.loops, self.extents, present, self.addresses, self.user_tensors())

    def user_tensors(self) -> frozenset:
        """GM parameters that are not workspaces (those come last)."""
        attrs = self.func.attrs or {}
        workspaces = int(attrs["ascend.num_workspaces"]) if "ascend.num_workspaces" in attrs else 0
        params = list(self.func.params)
        return frozenset(params[: len(params) - workspaces])

    def block(self, stmt, owner) -> Block:
        items = stmts_of(stmt)
        block = Block(owner, len(items))
        for position, item in enumerate(items):
            method = _VISITORS.get(type(item))
            if method is not None:
                method(self, block, position, item)
        return block

    def alloc(self, block: Block, position: int, s: AllocBuffer) -> None:
        address = s.annotations.get("address") if s.annotations else None
        if address is not None:
            self.addresses[s.buffer] = const_int(address)

    def bind(self, block: Block, position: int, s: Bind) -> None:
        call = call_of(s)
        if call is not None and call.args:
            self.instruction(block, position, s, call)
        self.forms.bind(s.var, s.value)

    def evaluate(self, block: Block, position: int, s: Evaluate) -> None:
        call = call_of(s)
        if call is None:
            return
        kind = SYNC_KINDS.get(call.op.name)
        if kind is not None:
            block.nodes.append(self.sync(block, position, s, call, kind))
        elif record_of(call).name == "set_atomic":
            mode = (str(call.attrs["op"]), str(call.attrs["dtype"]))
            self.atomic |= dict.fromkeys(self.cores.of(s), mode if mode[0] != "none" else None)
        elif record_of(call).operands:
            self.instruction(block, position, s, call)

    def instruction(self, block: Block, position: int, s, call) -> None:
        record = record_of(call)
        accesses = self.read_accesses(record, call)
        if not accesses:
            return
        pipe = record.pipe.name
        for access in accesses:
            access.within = self.within
        for core in sorted(self.cores.of(s)):
            if pipe in ATOMIC_PIPES:
                for access in accesses:
                    access.atomic = self.atomic.get(core) if access.write and access.space == "global" else None
            instr = Instr(
                block, position, s, record.name, QUEUE_INDEX[core, pipe], accesses, self.is_ordered(record, call, core),
                len(self.instrs), tuple(self.loop_stack),
            )  # fmt: skip
            self.instrs.append(instr)
            block.nodes.append(instr)

    def is_ordered(self, record, call, core: str) -> bool:
        """May the next instruction of the pipe rely on this one being complete? Small mmads overlap with the next
        one."""
        if not self.chip.orders(record.pipe.name):
            return False
        names = record.arg_names
        if record.pipe.name != "M" or not {"m", "n"} <= set(names):
            return True
        m, n = (const_int(call.args[names.index(x)]) for x in ("m", "n"))
        return m is not None and n is not None and -(-m // 16) * -(-n // 16) >= self.chip.mmad_ordered_min_fractals

    def sync(self, block: Block, position: int, s, call, kind: str) -> Sync:
        (core,) = self.cores.of(s)
        attrs = call.attrs
        node = Sync(block, position, s, kind, core)
        if kind in ("set", "wait"):
            src, dst = split_event(str(attrs["event"]))
            node.src, node.dst = QUEUE_INDEX[core, src], QUEUE_INDEX[core, dst]
        elif str(attrs["pipe"] if attrs is not None and "pipe" in attrs else "ALL") != "ALL":
            node.src = QUEUE_INDEX[core, str(attrs["pipe"])]
        if call.args:
            node.ident = self.forms(call.args[0])
        return node

    def loop(self, block: Block, position: int, s) -> None:
        is_for = isinstance(s, For)
        atom = self.forms.loop(s.loop_var if is_for else s)
        extent = self.forms(s.extent) if is_for else None
        trip = extent.const if is_for and not extent.terms else None
        notes = s.annotations if is_for else {}
        node = Loop(block, position, s, atom, extent, trip, independent=INDEPENDENT in notes, unordered=UNORDERED in notes)
        most = trip if trip is not None or not is_for else upper_bound(s.extent, self.forms, self.extents)
        if most is not None:
            self.extents[atom] = most if trip is not None else max(1, most)
        self.loops.append(node)
        self.loop_stack.append(node)
        self.forms.enter(atom)
        node.body = self.block(s.body, node)
        self.forms.leave()
        self.loop_stack.pop()
        if any(works(n) for n in node.body.nodes):
            block.nodes.append(node)

    def branch(self, block: Block, position: int, s: IfThenElse) -> None:
        node = Branch(block, position, s)
        outer, window = self.within, self.window(s)
        if window is not None:
            self.within = self.inside(window)
        node.then = self.block(s.then_case, node)
        self.within = outer
        if s.else_case is not None:
            node.other = self.block(s.else_case, node)
        # A jump parts paths, and each of them has to be in the trace.
        node.window = None if jumps_of(node) else window
        node.seldom = s.else_case is None and self.is_seldom(s.condition)
        if node.then.nodes or (node.other is not None and node.other.nodes):
            block.nodes.append(node)

    def window(self, s: IfThenElse) -> Window | None:
        """The iterations of a loop in which a branch is taken, if that is all its condition asks for."""
        found = ((loop, window_of(s, loop.stmt)) for loop in self.loop_stack if loop.extent is not None)
        return next((Window(loop, *ends) for loop, ends in found if ends is not None), None)

    def inside(self, window: Window) -> dict:
        """What is known of the iterations of loops inside a window of one."""
        atom = window.loop.atom
        low, high = self.within.get(atom, (0, INF))
        last = self.extents.get(atom, INF) - 1 - window.last
        return {**self.within, atom: (max(low, window.first), min(high, last))}

    def is_seldom(self, condition) -> bool:
        """True for `k % n == i` with a larger n, and where what counts in a scalar has one number of many."""
        if not isinstance(condition, tirx.EQ):
            return False
        terms = self.forms(condition.a - condition.b).terms
        if any(isinstance(value := self.forms.values.get(a.expr), TensorLoad) and is_scalar_var(value.source) for a in terms):
            return True
        return len(terms) == 1 and all(a.kind == "mod" and a.modulus >= SELDOM for a in terms)

    def jump(self, block: Block, position: int, s) -> None:
        block.nodes.append(Jump(block, position, s))
        if self.loop_stack:
            self.loop_stack[-1].has_jump = True


def works(node) -> bool:
    """False for branches that hold nothing but jumps: a loop of such branches does nothing, and no core runs it."""
    arms = [a for a in (node.then, node.other) if a is not None] if isinstance(node, Branch) else []
    return not isinstance(node, Jump) if not arms else any(works(n) for a in arms for n in a.nodes)


_VISITORS = {
    AllocBuffer: _Builder.alloc,
    Bind: _Builder.bind,
    Evaluate: _Builder.evaluate,
    For: _Builder.loop,
    While: _Builder.loop,
    IfThenElse: _Builder.branch,
    Break: _Builder.jump,
    Continue: _Builder.jump,
}


__all__ = ["SYNC_KINDS", "build_program"]
