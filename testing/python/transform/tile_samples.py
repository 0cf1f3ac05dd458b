"""Hand-built Tile IR functions for tests of single passes (the front end has tests of its own)."""

from __future__ import annotations

from tilelang_ascend.ir import (
    AllocBuffer,
    BufferStore,
    For,
    ForKind,
    PrimFunc,
    decl_buffer,
    full_region,
    imm,
    loop,
    region,
    seq,
    tirx,
)
from tilelang_ascend.tile import tile_op


def ceildiv(a, b):
    """Python or IR ceiling division."""
    return -(-a // b) if isinstance(a, int) else tirx.floordiv(a + (b - 1), imm(b))


def grid(axes, body):
    """Nested grid loops, first axis outermost."""
    for n, (var, extent) in reversed(list(enumerate(axes))):
        body = loop(var, extent, body, tl__grid=n)
    return body


def parallel(axes, body):
    """A `T.Parallel` nest."""
    for n, (var, extent) in reversed(list(enumerate(axes))):
        notes = {"tl.parallel": len(axes)} if n == 0 else {}
        body = For(var, imm(0), imm(extent) if isinstance(extent, int) else extent, ForKind.PARALLEL, body, annotations=notes)
    return body


def gemm(m, n, k, bm=128, bn=128, bk=32, dtype="float16", out="float16", trans_a=0, trans_b=0, epilogue=None, stages=3):
    """C = A @ B in the plain GPU style, with an optional epilogue(C_local, i, j) -> expr through T.Parallel."""
    acc = "int32" if dtype == "int8" else "float32"
    a = decl_buffer((k, m) if trans_a else (m, k), dtype, "A")
    b = decl_buffer((n, k) if trans_b else (k, n), dtype, "B")
    c = decl_buffer((m, n), out, "C")
    a_s = decl_buffer((bk, bm) if trans_a else (bm, bk), dtype, "A_shared", scope="shared")
    b_s = decl_buffer((bn, bk) if trans_b else (bk, bn), dtype, "B_shared", scope="shared")
    c_l = decl_buffer((bm, bn), acc, "C_local", scope="local.fragment")
    bx, by, ko = (tirx.Var(x, "int32") for x in ("bx", "by", "k"))
    a_src = region(a, [ko * bk, by * bm], [bk, bm]) if trans_a else region(a, [by * bm, ko * bk], [bm, bk])
    b_src = region(b, [bx * bn, ko * bk], [bn, bk]) if trans_b else region(b, [ko * bk, bx * bn], [bk, bn])
    inner = seq(
        tile_op("copy", a_src, full_region(a_s)),
        tile_op("copy", b_src, full_region(b_s)),
        tile_op(
            "gemm", full_region(a_s), full_region(b_s), full_region(c_l), imm(False, "bool"),
            transpose_A=trans_a, transpose_B=trans_b,
        ),
    )  # fmt: skip
    rest = []
    if epilogue:
        i, j = tirx.Var("i", "int32"), tirx.Var("j", "int32")
        rest.append(parallel([(i, bm), (j, bn)], BufferStore(c_l, epilogue(c_l, i, j), [i, j])))
    body = seq(
        AllocBuffer(a_s), AllocBuffer(b_s), AllocBuffer(c_l),
        tile_op("fill", full_region(c_l), imm(0, acc)),
        loop(ko, ceildiv(k, bk), inner, num_stages=stages),
        rest,
        tile_op("copy", full_region(c_l), region(c, [by * bm, bx * bn], [bm, bn])),
    )  # fmt: skip
    return PrimFunc([a, b, c], grid([(bx, ceildiv(n, bn)), (by, ceildiv(m, bm))], body)).with_attr("global_symbol", "gemm")


def add(n, block=1024, dtype="float32", staged=True):
    """C = A + B, 1-D, with staging buffers or directly on GM."""
    a, b, c = (decl_buffer((n,), dtype, x) for x in "ABC")
    bx, i = tirx.Var("bx", "int32"), tirx.Var("i", "int32")
    if not staged:
        at = bx * block + i
        body = parallel([(i, block)], BufferStore(c, a[at] + b[at], [at]))
    else:
        a_s, b_s, c_s = (decl_buffer((block,), dtype, f"{x}_shared", scope="shared") for x in "ABC")
        body = seq(
            AllocBuffer(a_s), AllocBuffer(b_s), AllocBuffer(c_s),
            tile_op("copy", region(a, [bx * block], [block]), full_region(a_s)),
            tile_op("copy", region(b, [bx * block], [block]), full_region(b_s)),
            parallel([(i, block)], BufferStore(c_s, a_s[i] + b_s[i], [i])),
            tile_op("copy", full_region(c_s), region(c, [bx * block], [block])),
        )  # fmt: skip
    return PrimFunc([a, b, c], grid([(bx, ceildiv(n, block))], body)).with_attr("global_symbol", "add")


def minicv(m=1024, n=1024, k=512, bm=128, bn=256):
    """C = A @ B and D = exp(C)."""
    a, b = decl_buffer((m, k), "float16", "A"), decl_buffer((k, n), "float16", "B")
    c, d = decl_buffer((m, n), "float32", "C"), decl_buffer((m, n), "float32", "D")
    a_b, b_b = decl_buffer((bm, k), "float16", "A_BUF", scope="shared"), decl_buffer((k, bn), "float16", "B_BUF", scope="shared")
    c_b, d_b = (decl_buffer((bm, bn), "float32", x, scope="local.fragment") for x in ("C_BUF", "D_BUF"))
    bx, by, i, j = (tirx.Var(x, "int32") for x in ("bx", "by", "i", "j"))
    body = seq(
        AllocBuffer(a_b), AllocBuffer(b_b), AllocBuffer(c_b), AllocBuffer(d_b),
        tile_op("copy", region(a, [bx * bm, 0], [bm, k]), full_region(a_b)),
        tile_op("copy", region(b, [0, by * bn], [k, bn]), full_region(b_b)),
        tile_op("gemm", full_region(a_b), full_region(b_b), full_region(c_b), imm(True, "bool"), transpose_A=0, transpose_B=0),
        parallel([(i, bm), (j, bn)], BufferStore(d_b, tirx.exp(c_b[i, j]), [i, j])),
        tile_op("copy", full_region(c_b), region(c, [bx * bm, by * bn], [bm, bn])),
        tile_op("copy", full_region(d_b), region(d, [bx * bm, by * bn], [bm, bn])),
    )  # fmt: skip
    return PrimFunc([a, b, c, d], grid([(bx, m // bm), (by, n // bn)], body)).with_attr("global_symbol", "minicv")
