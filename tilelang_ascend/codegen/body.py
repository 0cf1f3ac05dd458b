"""The statements of one kind of core as Ascend C.

Buffers are `LocalTensor`s at fixed byte addresses, synchronised by hand; how they are declared is a matter of the release of CANN (`forms`).
"""

from __future__ import annotations

from ..analysis.index.data_names import DataNames
from ..analysis.index.signs import Known
from ..arch import get_chip
from ..ir import (
    AllocBuffer,
    Bind,
    BufferStore,
    Call,
    Evaluate,
    For,
    IfThenElse,
    IntImm,
    PrimFunc,
    SeqStmt,
    Stmt,
    TensorLoad,
    Var,
    While,
    const_int,
    dtype_of,
    elements,
    exprs,
    is_buffer_var,
    is_noop,
    itemsize,
    op_name,
    operand_parts,
    scope_of,
    statements,
    tirx,
    walk_expr,
)
from ..ir.functions import past_l2
from ..isa import CTYPES, lookup
from ..isa.stream import is_float, scalar_dtype
from .forms import Form, Local, Memory
from .names import Names
from .scalars import ADD, ATOM, MUL, ScalarText, float_literal, int_text, operand_text
from .writer import Writer

CANN = "8.1"
"""Oldest release whose names of instructions the text uses; later ones still have them."""

MEMORIES = {
    "shared.l1": ("l1", "A1"),
    "local.l0a": ("l0a", "A2"),
    "local.l0b": ("l0b", "B2"),
    "local.l0c": ("l0c", "CO1"),
    "local.bt": ("bt", "C2"),
    "shared.ub": ("ub", "VECCALC"),
}
"""storage scope -> (name of the TBuf, position)."""


