"""Rules of Ascend IR (docs/ir.md section 2) on a chip: every call against its record, memory, synchronisation."""

from __future__ import annotations

from ..isa import CORE_EVENTS, CORE_PIPES, ITEMSIZE, SCOPES, TABLE, Intrinsic, Space, rules, split_event
from ..isa.base import KERNEL_TYPES
from .base import AllocBuffer, Bind, BufferStore, Call, Evaluate, FloatImm, For, ForKind, IRModule, PrimFunc, TensorLoad, elements
from .build import const_int, dtype_of, op_name, operand_parts, scope_of
from .functions import launches, split_params
from .visit import walk_expr
from .wellformed import Problem, WellFormed, elements_of, is_static

CORE_SPACES = {
    "aic": (Space.GM, Space.L1, Space.L0A, Space.L0B, Space.L0C, Space.BT, Space.FB),
    "aiv": (Space.GM, Space.UB),
}
"""Memories of each kind of core."""
OTHER_SPACES = {"aic": {Space.UB: Space.L0C}, "aiv": {Space.L1: Space.UB}}
"""Memories of the other kind of core of a block that a core writes to, on chips with that path -> where from."""
_EVENT_OPS = ("ascend.set_flag", "ascend.wait_flag")
_CROSS_OPS = ("ascend.cross_core_set_flag", "ascend.cross_core_wait_flag")
_FUNCTION_ATTRS = (
    "global_symbol", "ascend.core", "ascend.kernel_type", "ascend.chip", "ascend.kernel_name", "ascend.workspace_bytes",
)  # fmt: skip


def call_of(stmt) -> Call | None:
    """The instruction of an `Evaluate`, or of a `Bind` of the value of one."""
    if isinstance(stmt, (Evaluate, Bind)) and (op_name(stmt.value) or "").startswith("ascend."):
        return stmt.value
    return None


