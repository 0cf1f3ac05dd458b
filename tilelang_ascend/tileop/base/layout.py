"""How tiles lie in the memories of the cube core, and how GM tensors are addressed."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from ...analysis.index.magnitude import is_long, long_size
from ...ir import (
    BufferLoad,
    TensorLoad,
    Var,
    as_dtype,
    const_int,
    dtype_of,
    elements,
    imm,
    itemsize,
    op_name,
    reinterpret,
    same_bits,
    scope_of,
    sym,
    tirx,
)
from ...isa.units import BLOCK_BYTES, FRACTAL_ROWS, REPEAT_BYTES, ceil_div, round_up


@dataclass(frozen=True)
class NzLayout:
    """A matrix as NZ fractals: columns in groups of `c0`, and inside a group all rows, padded to `row_unit`.

    L1 uses c0 = 32 bytes of elements, L0C c0 = 16 elements. Element (r, c) lies at
    `(c // c0) * rows_padded * c0 + r * c0 + c % c0`.

    With `by_rows` the fractals of 16 rows follow each other first: the two halves of a 16x16 square of 32-bit elements, which
    transposing loads take together, are then neighbours, and one load takes several rows to L0. Element (r, c) lies at
    `(r // 16) * cols_padded * 16 + (c // c0) * 16 * c0 + r % 16 * c0 + c % c0`.

    `rows_behind`: rows of memory behind the last fractal, which whole fractals from a row inside of one reach into.
    """

    rows: int
    cols: int
    c0: int
    row_unit: int = FRACTAL_ROWS
    by_rows: bool = False
    col_unit: int = 1
    rows_behind: int = 0

    @cached_property
    def rows_padded(self) -> int:
        return ceil_div(self.rows, self.row_unit) * self.row_unit

    @cached_property
    def col_groups(self) -> int:
        return ceil_div(ceil_div(self.cols, self.col_unit) * self.col_unit, self.c0)

    @property
    def single_column(self) -> bool:
        """True for one column that is padded to more than its group: transfers fill no more than that."""
        return self.cols == 1 and self.col_groups > 1

    @property
    def group_rows(self) -> int:
        """Rows from a column group to the next."""
        return FRACTAL_ROWS if self.by_rows else self.rows_padded

    @property
    def fractal_steps(self) -> tuple[int, int]:
        """Fractals from a fractal to the one below it, and to the one right of it."""
        return (self.col_groups, 1) if self.by_rows else (1, self.rows_padded // FRACTAL_ROWS)

    @cached_property
    def elements(self) -> int:
        return (self.col_groups * self.rows_padded + self.rows_behind) * self.c0

    def offset(self, row, col):
        """Element offset of (row, col); `col` must be a multiple of c0."""
        if self.by_rows:
            block, inside = tirx.floordiv(row, imm(FRACTAL_ROWS)), tirx.floormod(row, imm(FRACTAL_ROWS))
            return (block * (self.col_groups * FRACTAL_ROWS) + tirx.floordiv(col, imm(self.c0)) * FRACTAL_ROWS + inside) * self.c0
        return tirx.floordiv(col, imm(self.c0)) * (self.rows_padded * self.c0) + row * self.c0


def matrix_shape(shape) -> tuple[int, int]:
    """(rows, columns) of a tile whose leading dimensions are 1; a vector is one row."""
    sizes = [const_int(n) for n in shape]
    assert all(n == 1 for n in sizes[:-2]), sizes
    return (sizes[-2], sizes[-1]) if len(sizes) > 1 else (1, sizes[-1])


def l1_layout(shape, dtype: str, transposed: bool = False, entered_anywhere: bool = False, by_rows: bool = False) -> NzLayout:
    """Layout of a gemm operand in L1; `transposed` if a gemm reads it with K along the rows, `entered_anywhere` if one may begin at rows
    inside of a fractal, `by_rows` if fractals of 16-bit elements are to follow each other by rows.

    Transposing loads work on squares: one-byte types pad rows to 32, four-byte types columns to 16.
    """
    size = itemsize(dtype)
    return NzLayout(
        *matrix_shape(shape),
        c0=BLOCK_BYTES // size,
        row_unit=32 if size == 1 else FRACTAL_ROWS,
        by_rows=by_rows or transposed and size == 4,
        col_unit=FRACTAL_ROWS if size == 4 else 1,
        rows_behind=FRACTAL_ROWS if entered_anywhere else 0,
    )


def l0c_layout(shape, dtype: str) -> NzLayout:
    """Layout of an accumulator in L0C: both dimensions padded to 16, columns of integer accumulators to 32 (see gemm)."""
    rows, cols = matrix_shape(shape)
    if dtype == "int32":
        cols = ceil_div(cols, 2 * FRACTAL_ROWS) * 2 * FRACTAL_ROWS
    return NzLayout(rows, cols, c0=FRACTAL_ROWS)


def tile_bytes(buffer) -> int:
    """Bytes of one version of a placed tile (UB rows padded to a block, the whole to a repeat)."""
    shape, size = [const_int(n) for n in elements(buffer.ty.shape)], itemsize(dtype_of(buffer))
    if scope_of(buffer) == "shared.l1":
        return l1_layout(shape, dtype_of(buffer)).elements * size
    if scope_of(buffer) == "local.l0c":
        return l0c_layout(shape, dtype_of(buffer)).elements * size
    nbytes = ceil_div(shape[-1] * size, BLOCK_BYTES) * BLOCK_BYTES
    for n in shape[:-1]:
        nbytes *= n
    return round_up(nbytes, REPEAT_BYTES)


@dataclass(frozen=True)
class GmTensor:
    """A GM tensor: flat Ascend-level buffer, N-D shape, strides and base offset in elements, and what its outside reads as. `versioned`: the first
    index numbers versions."""

    flat: Var
    shape: tuple
    strides: tuple
    base: object = 0
    outside: object = 0
    versioned: bool = False

    @cached_property
    def wide(self) -> bool:
        """True unless every offset fits 32 bits."""
        total = 1 if isinstance(self.base, int) or dtype_of(self.base) == "int32" else 2**31
        for n, s in zip(self.shape, self.strides):
            n, s = const_int(n), const_int(s)
            if n is None or s is None:
                return True
            total += (n + 1) * abs(s)
        return total >= 2**31

    def offset(self, indices, analyzer: sym.Analyzer):
        """Element offset of an index tuple, 64-bit where needed. The number of a version stays what it is: where a loop begins, `k % 3` is `k`, and
        nobody could tell any more which iterations have the same version."""
        total, first = self.base, imm(0)
        for i, s in zip(indices, self.strides):
            if self.wide:
                i, s = (x if isinstance(x, int) else as_dtype(x, "int64") for x in (i, s))
            if self.versioned and isinstance(i, tirx.FloorMod) and i is indices[0]:
                first = i * s
            else:
                total = total + i * s
        rest = imm(total, "int64" if self.wide else "int32") if isinstance(total, int) else analyzer.simplify(total)
        return rest if const_int(first) == 0 else first if const_int(rest) == 0 else first + rest

    def further(self, offset, count, pitch):
        """The offset `count` times `pitch` elements behind another one."""
        if isinstance(count, int):
            return offset + product(count, pitch) if self.wide else offset + count * pitch
        return offset + (product(as_dtype(count, "int64"), pitch) if self.wide else count * pitch)


def row_major(shape) -> tuple:
    """Strides of a compact row-major tensor: int64 where run time says how large products are."""
    strides = [1]
    for n in reversed(list(shape)[1:]):
        strides.append(product(strides[-1], n))
    return tuple(reversed(strides))


def shape_and_strides(buffer) -> tuple[tuple, tuple]:
    """Of a tensor in GM; sizes that an int32 need not hold are int64."""
    shape = tuple(long_size(n) if const_int(n) is None and is_long(n) else n for n in buffer.ty.shape)
    return shape, tuple(buffer.strides) or row_major(shape)


def product(a, b):
    """Elements of `a` things of `b` elements: a Python int where both are known, else an int64 unless one of them is 1."""
    a, b = (x if const_int(x) is None else const_int(x) for x in (a, b))
    if isinstance(a, int) and isinstance(b, int):
        return a * b
    if a == 1 or b == 1:
        return b if isinstance(a, int) else a
    return _int64(a) * _int64(b)


def _int64(x):
    return imm(x, "int64") if isinstance(x, int) else as_dtype(x, "int64")


def head(buffer, version, offset) -> BufferLoad:
    """Operand: address of `buffer[version, offset]`; of `buffer[offset]` in GM (version None)."""
    indices = [offset] if version is None else [version, offset]
    return BufferLoad(buffer, [imm(i) if isinstance(i, int) else i for i in indices])


def moved(operand):
    """An operand of a transfer that changes nothing. No transfer knows float64: those are integers of 64 bits to it."""
    return reinterpret(operand, "int64") if dtype_of(operand) == "float64" else operand


def element_read(e):
    """(load, dtype) if `e` is an element of memory, or its bits as another dtype: not through a register, which knows one NaN only."""
    if op_name(e) == "tirx.reinterpret" and isinstance(e.args[0], TensorLoad) and scope_of(e.args[0].source) != "local.var":
        return e.args[0], dtype_of(e)
    return (e, dtype_of(e)) if isinstance(e, TensorLoad) and scope_of(e.source) != "local.var" else None


def moved_element(value):
    """An element of float64 that is stored as it is goes through a register as its bits: no register holds the number."""
    read = element_read(value)
    if read is None or read[1] != "float64":
        return value
    return same_bits(read[0], "int64")


def element_written(address, value) -> tuple:
    """(address, value) of `set_value`: the bits of a number of another dtype are written as that number."""
    if (dtype_of(address), dtype_of(value)) == ("float64", "int64"):
        return reinterpret(address, "int64"), value
    if op_name(value) == "tirx.reinterpret":
        return reinterpret(address, dtype_of(value.args[0])), value.args[0]
    return address, value


__all__ = [
    "GmTensor",
    "NzLayout",
    "ceil_div",
    "element_read",
    "element_written",
    "head",
    "l0c_layout",
    "l1_layout",
    "matrix_shape",
    "moved",
    "moved_element",
    "product",
    "row_major",
    "tile_bytes",
]
