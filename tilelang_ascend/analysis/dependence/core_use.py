"""Which core executes which statement of a kernel that is written for both cores together."""

from __future__ import annotations

from ... import isa
from ...ir import (
    AllocBuffer,
    AssertStmt,
    Bind,
    Break,
    BufferStore,
    Call,
    Continue,
    Evaluate,
    FloatImm,
    For,
    IntImm,
    TensorLoad,
    Var,
    While,
    children,
    const_int,
    elements,
    expr_children,
    exprs,
    op_name,
    operand_parts,
    scope_of,
    statements,
)

AIC, AIV = "aic", "aiv"
NOBODY: frozenset = frozenset()

CORE_OF_SCOPE = {
    "shared.ub": AIV, "shared.l1": AIC, "local.l0a": AIC, "local.l0b": AIC, "local.l0c": AIC, "local.bt": AIC,
    "local.fb": AIC,
}  # fmt: skip
"""Which core owns a local memory. UB belongs to the vector core; everything else on chip to the cube core."""


def call_of(stmt):
    """The intrinsic call a leaf statement makes (`Evaluate` or the value of a `Bind`), else None."""
    name = op_name(stmt.value) if type(stmt) in (Evaluate, Bind) else None
    return stmt.value if name is not None and name.startswith("ascend.") else None


def record_of(call):
    """The instruction-table record of an intrinsic call."""
    return isa.lookup(call.op.name)


def core_of_operands(call) -> str | None:
    """The core that executes an instruction with local operands: the only one that can, or the one that has them; None without such operands."""
    cores = record_of(call).cores
    for arg in elements(call.args):
        parts = operand_parts(arg)
        if parts is not None:
            core = CORE_OF_SCOPE.get(scope_of(parts[0].source))
            if core:
                return core if len(cores) > 1 else cores[0]
    return None


class CoreUse:
    """Cores of every statement of `func`.

    An instruction with a local operand runs on the core that owns the memory; without one, what has an effect outside of the
    kernel (output, stores of elements to GM) runs on the vector core if there is one. A scalar statement runs on every core
    that uses its result; a loop or branch on every core that has something inside. `CoreUse.of(stmt)` is a frozenset of
    `aic` and `aiv`, empty for a dead statement.
    """

    def __init__(self, func):
        self._stmts = statements(func.body)
        self._cores: dict = {}
        self._owners: dict = {}
        fixed = (func.attrs or {}).get("ascend.core")
        self._everyone = frozenset((str(fixed),)) if fixed else self._cores_present()
        self._uses: dict = {}
        self._names: dict = {}
        self._loop_of_jump: dict = {}
        self._find_jumps(func.body, None)
        self._assign_atomic_modes(func.body)
        while self._sweep():
            pass

    def of(self, stmt) -> frozenset:
        """Cores that execute `stmt`."""
        return self._cores.get(stmt, NOBODY)

    @property
    def present(self) -> frozenset:
        """Cores that have any instruction."""
        return self._everyone

    def _cores_present(self) -> frozenset:
        found = set()
        for s in self._stmts:
            core = self._owner(s)
            if core:
                found.add(core)
        return frozenset(found) or frozenset((AIV,))

    def _owner(self, s) -> str | None:
        """`core_of_operands` of the call a leaf statement makes, None if it makes none."""
        if s not in self._owners:
            call = call_of(s)
            self._owners[s] = core_of_operands(call) if call is not None else None
        return self._owners[s]

    def _find_jumps(self, stmt, loop) -> None:
        if type(stmt) in (Break, Continue):
            self._loop_of_jump[stmt] = loop
        for child in children(stmt):
            self._find_jumps(child, stmt if type(stmt) in (For, While) else loop)

    def _assign_atomic_modes(self, body) -> None:
        """`set_atomic` belongs to the core whose write to GM it brackets: the nearest one in the same statement
        list."""
        for block in [body, *(c for s in self._stmts for c in children(s))]:
            items = children(block)
            writers = [(i, core) for i, s in enumerate(items) if (core := self._owner(s))]
            if not writers:
                continue
            for i, s in enumerate(items):
                call = call_of(s)
                if call is None or "op" not in record_of(call).attrs:
                    continue
                ends = str(call.attrs["op"]) == "none"
                side = [w for w in writers if (w[0] < i) == ends] or writers
                self._cores[s] = frozenset((min(side, key=lambda w: abs(w[0] - i))[1],))

    def _sweep(self) -> bool:
        changed = False
        for s in reversed(self._stmts):
            cores = self._cores_of(s)
            if cores != self._cores.get(s):
                self._cores[s] = cores
                changed = True
            for name in self._names_in(s):
                have = self._uses.get(name, NOBODY)
                if not cores <= have:
                    self._uses[name] = have | cores
                    changed = True
        return changed

    def _cores_of(self, s) -> frozenset:
        kind = type(s)
        if kind is Evaluate:
            return self._cores_of_call(s)
        if kind is Bind:
            return self._uses.get(s.var, NOBODY)
        if kind is BufferStore or kind is AllocBuffer:
            return self._uses.get(s.buffer, NOBODY)
        if kind is Break or kind is Continue:
            return self._cores.get(self._loop_of_jump[s], NOBODY)
        if kind is AssertStmt:
            return self._everyone
        return frozenset().union(*(self._cores.get(c, NOBODY) for c in children(s)))

    def _cores_of_call(self, s) -> frozenset:
        if s in self._cores:
            return self._cores[s]
        call = call_of(s)
        if call is None:
            return NOBODY if const_int(s.value) is not None else self._everyone
        core = self._owner(s)
        if core is None and _happens_once(record_of(call)):
            core = AIV if AIV in self._everyone else AIC
        if core is None and call.attrs is not None and "core" in call.attrs:
            core = str(call.attrs["core"])
        return frozenset((core,)) if core else self._everyone

    def _names_in(self, s) -> list:
        names = self._names.get(s)
        if names is None:
            found: set = set()
            for e in exprs(s):
                _collect(e, found)
            names = self._names[s] = list(found)
        return names


def _happens_once(record) -> bool:
    """True for instructions with an effect outside of the core."""
    return record.once or any(operand.writes for operand in record.operands)


def _collect(e, found: set) -> None:
    """Variables and buffers of an expression. (Written out because most arguments are constants, and this is called
    often.)"""
    kind = type(e)
    if kind is IntImm or kind is FloatImm:
        return
    if kind is TensorLoad:
        found.add(e.source)
        for index in elements(e.indices):
            _collect(index, found)
    elif kind is Call:
        for arg in elements(e.args):
            _collect(arg, found)
    elif isinstance(e, Var):
        found.add(e)
    else:
        for child in expr_children(e):
            _collect(child, found)


__all__ = ["AIC", "AIV", "CORE_OF_SCOPE", "CoreUse", "call_of", "core_of_operands", "record_of"]