class _AscendVerifier(WellFormed):
    def __init__(self, func: PrimFunc, chip, addresses: bool):
        super().__init__(func)
        self.chip, self.addresses = chip, addresses
        self.core = str(func.attrs["ascend.core"])
        self.mixed = str(func.attrs["ascend.kernel_type"]) == "mix_1_2"
        self.address_of: dict = {}
        self.set_events: dict[str, object] = {}
        self.waited_events: dict[str, object] = {}

    def run(self) -> list[Problem]:
        super().run()
        for have, lack, verb in (
            (self.set_events, self.waited_events, "set but never waited for"),
            (self.waited_events, self.set_events, "waited for but never set"),
        ):
            for event, span in have.items():
                if event not in lack:
                    self.report("event-pair", f"flag {event} is {verb}", span)
        return self.problems

    # ---- statements ------------------------------------------------------------------------------------------------

    def statement(self, s) -> None:
        if isinstance(s, AllocBuffer):
            self.alloc(s)
        elif isinstance(s, For) and s.kind != ForKind.SERIAL:
            self.report("loop", f"loop {s.loop_var.name} is not SERIAL", s.span)
        elif isinstance(s, BufferStore):
            self.store(s)
            if scope_of(s.buffer) != "local.var":
                self.report("store", f"element store to {s.buffer.name}: only scalars may be stored to", s.span)
        elif isinstance(s, Evaluate) and call_of(s) is None and op_name(s) is not None:
            self.report("op", f"{op_name(s)} is no instruction", s.span)
        if call_of(s) is not None:
            self.instruction(call_of(s), s)

    def expression(self, e, s) -> None:
        super().expression(e, s)
        inside = call_of(s)

        def see(x):
            if (
                isinstance(x, Call)
                and (op_name(x) or "").startswith("ascend.")
                and (inside is None or not x.same_as(inside) and op_name(x) != "ascend.reinterpret")
            ):
                self.report("nested", f"{op_name(x)} inside an expression: bind its value first", s.span)
            if inside is None and isinstance(x, TensorLoad) and scope_of(x.source) != "local.var":
                self.report("load", f"{x.source.name} is read in a scalar expression: use ascend.get_value", s.span)

        walk_expr(e, see)

    # ---- memory ----------------------------------------------------------------------------------------------------

    def alloc(self, s: AllocBuffer) -> None:
        buffer, scope = s.buffer, scope_of(s.buffer)
        if scope == "local.var":
            return
        if scope not in SCOPES or SCOPES[scope] not in CORE_SPACES[self.core] and not self.may_write_to(SCOPES[scope]):
            self.report("scope", f"{buffer.name}: no memory {scope!r} on an {self.core.upper()} core", s.span)
            return
        if len(buffer.ty.shape) != 2 or not is_static(buffer):
            self.report("shape", f"{buffer.name} has the shape {list(buffer.ty.shape)}, not [versions, elements]", s.span)
            return
        address = const_int(s.annotations["address"]) if "address" in s.annotations else None
        self.address_of[buffer] = address
        if address is None:
            if self.addresses:
                self.report("address", f"{buffer.name} has no address", s.span)
            return
        self.placement(buffer, SCOPES[scope], address, s)

    def may_write_to(self, space: Space) -> bool:
        """True for a memory of the other kind of core that this one has a path to."""
        source = OTHER_SPACES[self.core].get(space)
        return self.mixed and source is not None and self.chip.has_path(source.name, space.name)

    def placement(self, buffer, space: Space, address: int, s) -> None:
        memory = self.chip.memories[space]
        end = address + elements_of(buffer) * ITEMSIZE[dtype_of(buffer)]
        if address % memory.alignment_bytes:
            self.report(
                "alignment",
                f"{buffer.name} at {address} is not aligned to {memory.alignment_bytes} bytes of {space.name}",
                s.span,
            )
        if end > memory.usable_bytes:
            self.report("capacity", f"{buffer.name} ends at {end}, {space.name} has {memory.usable_bytes} usable bytes", s.span)

    # ---- one instruction -------------------------------------------------------------------------------------------

    def instruction(self, call: Call, s) -> None:
        name = call.op.name.removeprefix("ascend.")
        if name not in TABLE:
            self.report("op", f"{call.op.name} is not in the instruction table", s.span)
            return
        record = TABLE[name]
        if self.core not in record.cores:
            self.report("core", f"{name} does not run on an {self.core.upper()} core", s.span)
        if len(call.args) != len(record.arg_names):
            self.report("arguments", f"{name} takes {len(record.arg_names)} arguments, has {len(call.args)}", s.span)
            return
        if (record.returns is not None) != isinstance(s, Bind):
            self.report("value", f"{name} {'returns a value that is' if record.returns else 'has no value to be'} bound", s.span)
        heads = elements(call.args)[: len(record.operands)]
        parts = [operand_parts(h) for h in heads]
        if None in parts:
            self.report("operand", f"{name}: operands are head addresses, got {heads}", s.span)
            return
        self.legality(record, call, [load for load, _ in parts], [dtype for _, dtype in parts], s)
        self.synchronisation(call, s)

    def legality(self, record: Intrinsic, call: Call, heads, dtypes, s) -> None:
        attrs = {str(k): str(v) for k, v in dict(call.attrs or {}).items()}
        values = [_constant(a) for a in elements(call.args)[len(record.operands) :]]
        bound = record.bind(dtypes, values, attrs, self.chip.generation)
        problem = rules.check(bound)
        if problem:
            self.report("check", problem, s.span)
            return
        for i, (operand, head) in enumerate(zip(record.operands, heads)):
            space = SCOPES.get(scope_of(head.source))
            if space not in operand.spaces:
                spaces = "/".join(x.name for x in operand.spaces)
                self.report(
                    "space",
                    f"{record.name}: operand {operand.name} = {head.source.name} lies in {scope_of(head.source)}, not in {spaces}",
                    s.span,
                )
            elif space not in CORE_SPACES[self.core] and OTHER_SPACES[self.core].get(space) not in [
                SCOPES.get(scope_of(other.source)) for k, other in enumerate(heads) if operand.direction == "out" and k != i
            ]:
                self.report("space", f"{record.name}: operand {operand.name} = {head.source.name} is memory of another core", s.span)
            elif space is not Space.GM:
                self.head(record, operand.alignment(space, bound.dtypes[i]), head, s)
        self.extent(record, bound, heads, s)

    def head(self, record: Intrinsic, alignment: int, head: TensorLoad, s) -> None:
        offset = self.byte_offset(head)
        address = self.address_of.get(head.source)
        if offset is not None and (offset + (address or 0)) % alignment:
            self.report(
                "alignment",
                f"{record.name}: {head} at byte {offset + (address or 0)} is not aligned to {alignment}",
                s.span,
            )

    def byte_offset(self, head: TensorLoad) -> int | None:
        """Bytes from the address of a local buffer to a head, None when it is not constant."""
        if len(head.indices) != 2 or not is_static(head.source):
            return None
        version, element = (const_int(i) for i in elements(head.indices))
        if version is None or element is None:
            return None
        return (version * int(head.source.ty.shape[1].value) + element) * ITEMSIZE[dtype_of(head.source)]

    def extent(self, record: Intrinsic, bound, heads, s) -> None:
        """Bytes an instruction touches must lie inside the version of the buffer it names."""
        if record.footprint_fn is None:
            return
        for i, _, low, high in record.footprint(bound):
            head = heads[i]
            offset = self.byte_offset(head)
            if offset is None or high is None or low is None:
                continue
            size = int(head.source.ty.shape[1].value) * ITEMSIZE[dtype_of(head.source)]
            start = offset % size if size else 0
            if start + high > size or offset + high > elements_of(head.source) * ITEMSIZE[dtype_of(head.source)]:
                self.report(
                    "extent",
                    f"{record.name}: touches bytes {start + low}..{start + high - 1} of {head.source.name}, which has {size}",
                    s.span,
                )

    # ---- synchronisation -------------------------------------------------------------------------------------------

    def synchronisation(self, call: Call, s) -> None:
        name = call.op.name
        attrs = {str(k): str(v) for k, v in dict(call.attrs or {}).items()}
        if name in _EVENT_OPS and "event" in attrs:
            self.event(name, attrs["event"], s)
        pipe = attrs.get("pipe", "ALL")
        if pipe != "ALL" and pipe not in CORE_PIPES[self.core]:
            self.report("pipe", f"{name}: an {self.core.upper()} core has no pipe {pipe}", s.span)
        if name in _CROSS_OPS and not self.mixed and attrs.get("mode", "0") != "0":
            self.report("cross-core", f"{name} in a kernel with one kind of core only", s.span)

    def event(self, name: str, event: str, s) -> None:
        if event not in CORE_EVENTS[self.core]:
            self.report("event", f"flag {'->'.join(split_event(event))} does not exist on an {self.core.upper()} core", s.span)
        (self.set_events if name == "ascend.set_flag" else self.waited_events).setdefault(event, s.span)


