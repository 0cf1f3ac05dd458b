"""Ascend IR -> host program: loops and calls into the machine, compiled by TVM's LLVM back end.

One intrinsic becomes one call of ``tla_issue_<n>`` (or ``tla_scalar_<n>`` when it returns a value) with the words of
the instruction stream (docs/ir.md section 4). Scalars, loops and branches stay what they are. Example::

    ascend.adds(ub[0, 64], ub[0, 0], 2.0, n)      # ub: float32 at byte 256
    tla_issue_4(OP, line, UB|f32|512, UB|f32|256, bits(2.0), (int64)n)
"""

from __future__ import annotations

from typing import Mapping

from .. import native
from ..analysis.index.data_names import DataNames
from ..analysis.index.signs import Known
from ..errors import CompileError
from ..ir import (
    AllocBuffer,
    Bind,
    Break,
    BufferStore,
    Call,
    Continue,
    Evaluate,
    For,
    IfThenElse,
    IntImm,
    IRModule,
    Op,
    PrimFunc,
    SeqStmt,
    Stmt,
    StmtMutator,
    StringImm,
    TensorLoad,
    Var,
    While,
    as_dtype,
    const_int,
    dtype_of,
    elements,
    exprs,
    is_buffer_var,
    itemsize,
    map_children,
    op_name,
    operand_parts,
    renew,
    scope_of,
    seq,
    stmts_of,
    tirx,
    walk,
    walk_expr,
)
from ..ir.functions import core_functions
from ..ir.llvm import build_llvm
from ..isa import SCOPES, TABLE, TEXT, Space, lookup, opcode
from ..isa.stream import float_bits, is_float, operand_base, round_to, scalar_dtype
from . import compares, integers
from .bf16 import lower_bf16
from .exits import lower_exits
from .program import HostProgram
from .repeats import period_of, reaching_gm
from .windows import in_windows

MAX_ARGS = 24
"""Largest arity of the fixed-arity entry points of the machine."""

_PREFIX = "ascend."


def host_program(ascend_ir: IRModule) -> HostProgram:
    """Compile an Ascend IR module to callable entries. Pure and thread-safe.

    Each entry takes one int64 per parameter: integer scalars as they are, float scalars as float64 bits, GM and
    workspace buffers as addresses.

    Raises:
        errors.CompileError: the module calls something that is no instruction.
    """
    native.load()  # the code refers to its symbols
    functions = core_functions(ascend_ir)
    for func in functions.values():
        refuse_foreign_code(func)
    lowered = {core: lower_function(func, core) for core, func in functions.items()}
    module = build_llvm(IRModule(lowered))
    entries = {core: module.get_function(core) for core in functions}
    return HostProgram(entries, len(next(iter(functions.values())).params), keep_alive=module)


_SCALAR_CALLS = ("prim.if_then_else", "prim.likely", "tirx.reinterpret", "tirx.pow")
_STATEMENTS = (AllocBuffer, Bind, Break, BufferStore, Continue, Evaluate, For, IfThenElse, SeqStmt, While)
_BINARY = "Add Sub Mul Div Mod FloorDiv FloorMod Min Max EQ NE LT LE GT GE And Or BitwiseAnd BitwiseOr BitwiseXor LShift RShift"
_EXPRESSIONS = (
    Var, IntImm, tirx.FloatImm, StringImm, TensorLoad, Call, tirx.Cast, tirx.Select, tirx.Not, tirx.BitwiseNot,
    *(getattr(tirx, name) for name in _BINARY.split()),
)  # fmt: skip


def refuse_foreign_code(func: PrimFunc) -> None:
    """Programs may come from a file, and TIR can call any function of this process and reach any of its memory.

    Raises:
        errors.CompileError: the function does more than Ascend IR can say.
    """

    def refuse(what: str, node) -> None:
        raise CompileError(
            f"the program contains {what}, which is no instruction",
            at=getattr(node, "span", None),
            hint="this compiler did not make it; if it comes from the kernel cache, call tilelang.clear_cache()",
        )

    def see(e) -> None:
        if not isinstance(e, _EXPRESSIONS):
            refuse(type(e).__name__, e)
        if isinstance(e, Call):
            name = op_name(e) or str(e.op)
            if not (name in _SCALAR_CALLS or name == "ascend.reinterpret" or name.removeprefix(_PREFIX) in TABLE and _is_machine_call(e)):
                symbol = f" of {e.args[0]}" if name.endswith("extern") and len(e.args) else ""
                refuse(f"{name}{symbol}", e)
        elif isinstance(e, TensorLoad):
            see_element(e.source, e.indices, e)

    def see_element(buffer, indices, node) -> None:
        if scope_of(buffer) == "local.var":  # a variable of the host program
            shape = [const_int(n) for n in buffer.ty.shape]
            places = [const_int(i) for i in indices]
            if not all(n is not None and i is not None and 0 <= i < n for i, n in zip(places, shape)):
                refuse(f"an access outside of {buffer.name}", node)

    def see_statement(s) -> None:
        if not isinstance(s, _STATEMENTS):
            refuse(type(s).__name__, s)
        for e in exprs(s):
            walk_expr(e, see)
        if isinstance(s, BufferStore):
            if scope_of(s.buffer) != "local.var":
                refuse(f"a plain store to {s.buffer.name}", s)
            see_element(s.buffer, s.indices, s)

    walk(func.body, see_statement)


