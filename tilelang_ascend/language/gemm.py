"""`T.gemm`: matrix multiply-accumulate on tiles."""

from __future__ import annotations

from dataclasses import replace

from ..errors import DtypeMismatch, InvalidArgument, NonStaticShape, ShapeMismatch
from ..frontend.builder import Builder, constant
from ..frontend.keywords import Ignored
from ..frontend.operators import as_bool, as_scalar, binop, plain
from ..frontend.values import is_expr
from ..ir import Var, loop, scope_of, tirx
from ..tile import tile_op
from ..tile.factors import factor_dtype
from .hints import GemmWarpPolicy
from .regions import TileOperand, sized, tile_operand


def gemm(
    A, B, C, transpose_A=False, transpose_B=False, policy: Ignored = GemmWarpPolicy.Square, clear_accum=False, *, initC=None,
    size=None, k_pack: Ignored = 1, wg_wait: Ignored = 0, mbar: Ignored = None, enable_hf32: Ignored = False, annotations: Ignored = None
) -> None:  # fmt: skip
    """``C += A @ B``, or ``C = A @ B`` where `clear_accum` holds.

    A is MxK (KxM if `transpose_A`), B is KxN (NxK if `transpose_B`), C is MxN. With leading dimensions in C there is one product for
    each of its matrices, and A and B have as many matrices or one. The tiles' shapes must be static. Operands of two dtypes, or of one that the
    cube core does not multiply, are converted to one that holds both exactly. `initC` is the NPU spelling of `clear_accum`; a size list
    ``[m, k, n]`` may follow C. `policy` is a hint.
    """
    if isinstance(transpose_A, (list, tuple)):
        size, transpose_A = transpose_A, False
    ta, tb = _flag(transpose_A, "transpose_A"), _flag(transpose_B, "transpose_B")
    a, b, c = _operands(A, B, C, ta, tb, size)
    for op, name in ((a, "A"), (b, "B"), (c, "C")):
        if scope_of(op.buffer) in ("global", ""):
            raise InvalidArgument(
                f"T.gemm works on tiles; {name} = {op.describe()} is in global memory",
                hint="copy it to T.alloc_shared first" if name != "C" else "accumulate in a T.alloc_fragment and copy that",
            )
    _check_shapes(a, b, c, ta, tb)
    if factor_dtype(a.dtype, b.dtype) is None:
        raise DtypeMismatch(f"T.gemm: A is {a.dtype}, B is {b.dtype}", hint="copy one of them into a buffer of the other's dtype")
    clear = as_bool(plain(clear_accum if initC is None else initC))
    clear = clear if is_expr(clear) else tirx.const(bool(clear), "bool")
    builder = Builder.current("T.gemm")
    attrs = {"transpose_A": int(ta), "transpose_B": int(tb)}
    batch = _batch(a, b, c)
    loops = [Var("matrix", "int32") for _ in batch]
    product = tile_op("gemm", *(_matrix_of(op, loops).region() for op in (a, b, c)), as_scalar(clear), span=builder.span(), **attrs)
    for var, extent in reversed(list(zip(loops, batch))):
        product = loop(var, extent, product, span=builder.span())
    builder.emit(product)


def _leading(op: TileOperand) -> list[int]:
    """Leading dimensions along which an operand has more than one matrix."""
    return [d for d, e in enumerate(op.extents[:-2]) if constant(e) != 1]


def _batch(a: TileOperand, b: TileOperand, c: TileOperand) -> list:
    """Numbers of matrices of C along its leading dimensions."""
    batch = [constant(c.extents[d]) for d in _leading(c)]
    for op, name in ((a, "A"), (b, "B"), (c, "C")):
        found = [constant(op.extents[d]) for d in _leading(op)]
        if None in found or (found and found != batch):
            raise ShapeMismatch(
                f"T.gemm: {name} = {op.describe()} is not a matrix, nor one for each matrix of C = {c.describe()}",
                hint="slice it down to two dimensions, or give C the same leading dimensions",
            )
    return batch


def _matrix_of(op: TileOperand, loops: list) -> TileOperand:
    """The matrix of an operand in one iteration of the loops over the matrices of C."""
    at = dict(zip(_leading(op), loops))
    mins = tuple(binop("Add", m, at[d]) if d in at else m for d, m in enumerate(op.mins))
    return replace(op, mins=mins, extents=(*(1 for _ in op.extents[:-2]), *op.extents[-2:]))


def _flag(value, name: str) -> bool:
    value = plain(value)
    known = constant(value) if is_expr(value) else value
    if known is None:
        raise InvalidArgument(f"{name} of T.gemm must be known when the kernel is compiled, got {value}")
    return bool(known)


def _operands(A, B, C, ta: bool, tb: bool, size) -> tuple[TileOperand, TileOperand, TileOperand]:
    names = ("A", "B", "C")
    if size is None:
        a, b, c = (tile_operand(v, f"operand {n} of T.gemm") for v, n in zip((A, B, C), names))
        return a, b, c
    if len(size) != 3:
        raise InvalidArgument(f"the size list of T.gemm is [m, k, n], got {list(size)}")
    m, k, n = size
    sizes = ([k, m] if ta else [m, k], [n, k] if tb else [k, n], [m, n])
    a, b, c = (sized(v, s, f"operand {x} of T.gemm") for v, s, x in zip((A, B, C), sizes, names))
    return a, b, c


def _matrix(op: TileOperand, name: str) -> tuple[int, int]:
    if len(op.extents) < 2:
        raise ShapeMismatch(
            f"T.gemm: {name} = {op.describe()} is not a matrix",
            hint="give it two dimensions",
        )
    rows, columns = constant(op.extents[-2]), constant(op.extents[-1])
    if rows is None or columns is None:
        axis = -2 if rows is None else -1
        raise NonStaticShape(axis=len(op.extents) + axis, what=f"operand {name} of T.gemm ({op.buffer.name})", expr=op.extents[axis])
    return int(rows), int(columns)


def _check_shapes(a: TileOperand, b: TileOperand, c: TileOperand, ta: bool, tb: bool) -> None:
    (am, ak), (bk, bn), (cm, cn) = _matrix(a, "A"), _matrix(b, "B"), _matrix(c, "C")
    if ta:
        am, ak = ak, am
    if tb:
        bk, bn = bn, bk
    problems = []
    if ak != bk:
        problems.append(f"A has K = {ak}, B has K = {bk}")
    if am != cm:
        problems.append(f"A has M = {am}, C has M = {cm}")
    if bn != cn:
        problems.append(f"B has N = {bn}, C has N = {cn}")
    if problems:
        notes = [
            f"A = {a.describe()}, transpose_A={ta}",
            f"B = {b.describe()}, transpose_B={tb}",
            f"C = {c.describe()}",
        ]
        raise ShapeMismatch("T.gemm: " + "; ".join(problems), notes=notes, hint=_repair(am, ak, bk, bn, cm, cn))


def _repair(am, ak, bk, bn, cm, cn) -> str:
    if ak == bn and bk == cn:
        return "B looks transposed: write transpose_B=True (or drop it)"
    if am == bk and ak == cm:
        return "A looks transposed: write transpose_A=True (or drop it)"
    return "A is MxK, B is KxN, C is MxN"


NAMES = ("gemm",)