class Body:
    """Prints the body of one function. `addresses` names the kernel parameter that holds the address of a GM buffer. `shows` collects the
    functions that give the user something to read."""

    def __init__(self, func: PrimFunc, names: Names, addresses: dict, form: Form):
        self.form = form
        self.generation = get_chip(str(func.attrs["ascend.chip"])).generation
        self.func = func
        self.names = names
        self.addresses = addresses
        self.out = Writer()
        self.scalar = ScalarText(names.of, self.machine_value, Known(DataNames(func.body, variables=True)))
        self.shows: set[str] = set()
        self.used = _used_vars(func.body)
        self.sizes: dict[Var, str] = {}
        self.allocs = [s for s in statements(func.body) if isinstance(s, AllocBuffer)]

    def write(self) -> str:
        self.globals()
        self.buffers()
        self.statement(self.func.body)
        return self.out.text()

    # ---- declarations

    def globals(self) -> None:
        hinted = past_l2(self.func)
        for param in self.func.params:
            if not is_buffer_var(param) or param not in self.used:
                continue
            name, ctype = self.names.of(param), CTYPES[dtype_of(param)]
            self.out.line(f"AscendC::GlobalTensor<{ctype}> {name};")
            self.out.line(f"{name}.SetGlobalBuffer(reinterpret_cast<__gm__ {ctype}*>({self.addresses[param]}));")
            if param.name in hinted:
                self.out.line(f"{name}.SetL2CacheHint(AscendC::CacheMode::CACHE_MODE_DISABLE);")

    def buffers(self) -> None:
        local = [s for s in self.allocs if scope_of(s.buffer) in MEMORIES and s.buffer in self.used]
        for s in local:
            self.names.of(s.buffer)  # the user's names come before those of the memories
        ends = {scope: [_end(s) for s in local if scope_of(s.buffer) == scope] for scope in MEMORIES}
        memories = self.form.memories(self.out, self.names, [Memory(*MEMORIES[scope], max(e)) for scope, e in ends.items() if e])
        for s in local:
            self.declare(s, memories)

    def declare(self, s: AllocBuffer, memories: dict[str, str]) -> None:
        """A LocalTensor over all versions of a buffer, and the size of one version where there are several."""
        buffer = s.buffer
        versions, lanes = (const_int(x) for x in buffer.ty.shape)
        name, ctype = self.names.of(buffer), CTYPES[dtype_of(buffer)]
        count = str(lanes)
        if versions > 1:
            self.sizes[buffer] = self.names.fresh(name + "_size")
            self.out.line(f"constexpr uint32_t {self.sizes[buffer]} = {lanes};")
            count = f"{versions} * {self.sizes[buffer]}"
        hint, _ = MEMORIES[scope_of(buffer)]
        self.out.line(self.form.local(Local(name, ctype, hint, int(s.annotations["address"]), count), memories[hint]))

    # ---- statements

    def statement(self, s: Stmt) -> None:
        if isinstance(s, SeqStmt):
            for x in s.seq:
                self.statement(x)
            return
        if is_noop(s):
            return
        if not isinstance(s, AllocBuffer):
            self.out.source_comment(s.span)
        getattr(self, "write_" + type(s).__name__)(s)

    def write_AllocBuffer(self, s: AllocBuffer) -> None:
        if scope_of(s.buffer) == "local.var":
            self.out.line(f"{_scalar_type(dtype_of(s.buffer))} {self.names.of(s.buffer)} = 0;")

    def write_Evaluate(self, s: Evaluate) -> None:
        assert op_name(s.value).startswith("ascend."), f"{op_name(s.value)} is no Ascend IR statement"
        self.out.line(self.machine_call(s.value))

    def write_Bind(self, s: Bind) -> None:
        name, dtype = self.names.of(s.var), dtype_of(s.var)
        self.scalar.known.bind(s)
        unused = "" if s.var in self.used else "[[maybe_unused]] "
        self.out.line(f"{unused}const {_scalar_type(dtype)} {name} = {self.scalar(s.value)};")

    def write_BufferStore(self, s: BufferStore) -> None:
        assert scope_of(s.buffer) == "local.var", "Ascend IR stores to mutable scalars only"
        self.out.line(f"{self.names.of(s.buffer)} = {self.scalar(s.value)};")

    def write_For(self, s: For) -> None:
        ctype, name = _scalar_type(dtype_of(s.loop_var)), self.names.of(s.loop_var)
        self.scalar.known.loop(s)
        end = self.loop_end(s, ctype)
        with self.out.block(f"for ({ctype} {name} = {self.scalar(s.min)}; {name} < {end}; ++{name}) {{"):
            self.statement(s.body)

    def loop_end(self, s: For, ctype: str) -> str:
        """The bound of a loop. TIR evaluates it once: what the body may change is kept in a constant."""
        zero = const_int(s.min) == 0
        bound = s.extent if zero else s.min + s.extent
        text, precedence = self.scalar.text(bound)
        if not _reads_state(bound):
            return operand_text((text, precedence), ADD, True)
        end = self.names.fresh(s.loop_var.name + "_end")
        self.out.line(f"const {ctype} {end} = {text};")
        return end

    def write_While(self, s: While) -> None:
        with self.out.block(f"while ({self.scalar(s.condition)}) {{"):
            self.statement(s.body)

    def write_IfThenElse(self, s: IfThenElse) -> None:
        head = f"if ({self.scalar(s.condition)}) {{"
        while isinstance(s.else_case, IfThenElse):
            with self.out.block(head, tail=""):
                self.statement(s.then_case)
            s = s.else_case
            head = f"}} else if ({self.scalar(s.condition)}) {{"
        with self.out.block(head, tail="}" if s.else_case is None else ""):
            self.statement(s.then_case)
        if s.else_case is not None:
            with self.out.block("} else {"):
                self.statement(s.else_case)

    def write_Break(self, s) -> None:
        self.out.line("break;")

    def write_Continue(self, s) -> None:
        self.out.line("continue;")

    # ---- intrinsics

    def machine_call(self, call: Call) -> str:
        """Ascend C text of an intrinsic."""
        record = lookup(op_name(call))
        if record.shows:
            self.shows.add(record.api)
        count = len(record.operands)
        arguments = elements(call.args)
        loads, values = arguments[:count], arguments[count:]
        dtypes = [operand_parts(load)[1] for load in loads]
        operands = [(self.operand(load), dtype) for load, dtype in zip(loads, dtypes)]
        args = [self.argument(arg, value, record, dtypes) for arg, value in zip(record.args, values)]
        attrs = {name: str(call.attrs[name]) for name in record.attrs}
        return record.render(operands, args, attrs, cann=CANN, generation=self.generation)

    def machine_value(self, call: Call) -> str:
        """Text of an intrinsic that returns a value, as an expression of the call's dtype."""
        text, dtype = self.machine_call(call), dtype_of(call)
        return text if text.startswith("static_cast") or dtype != "bool" else f"({text} != 0)"

    def argument(self, arg, value, record, dtypes) -> str:
        """Text of one scalar argument."""
        if arg.kind == "float" or arg.kind == "value" and is_float(dtype_of(value)):
            return self.float_arg(value, scalar_dtype(record, dtypes) if arg.kind == "float" else dtype_of(value))
        return self.int_arg(value, arg.ctype)

    def int_arg(self, value, ctype: str) -> str:
        """An integer argument; where a bool is wanted, a comparison that became a number is printed as itself."""
        if ctype == "bool" and isinstance(value, tirx.Cast) and dtype_of(value.value) == "bool":
            value = value.value
        if isinstance(value, IntImm) and itemsize(dtype_of(value)) != 4:
            # A literal is an int, whatever its dtype says.
            return self.scalar(value)
        return TypedText(self.scalar(value), _scalar_type(dtype_of(value)))

    def float_arg(self, value, dtype: str) -> str:
        """A float argument of an operand of `dtype`; constants are rounded here, so that no second rounding follows."""
        constant = getattr(value, "value", None)
        if isinstance(constant, (int, float)):
            return TypedText(float_literal(float(constant), dtype), CTYPES[dtype]) if is_float(dtype) else int_text(int(constant), dtype)
        return TypedText(self.scalar(value), _scalar_type(dtype_of(value)))

    def operand(self, operand) -> str:
        """`tensor[offset]`, with `.ReinterpretCast<T>()` when it is read as another dtype."""
        load, dtype = operand_parts(operand)
        text = self.element(load)
        return text if dtype == dtype_of(load.source) else f"{text}.ReinterpretCast<{CTYPES[dtype]}>()"

    def element(self, load: TensorLoad) -> str:
        """`tensor[offset]`; the offset of a local tensor counts from version 0."""
        buffer = load.source
        terms = [self.scalar.text(load.indices[-1])] if const_int(load.indices[-1]) != 0 else []
        if len(load.indices) == 2 and const_int(load.indices[0]) != 0:
            terms.insert(0, self.version_offset(buffer, load.indices[0]))
        name = self.names.of(buffer)
        if not terms:
            return name
        index = terms[0][0] if len(terms) == 1 else " + ".join(operand_text(term, ADD, False) for term in terms)
        return f"{name}[{index}]"

    def version_offset(self, buffer, version) -> tuple[str, int]:
        """Elements before a version of a local buffer."""
        size = self.sizes.get(buffer, str(const_int(buffer.ty.shape[1])))
        if const_int(version) == 1:
            return size, ATOM
        return f"{operand_text(self.scalar.text(version), MUL, False)} * {size}", MUL