def lower_function(func: PrimFunc, name: str) -> PrimFunc:
    """One Ascend IR function as an ordinary TIR function `name` of int64 arguments."""
    words = [Var(f"{_name(p)}_word", "int64") for p in func.params]
    lowering = _Lowering(dict(zip(func.params, words)), DataNames(func.body, variables=True))
    unpack = [Bind(p, from_word(w, dtype_of(p))) for p, w in zip(func.params, words) if not is_buffer_var(p)]
    body = seq(unpack, lowering(lower_exits(func.body)))
    return PrimFunc(words, lower_bf16(body)).with_attr("global_symbol", name)


def _name(var) -> str:
    return var.name


def i64(value):
    """`value` (int or integer expression) as an int64 expression."""
    known = const_int(value)
    if known is not None:
        return IntImm("int64", known)
    return value if dtype_of(value) == "int64" else tirx.Cast("int64", value)


def from_word(word, dtype: str):
    """The scalar of `dtype` an argument or result word stands for."""
    if is_float(dtype):
        value = tirx.reinterpret("float64", word)
        return value if dtype == "float64" else tirx.Cast(dtype, value)
    return word if dtype == "int64" else tirx.Cast(dtype, word)


def float_word(value, dtype: str):
    """Word of a float argument of an operand of `dtype`: float64 bits of the rounded value, or the integer itself."""
    if not is_float(dtype):
        return i64(value) if not isinstance(value, tirx.FloatImm) else IntImm("int64", int(value.value))
    if isinstance(value, (tirx.FloatImm, IntImm)):
        return IntImm("int64", float_bits(round_to(float(value.value), dtype)))
    return tirx.reinterpret("int64", tirx.Cast("float64", as_dtype(value, dtype)))


