"""Output of a kernel: `tl.print`, `tl.printf` and `tl.device_assert`.

    print(x[0:2, 0:8]; "x")        printf("x[%d] = ", i); dump_tensor(x[i, 0], line, 8)     for i in 0..1
    printf(a, b; "%d of %d")       printf_2(a, b; "%d of %d")
    device_assert(c, v; "v = %d")  if not c: printf_1(v; "v = %d"); trap()

Rows are dumped one by one because rows of a tile may be padded. What cannot be dumped in place (a part of a tile that starts inside
a block) is printed element by element.
"""

from __future__ import annotations

from ...ir import (
    Bind,
    BufferLoad,
    Evaluate,
    Stmt,
    Var,
    as_expr,
    attrs_of,
    call,
    const_int,
    conversion,
    dtype_of,
    if_then,
    imm,
    intrin,
    itemsize,
    loop,
    printable,
    reinterpret,
    seq,
    structural_equal,
    tirx,
)
from ...isa import lookup
from ...isa.debug import conversions, pieces
from ...isa.units import BLOCK_BYTES
from ...tile import DEVICE_ASSERT, PRINTF, is_op
from ..base.context import VectorContext
from ..base.tiles import is_tile


def lower_output(stmt: Evaluate, ctx: VectorContext) -> Stmt:
    """Instructions of a printing op whose scalar arguments read no memory any more."""
    args, attrs = list(stmt.value.args), attrs_of(stmt)
    text = str(attrs["format"])
    if is_op(stmt, PRINTF):
        return seq(printf(text, args, stmt.span))
    if is_op(stmt, DEVICE_ASSERT):
        stop = seq(printf(text, args[1:], stmt.span), intrin("trap", span=stmt.span))
        return if_then(tirx.Not(args[0]), stop, span=stmt.span)
    return _Print(ctx, args[0], int(attrs["desc"]), stmt.span).statement(text, args[1:])


def printf(text: str, values: list, span) -> list[Stmt]:
    """One call for every few values."""
    out, values = [], list(values)
    for piece in pieces(text):
        count = len(conversions(piece))
        out.append(intrin(f"printf_{count}", *values[:count], format=piece, span=span))
        del values[:count]
    assert not values, f"{len(values)} values too many for {text!r}"
    return out


class _Print:
    """One region of a tile or of GM, row by row."""

    def __init__(self, ctx: VectorContext, region, desc: int, span):
        self.ctx, self.span, self.desc = ctx, span, desc
        self.buffer = region.source
        self.mins = [as_expr(r.min) for r in region.region]
        # Regions may hang over the edge of a tensor.
        self.extents = [_inside(r, n) for r, n in zip(region.region, self.buffer.ty.shape)]
        self.dtype = dtype_of(self.buffer)
        if self.dtype not in lookup("dump_tensor").dtypes(ctx.chip.generation):
            self.dtype = "uint8"  # the chip has no number of this type: its bytes

    def statement(self, head: str, values: list) -> Stmt:
        """Heading and elements of every row."""
        if self.dtype != dtype_of(self.buffer) != "bool":
            head += f" ({dtype_of(self.buffer)} as bytes)"
        loops = {d: Var(f"row{d}", "int32") for d in range(len(self.mins) - 1) if const_int(self.extents[d]) != 1}
        indices = [m + loops[d] if d in loops else m for d, m in enumerate(self.mins)]
        if len(indices) > 1:
            head += f"[{', '.join(conversion(i) for i in indices[:-1])}]"
            values = [*values, *indices[:-1]]
        body = seq(printf(head + " = ", values, self.span), self.row(indices))
        for d, var in reversed(loops.items()):
            body = loop(var, self.extents[d], body, span=self.span)
        return body

    def row(self, indices: list) -> Stmt:
        """The innermost dimension: one dump where the hardware reads it in place."""
        if self.in_place():
            return intrin("dump_tensor", self.address(indices), imm(self.desc), self.extents[-1], span=self.span)
        column, element = Var("column", "int32"), Var("element", self.dtype)
        read = call("ascend.get_value", [self.address([*indices[:-1], indices[-1] + column])], dtype=self.dtype, span=self.span)
        value = printable(element)
        return seq(
            printf("[", [], self.span),
            loop(column, self.extents[-1], seq(
                if_then(column > 0, seq(printf(", ", [], self.span)), span=self.span),
                Bind(element, read, span=self.span),
                printf(conversion(value), [value], self.span),
            ), span=self.span),
            printf("]\n", [], self.span),
        )  # fmt: skip

    def in_place(self) -> bool:
        """True if every row is contiguous and starts where an instruction may start."""
        if not is_tile(self.buffer):
            strides = list(self.buffer.strides or [])
            return not strides or const_int(strides[-1]) == 1
        size, start = itemsize(dtype_of(self.buffer)), const_int(self.mins[-1])
        strides = self.ctx.layout(self.buffer).strides
        return start is not None and start * size % BLOCK_BYTES == 0 and all(s * size % BLOCK_BYTES == 0 for s in strides[:-1])

    def address(self, indices: list):
        """Head address of one element."""
        if not is_tile(self.buffer):
            assert self.ctx.gm_address is not None, "elements of GM need ctx.gm_address"
            address = self.ctx.gm_address(self.buffer, indices)
        else:
            layout = self.ctx.layout(self.buffer)
            offset = sum((i * s for i, s in zip(indices, layout.strides)), imm(0))
            address = BufferLoad(layout.buffer, [as_expr(layout.version), offset])
        return address if self.dtype == dtype_of(self.buffer) else reinterpret(address, self.dtype)


def _inside(r, size):
    """Extent of the part of a range that lies inside a dimension."""
    low, extent, end = const_int(r.min), const_int(r.extent), const_int(size)
    if low == 0 and (structural_equal(as_expr(r.extent), as_expr(size)) or None not in (extent, end) and extent <= end):
        return as_expr(r.extent)
    if None not in (low, extent, end) and low + extent <= end:
        return as_expr(r.extent)
    return tirx.max(tirx.min(r.extent, size - r.min), imm(0))