class TypedText(str):
    """Text of an argument that is known to have a C++ type."""

    ctype: str

    def __new__(cls, text: str, ctype: str):
        self = super().__new__(cls, text)
        self.ctype = ctype
        return self


def _scalar_type(dtype: str) -> str:
    return "bool" if dtype == "bool" else CTYPES[dtype]


def _end(s: AllocBuffer) -> int:
    """One past the last byte of a local buffer, all versions."""
    versions, lanes = (const_int(x) for x in s.buffer.ty.shape)
    return int(s.annotations["address"]) + versions * lanes * itemsize(dtype_of(s.buffer))


def _reads_state(e) -> bool:
    """True when `e` reads something that can change: a mutable scalar or an intrinsic."""
    found = False

    def see(x):
        nonlocal found
        found = found or isinstance(x, TensorLoad) or (op_name(x) or "").startswith("ascend.")

    walk_expr(e, see)
    return found


def _used_vars(body: Stmt) -> set:
    """Variables and buffers that any expression of `body` reads or names as an operand."""
    found: set = set()

    def see(x):
        if isinstance(x, Var):
            found.add(x)
        elif isinstance(x, TensorLoad):
            found.add(x.source)

    for s in statements(body):
        for e in exprs(s):
            walk_expr(e, see)
    return found