class _Lowering(StmtMutator):
    """Rewrites the body of one function; `params` maps parameters to their argument words."""

    def __init__(self, params: Mapping[Var, Var], data: DataNames):
        self.gm = {p: w for p, w in params.items() if is_buffer_var(p)}
        self.local: dict[Var, tuple[int, int]] = {}
        """Tile -> its address and its number."""
        self.line = 0
        self.known = Known(data)
        self.loops = 0
        self.counting = False
        """In the part of a loop that tells what its iterations reach of GM: loops in there are no others' groups."""
        self.divided: set[For] = set()
        """Parts of loops, which have the branches of the whole."""

    # ---- statements

    def visit_AllocBuffer(self, s: AllocBuffer):
        scope = scope_of(s.buffer)
        if scope == "local.var":
            return s
        assert "address" in s.annotations, f"buffer {s.buffer.name} ({scope}) has no address: memory is not planned yet"
        address, tile = int(s.annotations["address"]), len(self.local) + 1
        self.local[s.buffer] = address, tile
        return self.declare(s, address)

    def declare(self, s: AllocBuffer, address: int) -> Evaluate:
        """Tell the machine which bytes a tile has: accesses through it have to stay inside."""
        versions, count = (const_int(n) for n in s.buffer.ty.shape)
        nbytes = count * itemsize(dtype_of(s.buffer))
        space = int(SCOPES[scope_of(s.buffer)])
        sizes = (address, nbytes, versions, int(s.annotations.get("elements", nbytes)))
        words = [IntImm("int32", space), *(IntImm("int64", n) for n in sizes), StringImm(s.buffer.name)]
        return Evaluate(Call(_call_extern(), [StringImm("tla_tile"), *words], ret_ty="int32"))

    def visit_Bind(self, s: Bind):
        self.known.bind(s)
        return self.generic(s)

    def visit_For(self, s: For):
        self.known.loop(s)
        period = None if self.counting else period_of(s)
        parts = in_windows(s) if period is None and not self.counting and s not in self.divided else None
        if parts is not None and any(period_of(x) is not None for x in parts[1]):
            self.divided |= set(parts[1])
            return seq([self.visit(x) for x in (*parts[0], *parts[1])])
        body, before = seq(_breathe(s.body), self.visit(s.body)), []
        if period is not None:
            end = Var(s.loop_var.name + "_end", dtype_of(s.loop_var))
            body, before = self.repeating(s, body, end, period), [Bind(end, self.expr(s.min + s.extent))]
        k = s.loop_var
        if const_int(s.min) != 0:
            # The back end simplifies where a loop ends that does not begin at 0, and puts calls in place of the names of their results.
            k = Var(f"{s.loop_var.name}_from_0", dtype_of(s.loop_var))
            body = seq(Bind(s.loop_var, self.expr(s.min) + k), body)
        new = For(k, IntImm(dtype_of(k), 0), self.expr(s.extent), s.kind, body, annotations=dict(s.annotations), span=s.span)
        return [*before, new]

    def repeating(self, s: For, body: Stmt, end: Var, period: int) -> Stmt:
        """An iteration of a loop up to `end` that repeats: the whole `body`, or what it reaches of GM where the machine counts."""
        some = reaching_gm(s.body)
        self.counting = True
        rest = seq(_breathe(some), self.visit(renew(some))) if some is not None else Evaluate(IntImm("int32", 0))
        self.counting = False
        self.loops += 1
        words = [IntImm("int32", self.loops), i64(s.loop_var), i64(end), IntImm("int32", period)]
        counts = Call(_call_extern(), [StringImm("tla_counts")], ret_ty="int32")
        return seq(IfThenElse(counts != 0, rest, body), Evaluate(Call(_call_extern(), [StringImm("tla_next"), *words], ret_ty="void")))

    def visit_While(self, s: While):
        return While(self.expr(s.condition), seq(_breathe(s.body), self.visit(s.body)), span=s.span)

    def visit_Evaluate(self, s: Evaluate):
        self.line = _line(s)
        return Evaluate(self.expr(s.value))

    def visit(self, stmt):
        self.line = _line(stmt) or self.line
        return super().visit(stmt)

    # ---- expressions

    def expr(self, e):
        return self.rewrite(e) if _must_change(e, self.known.bounds, self.known.data) else e

    def rewrite(self, e):
        """Replace calls of intrinsics by calls into the machine, and what LLVM code generation does not take."""
        if not _is_machine_call(e):
            wraps = integers.wraps(e, self.known.bounds, self.known.data)
            return compares.rewrite(integers.rewrite(map_children(e, self.rewrite), self.known, self.line, wraps))
        record = lookup(op_name(e))
        words = self.words(record, e)
        assert len(words) <= MAX_ARGS, f"{record.name} has {len(words)} words"
        kind, ret = ("scalar", "int64") if record.returns else ("issue", "void")
        head = [StringImm(f"tla_{kind}_{len(words)}"), IntImm("int32", opcode(record.name)), IntImm("int32", self.line)]
        call = Call(_call_extern(), [*head, *words], ret_ty=ret)
        return from_word(call, dtype_of(e)) if record.returns else call

    def words(self, record, call: Call) -> list:
        """Attribute codes, operand words and argument words of one call."""
        attrs = call.attrs or {}
        out = [IntImm("int64", self.attr_code(record, name, str(attrs[name]))) for name in record.attrs]
        count, args = len(record.operands), elements(call.args)
        operands, args = args[:count], args[count:]
        assert len(operands) == count and len(args) == len(record.args), f"{record.name}: wrong number of arguments"
        out += [self.operand(load) for load in operands]
        dtypes = [operand_parts(o)[1] for o in operands]
        for arg, value in zip(record.args, args):
            value = self.expr(value)
            dtype = {"float": lambda: scalar_dtype(record, dtypes), "value": lambda: dtype_of(value)}.get(arg.kind, lambda: "int64")()
            out.append(float_word(value, dtype))
        return out

    @staticmethod
    def attr_code(record, name: str, value: str) -> int:
        """Code of an attribute; the machine learns the texts behind codes of texts."""
        if record.attrs[name] is TEXT:
            code = native.function("machine.text_code")(value)
            assert code == record.attr_code(name, value)
        return record.attr_code(name, value)

    def operand(self, operand):
        """Operand word of a head address, reinterpreted or not."""
        load, dtype = operand_parts(operand)
        buffer = load.source
        size, indices = itemsize(dtype_of(buffer)), [self.expr(i) for i in elements(load.indices)]
        if buffer in self.gm:
            base = self.gm[buffer] + IntImm("int64", operand_base(Space.GM, dtype))
            return _offset(base, indices[0], size)
        version, element = indices
        stride = const_int(buffer.ty.shape[1])
        start, tile = self.local[buffer]
        word = IntImm("int64", operand_base(SCOPES[scope_of(buffer)], dtype, start, tile))
        return _offset(_offset(word, version, stride * size), element, size)


def _offset(word, index, scale: int):
    """`word + index * scale` with constants folded."""
    known = const_int(index)
    if known is not None:
        total = known * scale
        if total == 0:
            return word
        return IntImm("int64", int(word.value) + total) if isinstance(word, IntImm) else word + IntImm("int64", total)
    return word + i64(index) * IntImm("int64", scale)


def _line(stmt) -> int:
    return int(stmt.span.line) if stmt.span is not None else 0


def _breathe(body):
    """A call for loops that may issue nothing in their iterations: it lets an interrupt end the run."""
    issues = any(isinstance(s, Evaluate) and _is_machine_call(s.value) for s in stmts_of(body))
    return None if issues else Evaluate(Call(_call_extern(), [StringImm("tla_breathe")], ret_ty="void"))


def _is_machine_call(e) -> bool:
    return (op_name(e) or "").startswith(_PREFIX)


def _must_change(e, bounds: dict, data: DataNames) -> bool:
    found = False

    def see(x):
        nonlocal found
        found = found or _is_machine_call(x) or integers.needs_rewrite(x, bounds, data) or compares.needs_rewrite(x)

    walk_expr(e, see)
    return found


def _call_extern() -> Op:
    return Op.get("tirx.call_extern")
