"""fresh_elements: elements of tensors that the kernel writes are read from memory, whatever the scalar unit has in its cache.

Before:  copy_ub_to_gm(Y[..], t, …); x = get_value(Y[3])
After:   copy_ub_to_gm(Y[..], t, …); data_cache_clean(Y[3]); x = get_value(Y[3])

The cache of the scalar unit keeps the 64 bytes around an element it has read, and nobody tells it of transfers. Tensors a launch only reads
stay as they are.

Requires: Ascend IR for both cores together, without flags. Ensures: values are unchanged; no element of a tensor of GM that some instruction
writes is read without a clean of its line right before.
"""

from __future__ import annotations

from ...analysis.dependence.core_use import CoreUse
from ...ir import Bind, Evaluate, PrimFunc, Stmt, StmtMutator, intrin, op_name, operand_parts, scope_of, statements
from ...isa import lookup


def fresh_elements(func: PrimFunc) -> PrimFunc:
    """Apply to a function; `func` itself when no element is read of what it writes."""
    written = {b for s in statements(func.body) if isinstance(s, Evaluate) for b in _written(s)}
    if not any(_read(s) in written for s in statements(func.body)):
        return func
    return func.with_body(_Clean(written, CoreUse(func))(func.body))


def _written(s: Evaluate) -> list:
    """Buffers in GM that an instruction writes to."""
    name = op_name(s) or ""
    if not name.startswith("ascend."):
        return []
    operands = zip(lookup(name).operands, s.value.args)
    buffers = [operand_parts(arg)[0].source for operand, arg in operands if operand.writes]
    return [b for b in buffers if scope_of(b) == "global"]


def _read(s: Stmt):
    """The buffer an element of which a statement reads, None if it reads none."""
    return operand_parts(s.value.args[0])[0].source if isinstance(s, Bind) and op_name(s.value) == "ascend.get_value" else None


class _Clean(StmtMutator):
    """`cores`: only a core that needs the element reads, and cleans."""

    def __init__(self, written: set, cores: CoreUse):
        self.written, self.cores = written, cores

    def visit_Bind(self, s: Bind):
        if _read(s) not in self.written:
            return s
        readers = self.cores.of(s)
        if not readers:
            return s  # No core needs it, and a clean would ask both for the conditions around it.
        attrs = {"core": next(iter(readers))} if len(readers) < len(self.cores.present) == 2 else {}
        return [intrin("data_cache_clean", s.value.args[0], span=s.span, **attrs), s]


__all__ = ["fresh_elements"]