def _constant(e):
    if isinstance(e, FloatImm):
        return float(e.value)
    return const_int(e)


def _function_problems(func: PrimFunc) -> list[Problem]:
    attrs = func.attrs or {}
    missing = [key for key in _FUNCTION_ATTRS if key not in attrs]
    if missing:
        return [Problem("attributes", f"function lacks {', '.join(missing)}")]
    core, kernel_type = str(attrs["ascend.core"]), str(attrs["ascend.kernel_type"])
    if kernel_type not in KERNEL_TYPES or core not in KERNEL_TYPES[kernel_type]:
        return [Problem("attributes", f"a {kernel_type!r} kernel has no {core!r} function")]
    return []


def _cross_core_problems(module: IRModule) -> list[Problem]:
    """A flag id that the one side sets must be waited for on the other, and the other way round (mode 2)."""
    uses: dict[tuple[str, str], set[int]] = {}
    for _, func in module.functions_items():
        core = str(func.attrs["ascend.core"])
        for verb, ids in _mode2_ids(func).items():
            uses[core, verb] = ids
    if len({core for core, _ in uses}) != 2:
        return []
    problems = []
    for core, other in (("aic", "aiv"), ("aiv", "aic")):
        for flag in sorted(uses[core, "set"] - uses[other, "wait"]):
            problems.append(Problem("cross-pair", f"flag {flag} is set on {core} but never waited for on {other}"))
        for flag in sorted(uses[core, "wait"] - uses[other, "set"] - uses[core, "other"]):
            problems.append(Problem("cross-pair", f"flag {flag} is waited for on {core} but never set on {other}"))
    return problems


def _mode2_ids(func: PrimFunc) -> dict[str, set[int]]:
    from .visit import statements

    ids: dict[str, set[int]] = {"set": set(), "wait": set(), "other": set()}
    for s in statements(func.body):
        call = call_of(s)
        if call is None or call.op.name not in _CROSS_OPS or const_int(call.args[0]) is None:
            continue
        is_set = call.op.name == _CROSS_OPS[0]
        mode = str(dict(call.attrs)["mode"]) if is_set else "2"
        ids["set" if is_set and mode == "2" else "other" if is_set else "wait"].add(const_int(call.args[0]))
    return ids


def verify_ascend(module: IRModule | PrimFunc, chip, addresses: bool = True) -> list[Problem]:
    """All broken rules of an Ascend IR program on `chip`; an empty list means it is legal.

    Args:
        addresses: every local buffer must have its address (set it to False before memory planning).
    """
    if isinstance(module, PrimFunc):
        problems = _function_problems(module)
        return problems or _AscendVerifier(module, chip, addresses).run()
    problems = [p for _, func in module.functions_items() for p in _function_problems(func)]
    if problems:
        return problems
    parts = launches(module)
    if len({_shared_parameters(part) for part in parts}) > 1:
        problems.append(Problem("parameters", "the launches of a kernel must have the same parameters, but for workspaces of their own"))
    return problems + [p for part in parts for p in _launch_problems(part, chip, addresses)]


def _shared_parameters(module: IRModule) -> tuple:
    scalars, buffers, _ = split_params(next(iter(module.functions.values())))
    return tuple(p.name for p in (*scalars, *buffers))


def _launch_problems(module: IRModule, chip, addresses: bool) -> list[Problem]:
    """What is wrong with the functions of one launch."""
    functions = [func for _, func in module.functions_items()]
    problems = []
    kinds = sorted(str(func.attrs["ascend.core"]) for func in functions)
    kernel_type = str(functions[0].attrs["ascend.kernel_type"])
    if kinds != sorted(KERNEL_TYPES[kernel_type]):
        problems.append(Problem("functions", f"a {kernel_type} kernel with the functions {kinds}"))
    if len({tuple(p.name for p in func.params) for func in functions}) > 1:
        problems.append(Problem("parameters", "the functions of a kernel must have the same parameters"))
    for func in functions:
        problems += _AscendVerifier(func, chip, addresses).run()
    return problems + _cross_core_problems(module)


__all__ = ["verify_ascend"]
