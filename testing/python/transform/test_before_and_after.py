"""What each pass is for, on the smallest program that shows it: the text before and the text after, or the refusal."""

from pathlib import Path
from textwrap import dedent
from types import SimpleNamespace

import pytest

from tilelang_ascend.arch import get_chip
from tilelang_ascend.errors import TilelangAscendError
from tilelang_ascend.ir import IRModule, PrimFunc, parse, same_program
from tilelang_ascend.transform import pipeline
from tilelang_ascend.transform.driver import Apart, Direct
from tilelang_ascend.transform.memory.version_buffers import Sharing
from tilelang_ascend.transform.stages import Stage

CHIP = get_chip("a2")
PASSES = {p.name: p for p in pipeline.PASSES}

PAIRS = {
    "split_launches": (
        """
        @T.prim_func
        def main(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32"), n: T.int32):
            W = T.alloc_buffer((16,), "float32", scope="global")
            once = T.alloc_buffer((16,), "float32", scope="global")
            k: T.let[T.int32] = n * 2
            for bx in T.serial(4, annotations={"tl.grid": 0}):
                T.tl.copy(A[bx * 4:bx * 4 + 4], W[bx * 4:bx * 4 + 4])
            T.tl.print(W[0:16])
            for bx in T.serial(k, annotations={"tl.grid": 0}):
                T.tl.copy(W[bx * 2:bx * 2 + 2], once[bx * 2:bx * 2 + 2])
                T.tl.copy(once[bx * 2:bx * 2 + 2], B[bx * 2:bx * 2 + 2])
        """,
        """
        @I.ir_module
        class Module:
            @T.prim_func
            def main_1(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32"), n: T.int32, W: T.Buffer((16,), "float32")):
                T.func_attr({"ascend.launch": 0, "ascend.num_shared": 1, "global_symbol": "main_1"})
                k: T.let[T.int32] = n * 2
                for bx in T.serial(4, annotations={"tl.grid": 0}):
                    T.tl.copy(A[bx * 4:bx * 4 + 4], W[bx * 4:bx * 4 + 4])
            @T.prim_func
            def main_2(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32"), n: T.int32, W: T.Buffer((16,), "float32")):
                T.func_attr({"ascend.launch": 1, "ascend.num_shared": 1, "global_symbol": "main_2"})
                once = T.alloc_buffer((16,), "float32", scope="global")
                k: T.let[T.int32] = n * 2
                T.tl.print(W[0:16])
                for bx in T.serial(k, annotations={"tl.grid": 0}):
                    T.tl.copy(W[bx * 2:bx * 2 + 2], once[bx * 2:bx * 2 + 2])
                    T.tl.copy(once[bx * 2:bx * 2 + 2], B[bx * 2:bx * 2 + 2])
        """,
    ),
    "drop_continues": (
        """
        @T.prim_func
        def main(M: T.Buffer((8,), "int32"), A: T.Buffer((8, 64), "float32"), Y: T.Buffer((64,), "float32")):
            for k in range(8):
                if M[k] == 0:
                    T.evaluate(T.continue_loop())
                T.tl.copy(A[k, 0:64], Y[0:64])
        """,
        """
        @T.prim_func
        def main(M: T.Buffer((8,), "int32"), A: T.Buffer((8, 64), "float32"), Y: T.Buffer((64,), "float32")):
            for k in range(8):
                if M[k] != 0:
                    T.tl.copy(A[k, 0:64], Y[0:64])
        """,
    ),
    "name_variables": (
        """
        @T.prim_func
        def main(X: T.Buffer((8,), "int32"), A: T.Buffer((64,), "float32"), Y: T.Buffer((64,), "float32")):
            n = T.alloc_buffer((1,), "int32", scope="local.var")
            n[0] = 0
            n[0] = X[0]
            T.tl.copy(A[n[0]:n[0] + 8], Y[0:8])
            n[0] = n[0] + 1
            for k in range(n[0]):
                T.tl.copy(A[k:k + 8], Y[k:k + 8])
            m = T.alloc_buffer((1,), "int32", scope="local.var")
            m[0] = 0
            for q in range(8):
                m[0] = T.max(m[0], X[q])
            for k in range(m[0]):
                T.tl.copy(A[k:k + 8], Y[k:k + 8])
        """,
        """
        @T.prim_func
        def main(X: T.Buffer((8,), "int32"), A: T.Buffer((64,), "float32"), Y: T.Buffer((64,), "float32")):
            first: T.let[T.int32] = 0
            n: T.let[T.int32] = X[0]
            T.tl.copy(A[n:n + 8], Y[0:8])
            n_1: T.let[T.int32] = n + 1
            for k in range(n_1):
                T.tl.copy(A[k:k + 8], Y[k:k + 8])
            m = T.alloc_buffer((1,), "int32", scope="local.var")
            m[0] = 0
            for q in range(8):
                m[0] = T.max(m[0], X[q])
            m_1: T.let[T.int32] = m[0]
            for k in range(m_1):
                T.tl.copy(A[k:k + 8], Y[k:k + 8])
        """,
    ),
    "wrap_products": (
        """
        @T.prim_func
        def main(X: T.Buffer((10,), "int32"), Y: T.Buffer((8,), "int32")):
            for i in range(8):
                Y[i] = X[i * 1103515245 % 10]
        """,
        """
        @T.prim_func
        def main(X: T.Buffer((10,), "int32"), Y: T.Buffer((8,), "int32")):
            for i in range(8):
                Y[i] = X[T.Cast("int32", T.Cast("uint32", i) * T.uint32(1103515245)) % 10]
        """,
    ),
    "resolve_tensor_views": (
        """
        @T.prim_func
        def main(X: T.Buffer((8, 16), "float32")):
            flat = T.alloc_buffer((128,), "float32")
            T.tl.view(flat[0:128], X[0:8, 0:16])
            flat[20] = T.float32(1)
        """,
        """
        @T.prim_func
        def main(X: T.Buffer((128,), "float32")):
            X[20] = T.float32(1.0)
        """,
    ),
    "forward_elements": (
        """
        @T.prim_func
        def main(A: T.Buffer((32, 32), "float16"), P: T.Buffer((4,), "int32"), C: T.Buffer((32, 32), "float32")):
            p = T.alloc_shared((4,), "int32")
            a = T.alloc_shared((32, 32), "float16")
            c = T.alloc_buffer((32, 32), "float32", scope="local.fragment")
            T.tl.copy(P[0:4], p[0:4])
            T.tl.copy(A[p[1]:p[1] + 32, 0:32], a[0:32, 0:32])
            T.Call("tl.gemm", [a[0:32, 0:32], a[0:32, 0:32], c[0:32, 0:32], T.bool(True)], attrs={"transpose_A": 0, "transpose_B": 0}, ret_ty="void")
            T.tl.copy(c[0:32, 0:32], C[0:32, 0:32])
        """,
        """
        @T.prim_func
        def main(A: T.Buffer((32, 32), "float16"), P: T.Buffer((4,), "int32"), C: T.Buffer((32, 32), "float32")):
            p = T.alloc_shared((4,), "int32")
            a = T.alloc_shared((32, 32), "float16")
            c = T.alloc_buffer((32, 32), scope="local.fragment")
            T.tl.copy(P[0:4], p[0:4])
            T.tl.copy(A[P[1]:P[1] + 32, 0:32], a[0:32, 0:32])
            T.Call("tl.gemm", [a[0:32, 0:32], a[0:32, 0:32], c[0:32, 0:32], T.bool(True)], attrs={"transpose_A": 0, "transpose_B": 0}, ret_ty="void")
            T.tl.copy(c[0:32, 0:32], C[0:32, 0:32])
        """,
    ),
    "bind_elements": (
        """
        @T.prim_func
        def main(X: T.Buffer((64,), "float32"), N: T.Buffer((4,), "int32")):
            n = T.alloc_shared((4,), "int32")
            T.tl.copy(N[0:4], n[0:4])
            if n[2] > 3:
                T.tl.fill(X[0:64], T.float32(0))
        """,
        """
        @T.prim_func
        def main(X: T.Buffer((64,), "float32"), N: T.Buffer((4,), "int32")):
            n = T.alloc_shared((4,), "int32")
            T.tl.copy(N[0:4], n[0:4])
            n_v: T.let[T.int32] = n[2]
            if n_v > 3:
                T.tl.fill(X[0:64], T.float32(0.0))
        """,
    ),
    "free_tiles": (
        """
        @T.prim_func
        def main(X: T.Buffer((6, 128), "float32"), Y: T.Buffer((6, 128), "float32")):
            for block in T.serial(5, annotations={"tl.grid": 0}):
                t = T.alloc_shared((64,), "float32")
                for w in T.serial(3):
                    tile: T.let[T.int32] = w * 5 + block
                    if tile // 2 < 6:
                        T.tl.copy(X[tile // 2, tile % 2 * 64:tile % 2 * 64 + 64], t[0:64])
                        T.tl.copy(t[0:64], Y[tile // 2, tile % 2 * 64:tile % 2 * 64 + 64])
        """,
        """
        @T.prim_func
        def main(X: T.Buffer((6, 128), "float32"), Y: T.Buffer((6, 128), "float32")):
            for bx in T.serial(2, annotations={"tl.grid": 0}):
                for by in T.serial(6, annotations={"tl.grid": 1}):
                    t = T.alloc_shared((64,), "float32")
                    T.tl.copy(X[by, bx * 64:bx * 64 + 64], t[0:64])
                    T.tl.copy(t[0:64], Y[by, bx * 64:bx * 64 + 64])
        """,
        {"notes": []},
    ),
    "known_extents": (
        """
        @T.prim_func
        def main(X: T.Buffer((512,), "float32"), b: T.int32):
            t = T.alloc_shared((64,), "float32")
            for k in T.serial(4):
                first: T.let[T.int32] = b * 256 + k * 64
                end: T.let[T.int32] = b * 256 + (k + 1) * 64
                T.tl.copy(X[first:first + T.min(end - first, 64)], t[0:T.min(end - first, 64)])
                T.tl.copy(X[first:first + (end - k)], t[0:64])
        """,
        """
        @T.prim_func
        def main(X: T.Buffer((512,), "float32"), b: T.int32):
            t = T.alloc_shared((64,), "float32")
            for k in T.serial(4):
                first: T.let[T.int32] = b * 256 + k * 64
                end: T.let[T.int32] = b * 256 + (k + 1) * 64
                T.tl.copy(X[first:first + 64], t[0:64])
                T.tl.copy(X[first:first + (end - k)], t[0:64])
        """,
    ),
    "name_elements": (
        """
        @T.prim_func
        def main(N: T.Buffer((4,), "int32"), Y: T.Buffer((4, 64), "float32")):
            for b in T.serial(4):
                for k in T.serial(N[b] // 8):
                    for j in T.parallel(64, annotations={"tl.parallel": 1}):
                        Y[b, j] = T.if_then_else(k * 8 + j < N[b], T.float32(1), T.float32(0))
        """,
        """
        @T.prim_func
        def main(N: T.Buffer((4,), "int32"), Y: T.Buffer((4, 64), "float32")):
            for b in T.serial(4):
                N_v: T.let[T.int32] = N[b]
                for k in T.serial(N_v // 8):
                    for j in T.parallel(64, annotations={"tl.parallel": 1}):
                        Y[b, j] = T.if_then_else(k * 8 + j < N_v, T.float32(1.0), T.float32(0.0))
        """,
    ),
    "stage_operands": (
        """
        @T.prim_func
        def main(X: T.Buffer((9, 20), "float32"), Y: T.Buffer((9,), "float32")):
            T.Call("tl.reduce", [X[0:9, 0:20], Y[0:9]], attrs={"clear": 1, "dim": 1, "kind": "max"}, ret_ty="void")
        """,
        """
        @T.prim_func
        def main(X: T.Buffer((9, 20), "float32"), Y: T.Buffer((9,), "float32")):
            X_p = T.alloc_shared((9, 20))
            T.tl.copy(X[0:9, 0:20], X_p[0:9, 0:20])
            Y_p = T.alloc_shared((9,))
            T.Call("tl.reduce", [X_p[0:9, 0:20], Y_p[0:9]], attrs={"clear": 1, "dim": 1, "kind": "max"}, ret_ty="void")
            T.tl.copy(Y_p[0:9], Y[0:9])
        """,
    ),
    "stage_operands, a row in parts": (
        """
        @T.prim_func
        def main(X: T.Buffer((3000, 16), "float16"), Y: T.Buffer((16,), "float16"), Z: T.Buffer((3000, 16), "int32")):
            T.Call("tl.reduce", [X[0:3000, 0:16], Y[0:16]], attrs={"clear": 0, "dim": 0, "kind": "sum"}, ret_ty="void")
            T.Call("tl.cumsum", [Z[0:3000, 0:16], Z[0:3000, 0:16]], attrs={"dim": 0, "reverse": 1}, ret_ty="void")
        """,
        """
        @T.prim_func
        def main(X: T.Buffer((3000, 16), "float16"), Y: T.Buffer((16,), "float16"), Z: T.Buffer((3000, 16), "int32")):
            Y_p = T.alloc_shared((16,), "float16")
            T.tl.copy(Y[0:16], Y_p[0:16])
            Y_p_total = T.alloc_shared((16,))
            T.tl.copy(Y_p[0:16], Y_p_total[0:16])
            for part in T.serial(8, annotations={"num_stages": 2}):
                X_p = T.alloc_shared((375, 16), "float16")
                T.tl.copy(X[part * 375:part * 375 + 375, 0:16], X_p[0:375, 0:16])
                T.Call("tl.reduce", [X_p[0:375, 0:16], Y_p_total[0:16]], attrs={"clear": 0, "dim": 0, "kind": "sum"}, ret_ty="void")
            T.tl.copy(Y_p_total[0:16], Y_p[0:16])
            T.tl.copy(Y_p[0:16], Y[0:16])
            Z_so_far = T.alloc_shared((1, 16), "int32")
            T.tl.fill(Z_so_far[0, 0:16], 0)
            for part in T.serial(20, annotations={"num_stages": 2}):
                Z_p = T.alloc_shared((150, 16), "int32")
                T.tl.copy(Z[(19 - part) * 150:(19 - part) * 150 + 150, 0:16], Z_p[0:150, 0:16])
                Z_p_1 = T.alloc_shared((150, 16), "int32")
                T.Call("tl.cumsum", [Z_p[0:150, 0:16], Z_p_1[0:150, 0:16]], attrs={"dim": 0, "reverse": 1}, ret_ty="void")
                for i0 in T.parallel(150, annotations={"tl.parallel": 2}):
                    for i1 in T.parallel(16):
                        Z_p_1[i0, i1] = Z_p_1[i0, i1] + Z_so_far[0, i1]
                for i0 in T.parallel(1, annotations={"tl.parallel": 2}):
                    for i1 in T.parallel(16):
                        Z_so_far[0, i1] = Z_p_1[0, i1]
                T.tl.copy(Z_p_1[0:150, 0:16], Z[(19 - part) * 150:(19 - part) * 150 + 150, 0:16])
        """,
    ),
    "expand_im2col": (
        """
        @T.prim_func
        def main(X: T.Buffer((1, 4, 4, 8), "float32"), Y: T.Buffer((16, 8), "float32")):
            t = T.alloc_shared((16, 8), "float32")
            T.Call("tl.im2col", [X[0:1, 0:4, 0:4, 0:8], t[0:16, 0:8], 0, 0], attrs={"dilation": 1, "kernel": 1, "pad": 0, "stride": 1}, ret_ty="void")
            T.tl.copy(t[0:16, 0:8], Y[0:16, 0:8])
        """,
        """
        @T.prim_func
        def main(X: T.Buffer((1, 4, 4, 8), "float32"), Y: T.Buffer((16, 8), "float32")):
            t = T.alloc_shared((16, 8))
            for i in T.parallel(16, annotations={"tl.parallel": 2}):
                for j in T.parallel(8):
                    t[i, j] = T.if_then_else(i // 4 // 4 < 1 and i // 4 % 4 + j // 8 >= 0 and i // 4 % 4 + j // 8 < 4 and i % 4 >= 0 and i % 4 < 4 and j // 8 < 1, X[i // 4 // 4, i // 4 % 4 + j // 8, i % 4, j % 8], T.float32(0.0))
            T.tl.copy(t[0:16, 0:8], Y[0:16, 0:8])
        """,
    ),
    "separate_views": (
        """
        @T.prim_func
        def main(A: T.Buffer((8, 32), "float16"), B: T.Buffer((8, 32), "float16"), C: T.Buffer((8, 16), "float32")):
            a = T.alloc_shared((8, 32), "float16")
            v = T.alloc_shared((8, 16), "float32")
            T.tl.view(v[0:8, 0:16], a[0:8, 0:32])
            T.tl.copy(A[0:8, 0:32], a[0:8, 0:32])
            T.tl.copy(a[0:8, 0:32], B[0:8, 0:32])
            T.tl.copy(C[0:8, 0:16], v[0:8, 0:16])
            for i in T.parallel(16, annotations={"tl.parallel": 2}):
                for j in T.parallel(16):
                    if i < 8:
                        v[i, j] = v[i, j] * T.float32(2)
            T.tl.copy(v[0:8, 0:16], C[0:8, 0:16])
        """,
        """
        @T.prim_func
        def main(A: T.Buffer((8, 32), "float16"), B: T.Buffer((8, 32), "float16"), C: T.Buffer((8, 16), "float32")):
            a = T.alloc_shared((8, 32), "float16")
            v = T.alloc_shared((8, 16), "float32")
            T.tl.copy(A[0:8, 0:32], a[0:8, 0:32])
            T.tl.copy(a[0:8, 0:32], B[0:8, 0:32])
            T.tl.copy(C[0:8, 0:16], v[0:8, 0:16])
            for i in T.parallel(16, annotations={"tl.parallel": 2}):
                for j in T.parallel(16):
                    if i < 8:
                        v[i, j] = v[i, j] * T.float32(2)
            T.tl.copy(v[0:8, 0:16], C[0:8, 0:16])
        """,
    ),
    "resolve_views": (
        """
        @T.prim_func
        def main():
            a = T.alloc_shared((16, 128), "float32")
            v = T.alloc_shared((16, 4, 32), "float32")
            T.tl.view(v[0:16, 0:4, 0:32], a[0:16, 0:128])
            for i in T.parallel(16, annotations={"tl.parallel": 3}):
                for j in T.parallel(4):
                    for k in T.parallel(32):
                        v[i, j, k] = v[i, j, k] * T.float32(2)
        """,
        """
        @T.prim_func
        def main():
            a = T.alloc_shared((16, 128))
            for i in T.parallel(16, annotations={"tl.parallel": 3}):
                for j in T.parallel(4):
                    for k in T.parallel(32):
                        a[i, j * 32 + k] = a[i, j * 32 + k] * T.float32(2.0)
        """,
    ),
    "vectorize_loops": (
        """
        @T.prim_func
        def main(A: T.Buffer((16, 64), "float32"), Y: T.Buffer((16, 64), "float32")):
            y = T.alloc_shared((16, 64), "float32")
            for i in range(16):
                for j in range(64):
                    y[i, j] = A[i, j] + T.float32(1.0)
            for i in range(15):
                y[i, 0] = y[i + 1, 0]
            T.tl.copy(y[0:16, 0:64], Y[0:16, 0:64])
        """,
        """
        @T.prim_func
        def main(A: T.Buffer((16, 64), "float32"), Y: T.Buffer((16, 64), "float32")):
            y = T.alloc_shared((16, 64), "float32")
            for i in T.parallel(16, annotations={"tl.parallel": 2}):
                for j in T.parallel(64):
                    y[i, j] = A[i, j] + T.float32(1.0)
            for i in range(15):
                y[i, 0] = y[i + 1, 0]
            T.tl.copy(y[0:16, 0:64], Y[0:16, 0:64])
        """,
    ),
    "unflatten_nests": (
        """
        @T.prim_func
        def main(Z: T.Buffer((512,), "float32")):
            a = T.alloc_shared((16, 32), "float32")
            s = T.alloc_shared((16,), "float32")
            for i in T.parallel(512, annotations={"tl.parallel": 1}):
                row: T.let[T.int32] = i // 32
                a[row, i % 32] = a[i // 32, i % 32] * s[row] + Z[i]
        """,
        """
        @T.prim_func
        def main(Z: T.Buffer((512,), "float32")):
            a = T.alloc_shared((16, 32), "float32")
            s = T.alloc_shared((16,), "float32")
            for i_0 in T.parallel(16, annotations={"tl.parallel": 2}):
                for i_1 in T.parallel(32):
                    a[i_0, i_1] = a[i_0, i_1] * s[i_0] + Z[i_0 * 32 + i_1]
        """,
    ),
    "propagate_copies": (
        """
        @T.prim_func
        def main(C: T.Buffer((32, 32), "float32"), E: T.Buffer((32, 32), "float32")):
            p = T.alloc_shared((32, 32), "float16")
            p_1 = T.alloc_shared((32, 32), "float16")
            b = T.alloc_shared((32, 32), "float16")
            c = T.alloc_buffer((32, 32), "float32", scope="local.fragment")
            for k in range(4):
                T.tl.fill(p[0:32, 0:32], T.float16(2.0))
                T.tl.copy(p[0:32, 0:32], p_1[0:32, 0:32])
                T.Call("tl.gemm", [p[0:32, 0:32], b[0:32, 0:32], c[0:32, 0:32], T.bool(False)], attrs={"transpose_A": 0, "transpose_B": 0}, ret_ty="void")
                T.Call("tl.gemm", [p_1[0:32, 0:32], b[0:32, 0:32], c[0:32, 0:32], T.bool(False)], attrs={"transpose_A": 1, "transpose_B": 0}, ret_ty="void")
        """,
        """
        @T.prim_func
        def main(C: T.Buffer((32, 32), "float32"), E: T.Buffer((32, 32), "float32")):
            p = T.alloc_shared((32, 32), "float16")
            b = T.alloc_shared((32, 32), "float16")
            c = T.alloc_buffer((32, 32), "float32", scope="local.fragment")
            for k in range(4):
                T.tl.fill(p[0:32, 0:32], T.float16(2.0))
                T.Call("tl.gemm", [p[0:32, 0:32], b[0:32, 0:32], c[0:32, 0:32], T.bool(False)], attrs={"transpose_A": 0, "transpose_B": 0}, ret_ty="void")
                T.Call("tl.gemm", [p[0:32, 0:32], b[0:32, 0:32], c[0:32, 0:32], T.bool(False)], attrs={"transpose_A": 1, "transpose_B": 0}, ret_ty="void")
        """,
    ),
    "raise_copies": (
        """
        @T.prim_func
        def main(X: T.Buffer((30, 32), "float16"), C: T.Buffer((30, 32), "float16"), S: T.Buffer((16, 32), "float32"), n: T.int32):
            a = T.alloc_shared((16, 32), "float16")
            b = T.alloc_shared((32, 32), "float16")
            c = T.alloc_buffer((16, 32), "float32", scope="local.fragment")
            for i in T.parallel(16, annotations={"tl.parallel": 2}):
                for j in T.parallel(32):
                    a[i, j] = T.if_then_else(16 + i < 30, X[16 + i, j], T.float16(0.0))
            T.Call("tl.gemm", [a[0:16, 0:32], b[0:32, 0:32], c[0:16, 0:32], T.bool(True)], attrs={"transpose_A": 0, "transpose_B": 0}, ret_ty="void")
            for i in T.parallel(16, annotations={"tl.parallel": 2}):
                for j in T.parallel(32):
                    if i < n:
                        C[i, j] = T.Cast("float16", c[i, j])
            for i in T.parallel(16, annotations={"tl.parallel": 2}):
                for j in T.parallel(32):
                    T.tl.atomic_add(S[i:i + 1, j:j + 1], c[i, j])
        """,
        """
        @T.prim_func
        def main(X: T.Buffer((30, 32), "float16"), C: T.Buffer((30, 32), "float16"), S: T.Buffer((16, 32), "float32"), n: T.int32):
            a = T.alloc_shared((16, 32), "float16")
            b = T.alloc_shared((32, 32), "float16")
            c = T.alloc_buffer((16, 32), "float32", scope="local.fragment")
            T.tl.copy(X[16:32, 0:32], a[0:16, 0:32])
            T.Call("tl.gemm", [a[0:16, 0:32], b[0:32, 0:32], c[0:16, 0:32], T.bool(True)], attrs={"transpose_A": 0, "transpose_B": 0}, ret_ty="void")
            if 0 < n:
                T.tl.copy(c[0:T.min(n, 16), 0:32], C[0:T.min(n, 16), 0:32])
            T.tl.atomic_add(S[0:16, 0:32], c[0:16, 0:32])
        """,
    ),
    "stack_planes": (
        """
        @T.prim_func
        def main(X: T.Buffer((32, 32), "float16")):
            a = T.alloc_shared((2, 32, 32), "float16")
            c = T.alloc_buffer((32, 32), "float32", scope="local.fragment")
            T.tl.copy(X[0:32, 0:32], a[1, 0:32, 0:32])
            T.Call("tl.gemm", [a[1, 0:32, 0:32], a[1, 0:32, 0:32], c[0:32, 0:32], T.bool(True)], attrs={"transpose_A": 0, "transpose_B": 0}, ret_ty="void")
        """,
        """
        @T.prim_func
        def main(X: T.Buffer((32, 32), "float16")):
            a = T.alloc_shared((64, 32), "float16")
            c = T.alloc_buffer((32, 32), scope="local.fragment")
            T.tl.copy(X[0:32, 0:32], a[32:64, 0:32])
            T.Call("tl.gemm", [a[32:64, 0:32], a[32:64, 0:32], c[0:32, 0:32], T.bool(True)], attrs={"transpose_A": 0, "transpose_B": 0}, ret_ty="void")
        """,
    ),
    "forward_copies": (
        """
        @T.prim_func
        def main(X: T.Buffer((32, 32), "float16")):
            c = T.alloc_buffer((32, 32), "float32", scope="local.fragment")
            s = T.alloc_shared((32, 32), "float16")
            T.tl.fill(c[0:32, 0:32], T.float32(1))
            T.tl.copy(c[0:32, 0:32], s[0:32, 0:32])
            T.tl.copy(s[0:32, 0:32], X[0:32, 0:32])
        """,
        """
        @T.prim_func
        def main(X: T.Buffer((32, 32), "float16")):
            c = T.alloc_buffer((32, 32), scope="local.fragment")
            T.tl.fill(c[0:32, 0:32], T.float32(1.0))
            T.tl.copy(c[0:32, 0:32], X[0:32, 0:32])
        """,
    ),
    "fit_operands": (
        """
        @T.prim_func
        def main(A: T.Buffer((32, 32), "int8")):
            a = T.alloc_shared((32, 32), "int8")
            c = T.alloc_buffer((32, 32), "int32", scope="local.fragment")
            T.tl.copy(A[0:32, 0:32], a[0:32, 0:32])
            T.Call("tl.gemm", [a[0:32, 0:32], a[0:32, 0:32], c[0:32, 0:32], T.bool(True)], attrs={"transpose_A": 1, "transpose_B": 0}, ret_ty="void")
        """,
        """
        @T.prim_func
        def main(A: T.Buffer((32, 32), "int8")):
            a = T.alloc_shared((32, 32), "int8")
            c = T.alloc_buffer((32, 32), "int32", scope="local.fragment")
            T.tl.copy(A[0:32, 0:32], a[0:32, 0:32])
            a_fit = T.alloc_shared((32, 32), "int8")
            for i in T.parallel(32, annotations={"tl.parallel": 2}):
                for j in T.parallel(32):
                    a_fit[i, j] = a[j, i]
            T.Call("tl.gemm", [a_fit[0:32, 0:32], a[0:32, 0:32], c[0:32, 0:32], T.bool(True)], attrs={"transpose_A": 0, "transpose_B": 0}, ret_ty="void")
        """,
    ),
    "own_k_slices": (
        """
        @T.prim_func
        def main():
            for bx in T.serial(1, annotations={"tl.grid": 0}):
                a = T.alloc_shared((32, 32), "float16")
                b = T.alloc_shared((24, 32), "float16")
                c = T.alloc_buffer((32, 32), "float32", scope="local.fragment")
                T.Call("tl.gemm", [a[0:32, 0:24], b[0:24, 0:32], c[0:32, 0:32], T.bool(True)], attrs={"transpose_A": 0, "transpose_B": 0}, ret_ty="void")
        """,
        """
        @T.prim_func
        def main():
            for bx in T.serial(1, annotations={"tl.grid": 0}):
                a_k = T.alloc_shared((32, 24), "float16")
                a = T.alloc_shared((32, 32), "float16")
                b = T.alloc_shared((24, 32), "float16")
                c = T.alloc_buffer((32, 32), scope="local.fragment")
                T.tl.copy(a[0:32, 0:24], a_k[0:32, 0:24])
                T.Call("tl.gemm", [a_k[0:32, 0:24], b[0:24, 0:32], c[0:32, 0:32], T.bool(True)], attrs={"transpose_A": 0, "transpose_B": 0}, ret_ty="void")
        """,
    ),
    "fold_conditions": (
        """
        @T.prim_func
        def main(A: T.Buffer((60,), "float32"), c: T.uint32):
            s = T.alloc_buffer((16,), "float32", scope="local.fragment")
            if c > c:
                T.tl.fill(s[0:16], T.float32(0))
            for k in range(4):
                for i in T.parallel(16, annotations={"tl.parallel": 1}):
                    s[i] = T.if_then_else(k * 16 + i >= 64, T.float32(-1), T.float32(0))
                for i in T.parallel(16, annotations={"tl.parallel": 1}):
                    s[i] = T.if_then_else(k * 16 + i < 60 and i >= 0, A[k * 16 + i], s[i])
                if k > 3:
                    T.tl.fill(s[0:16], T.float32(1))
                if k < 4:
                    T.tl.fill(s[0:16], T.float32(2))
        """,
        """
        @T.prim_func
        def main(A: T.Buffer((60,), "float32"), c: T.uint32):
            s = T.alloc_buffer((16,), "float32", scope="local.fragment")
            for k in range(4):
                for i in T.parallel(16, annotations={"tl.parallel": 1}):
                    s[i] = T.float32(0)
                for i in T.parallel(16, annotations={"tl.parallel": 1}):
                    s[i] = T.if_then_else(k * 16 + i < 60, A[k * 16 + i], s[i])
                T.tl.fill(s[0:16], T.float32(2))
        """,
    ),
    "skip_masks": (
        """
        @T.prim_func
        def main():
            for bx in T.serial(4, annotations={"tl.grid": 0}):
                a = T.alloc_shared((32, 32), "float16")
                c = T.alloc_buffer((32, 32), "float32", scope="local.fragment")
                for k in range(4):
                    for i in T.parallel(32, annotations={"tl.parallel": 2}):
                        for j in T.parallel(32):
                            c[i, j] = T.if_then_else(bx * 32 + i >= k * 32 + j, T.float32(0), T.float32("-inf"))
                    T.Call("tl.gemm", [a[0:32, 0:32], a[0:32, 0:32], c[0:32, 0:32], T.bool(False)], attrs={"transpose_A": 0, "transpose_B": 0}, ret_ty="void")
        """,
        """
        @T.prim_func
        def main():
            for bx in T.serial(4, annotations={"tl.grid": 0}):
                a = T.alloc_shared((32, 32), "float16")
                c = T.alloc_buffer((32, 32), "float32", scope="local.fragment")
                for k in range(4):
                    T.tl.fill(c[0:32, 0:32], T.float32(0))
                    T.Call("tl.gemm", [a[0:32, 0:32], a[0:32, 0:32], c[0:32, 0:32], T.bool(False)], attrs={"transpose_A": 0, "transpose_B": 0}, ret_ty="void")
                    if not bx * 32 + 0 >= k * 32 + 31:
                        for i in T.parallel(32, annotations={"tl.parallel": 2}):
                            for j in T.parallel(32):
                                c[i, j] = T.if_then_else(bx * 32 + i >= k * 32 + j, c[i, j], c[i, j] + T.float32("-inf"))
        """,
    ),
    "normalize_clears": (
        """
        @T.prim_func
        def main():
            a = T.alloc_shared((32, 32), "float16")
            c = T.alloc_buffer((32, 32), "float32", scope="local.fragment")
            for k in range(4):
                T.Call("tl.gemm", [a[0:32, 0:32], a[0:32, 0:32], c[0:32, 0:32], k == 0], attrs={"transpose_A": 0, "transpose_B": 0}, ret_ty="void")
        """,
        """
        @T.prim_func
        def main():
            a = T.alloc_shared((32, 32), "float16")
            c = T.alloc_buffer((32, 32), scope="local.fragment")
            T.tl.fill(c[0:32, 0:32], T.float32(0.0))
            for k in range(4):
                T.Call("tl.gemm", [a[0:32, 0:32], a[0:32, 0:32], c[0:32, 0:32], T.bool(False)], attrs={"transpose_A": 0, "transpose_B": 0}, ret_ty="void")
        """,
    ),
    "keep_operands": (
        """
        @T.prim_func
        def main(A: T.Buffer((3072, 1024), "float16"), B: T.Buffer((1024, 2048), "float16"), C: T.Buffer((3072, 2048), "float16")):
            for bx in T.serial(16, annotations={"tl.grid": 0}):
                for by in T.serial(24, annotations={"tl.grid": 1}):
                    a = T.alloc_shared((128, 64), "float16")
                    b = T.alloc_shared((64, 128), "float16")
                    c = T.alloc_buffer((128, 128), "float32", scope="local.fragment")
                    T.tl.fill(c[0:128, 0:128], T.float32(0))
                    for k in T.serial(16, annotations={"num_stages": 2}):
                        T.tl.copy(A[by * 128:by * 128 + 128, k * 64:k * 64 + 64], a[0:128, 0:64])
                        T.tl.copy(B[k * 64:k * 64 + 64, bx * 128:bx * 128 + 128], b[0:64, 0:128])
                        T.Call("tl.gemm", [a[0:128, 0:64], b[0:64, 0:128], c[0:128, 0:128], T.bool(False)], attrs={"transpose_A": 0, "transpose_B": 0}, ret_ty="void")
                    T.tl.copy(c[0:128, 0:128], C[by * 128:by * 128 + 128, bx * 128:bx * 128 + 128])
        """,
        """
        @T.prim_func
        def main(A: T.Buffer((3072, 1024), "float16"), B: T.Buffer((1024, 2048), "float16"), C: T.Buffer((3072, 2048), "float16")):
            for bx in T.serial(2, annotations={"tl.grid": 0}):
                for by in T.serial(24, annotations={"tl.grid": 1}):
                    c_sums = T.alloc_buffer((8, 128, 128), annotations={"workspace": 1})
                    a = T.alloc_shared((128, 512), "float16")
                    b = T.alloc_shared((128, 128), "float16")
                    c = T.alloc_buffer((128, 128), scope="local.fragment")
                    for part in range(2):
                        for tile in range(8):
                            T.tl.fill(c[0:128, 0:128], T.float32(0.0))
                            for k in T.serial(4, annotations={"num_stages": 4}):
                                T.tl.copy(B[(part * 8 + k * 2) * 64:(part * 8 + k * 2) * 64 + 128, (bx * 8 + tile) * 128:(bx * 8 + tile) * 128 + 128], b[0:128, 0:128])
                                if tile == 0:
                                    T.tl.copy(A[by * 128:by * 128 + 128, (part * 8 + k * 2) * 64:(part * 8 + k * 2) * 64 + 128], a[0:128, k * 128:k * 128 + 128])
                                T.Call("tl.gemm", [a[0:128, k * 128:k * 128 + 128], b[0:128, 0:128], c[0:128, 0:128], T.bool(False)], attrs={"transpose_A": 0, "transpose_B": 0}, ret_ty="void")
                            if part == 0:
                                T.tl.copy(c[0:128, 0:128], c_sums[tile, 0:128, 0:128])
                            else:
                                T.tl.atomic_add(c_sums[tile, 0:128, 0:128], c[0:128, 0:128])
                    c_out = T.alloc_buffer((128, 128), scope="local.fragment")
                    for tile in range(8):
                        T.tl.copy(c_sums[tile, 0:128, 0:128], c_out[0:128, 0:128])
                        T.tl.copy(c_out[0:128, 0:128], C[by * 128:by * 128 + 128, (bx * 8 + tile) * 128:(bx * 8 + tile) * 128 + 128])
        """,
    ),
    "coarsen_blocks": (
        """
        @T.prim_func
        def main(A: T.Buffer((512, 4096), "float16"), B: T.Buffer((4096, 4096), "float16"), C: T.Buffer((512, 4096), "float32")):
            for bx in T.serial(32, annotations={"tl.grid": 0}):
                for by in T.serial(4, annotations={"tl.grid": 1}):
                    a = T.alloc_shared((128, 64), "float16")
                    b = T.alloc_shared((64, 128), "float16")
                    c = T.alloc_buffer((128, 128), "float32", scope="local.fragment")
                    T.tl.fill(c[0:128, 0:128], T.float32(0))
                    for k in T.serial(64, annotations={"num_stages": 2}):
                        T.tl.copy(A[by * 128:by * 128 + 128, k * 64:k * 64 + 64], a[0:128, 0:64])
                        T.tl.copy(B[k * 64:k * 64 + 64, bx * 128:bx * 128 + 128], b[0:64, 0:128])
                        T.Call("tl.gemm", [a[0:128, 0:64], b[0:64, 0:128], c[0:128, 0:128], T.bool(False)], attrs={"transpose_A": 0, "transpose_B": 0}, ret_ty="void")
                    for i in T.parallel(128, annotations={"tl.parallel": 2}):
                        for j in T.parallel(128):
                            c[i, j] = c[i, j] + T.Cast("float32", bx * 128 + j)
                    T.tl.copy(c[0:128, 0:128], C[by * 128:by * 128 + 128, bx * 128:bx * 128 + 128])
        """,
        """
        @T.prim_func
        def main(A: T.Buffer((512, 4096), "float16"), B: T.Buffer((4096, 4096), "float16"), C: T.Buffer((512, 4096), "float32")):
            for bx in T.serial(16, annotations={"tl.grid": 0}):
                for by in T.serial(4, annotations={"tl.grid": 1}):
                    a = T.alloc_shared((128, 64), "float16")
                    b = T.alloc_shared((64, 256), "float16")
                    c = T.alloc_buffer((128, 256), "float32", scope="local.fragment")
                    T.tl.fill(c[0:128, 0:256], T.float32(0))
                    for k in T.serial(64, annotations={"num_stages": 2}):
                        T.tl.copy(A[by * 128:by * 128 + 128, k * 64:k * 64 + 64], a[0:128, 0:64])
                        T.tl.copy(B[k * 64:k * 64 + 64, bx * 2 * 128:bx * 2 * 128 + 256], b[0:64, 0:256])
                        T.Call("tl.gemm", [a[0:128, 0:64], b[0:64, 0:256], c[0:128, 0:256], T.bool(False)], attrs={"transpose_A": 0, "transpose_B": 0}, ret_ty="void")
                    for i in T.parallel(128, annotations={"tl.parallel": 2}):
                        for j in T.parallel(256):
                            c[i, j] = c[i, j] + T.Cast("float32", bx * 2 * 128 + j)
                    T.tl.copy(c[0:128, 0:256], C[by * 128:by * 128 + 128, bx * 2 * 128:bx * 2 * 128 + 256])
        """,
    ),
    "join_blocks": (
        """
        @T.prim_func
        def main(Q: T.Buffer((15, 1024, 64), "float16"), K: T.Buffer((15, 1024, 64), "float16"), V: T.Buffer((15, 1024, 64), "float16"), O: T.Buffer((15, 1024, 64), "float32")):
            for bx in T.serial(16, annotations={"tl.grid": 0}):
                for by in T.serial(15, annotations={"tl.grid": 1}):
                    q = T.alloc_shared((64, 64), "float16")
                    a = T.alloc_shared((64, 64), "float16")
                    b = T.alloc_shared((64, 64), "float16")
                    p = T.alloc_buffer((64, 64), "float16", scope="local.fragment")
                    s = T.alloc_buffer((64, 64), "float32", scope="local.fragment")
                    o = T.alloc_buffer((64, 64), "float32", scope="local.fragment")
                    T.tl.copy(Q[by, bx * 64:bx * 64 + 64, 0:64], q[0:64, 0:64])
                    T.tl.fill(o[0:64, 0:64], T.float32(0))
                    for k in T.serial(16, annotations={"num_stages": 2}):
                        T.tl.copy(K[by, k * 64:k * 64 + 64, 0:64], a[0:64, 0:64])
                        T.Call("tl.gemm", [q[0:64, 0:64], a[0:64, 0:64], s[0:64, 0:64], T.bool(True)], attrs={"transpose_A": 0, "transpose_B": 1}, ret_ty="void")
                        for i in T.parallel(64, annotations={"tl.parallel": 2}):
                            for j in T.parallel(64):
                                p[i, j] = T.Cast("float16", T.if_then_else(bx * 64 + i >= k * 64 + j, s[i, j], T.float32(0)))
                        T.tl.copy(V[by, k * 64:k * 64 + 64, 0:64], b[0:64, 0:64])
                        T.Call("tl.gemm", [p[0:64, 0:64], b[0:64, 0:64], o[0:64, 0:64], T.bool(False)], attrs={"transpose_A": 0, "transpose_B": 0}, ret_ty="void")
                    T.tl.copy(o[0:64, 0:64], O[by, bx * 64:bx * 64 + 64, 0:64])
        """,
        """
        @T.prim_func
        def main(Q: T.Buffer((15, 1024, 64), "float16"), K: T.Buffer((15, 1024, 64), "float16"), V: T.Buffer((15, 1024, 64), "float16"), O: T.Buffer((15, 1024, 64), "float32")):
            for bx in T.serial(8, annotations={"tl.grid": 0}):
                for by in T.serial(15, annotations={"tl.grid": 1}):
                    q = T.alloc_shared((128, 64), "float16")
                    a = T.alloc_shared((64, 64), "float16")
                    b = T.alloc_shared((64, 64), "float16")
                    p = T.alloc_buffer((128, 64), "float16", scope="local.fragment")
                    s = T.alloc_buffer((128, 64), "float32", scope="local.fragment")
                    o = T.alloc_buffer((128, 64), "float32", scope="local.fragment")
                    T.tl.copy(Q[by, bx * 2 * 64:bx * 2 * 64 + 128, 0:64], q[0:128, 0:64])
                    T.tl.fill(o[0:128, 0:64], T.float32(0))
                    for k in T.serial(16, annotations={"num_stages": 2}):
                        T.tl.copy(K[by, k * 64:k * 64 + 64, 0:64], a[0:64, 0:64])
                        T.Call("tl.gemm", [q[0:128, 0:64], a[0:64, 0:64], s[0:128, 0:64], T.bool(True)], attrs={"transpose_A": 0, "transpose_B": 1}, ret_ty="void")
                        for i in T.parallel(128, annotations={"tl.parallel": 2}):
                            for j in T.parallel(64):
                                p[i, j] = T.Cast("float16", T.if_then_else(bx * 2 * 64 + i >= k * 64 + j, s[i, j], T.float32(0)))
                        T.tl.copy(V[by, k * 64:k * 64 + 64, 0:64], b[0:64, 0:64])
                        T.Call("tl.gemm", [p[0:128, 0:64], b[0:64, 0:64], o[0:128, 0:64], T.bool(False)], attrs={"transpose_A": 0, "transpose_B": 0}, ret_ty="void")
                    T.tl.copy(o[0:128, 0:64], O[by, bx * 2 * 64:bx * 2 * 64 + 128, 0:64])
        """,
    ),
    "merge_k_steps": (
        """
        @T.prim_func
        def main(A: T.Buffer((64, 256), "float16"), B: T.Buffer((256, 64), "float16")):
            a = T.alloc_shared((64, 32), "float16")
            b = T.alloc_shared((32, 64), "float16")
            c = T.alloc_buffer((64, 64), "float32", scope="local.fragment")
            for k in T.serial(8, annotations={"num_stages": 2}):
                T.tl.copy(A[0:64, k * 32:k * 32 + 32], a[0:64, 0:32])
                T.tl.copy(B[k * 32:k * 32 + 32, 0:64], b[0:32, 0:64])
                T.Call("tl.gemm", [a[0:64, 0:32], b[0:32, 0:64], c[0:64, 0:64], T.bool(False)], attrs={"transpose_A": 0, "transpose_B": 0}, ret_ty="void")
        """,
        """
        @T.prim_func
        def main(A: T.Buffer((64, 256), "float16"), B: T.Buffer((256, 64), "float16")):
            a = T.alloc_shared((64, 128), "float16")
            b = T.alloc_shared((128, 64), "float16")
            c = T.alloc_buffer((64, 64), scope="local.fragment")
            for k in T.serial(2, annotations={"num_stages": 2}):
                T.tl.copy(A[0:64, k * 4 * 32:k * 4 * 32 + 128], a[0:64, 0:128])
                T.tl.copy(B[k * 4 * 32:k * 4 * 32 + 128, 0:64], b[0:128, 0:64])
                T.Call("tl.gemm", [a[0:64, 0:128], b[0:128, 0:64], c[0:64, 0:64], T.bool(False)], attrs={"transpose_A": 0, "transpose_B": 0}, ret_ty="void")
        """,
    ),
    "place_buffers": (
        """
        @T.prim_func
        def main(A: T.Buffer((32, 32), "float16"), V: T.Buffer((64,), "float32")):
            for bx in T.serial(1, annotations={"tl.grid": 0}):
                a = T.alloc_shared((32, 32), "float16")
                c = T.alloc_buffer((32, 32), "float32", scope="local.fragment")
                v = T.alloc_buffer((64,), "float32", scope="local.fragment")
                T.tl.copy(A[0:32, 0:32], a[0:32, 0:32])
                T.Call("tl.gemm", [a[0:32, 0:32], a[0:32, 0:32], c[0:32, 0:32], T.bool(True)], attrs={"transpose_A": 0, "transpose_B": 0}, ret_ty="void")
                T.tl.copy(c[0:32, 0:32], A[0:32, 0:32])
                T.tl.copy(V[0:64], v[0:64])
                for i in T.parallel(64, annotations={"tl.parallel": 1}):
                    v[i] = v[i] * T.float32(2)
                T.tl.copy(v[0:64], V[0:64])
        """,
        """
        @T.prim_func
        def main(A: T.Buffer((32, 32), "float16"), V: T.Buffer((64,), "float32")):
            for bx in T.serial(1, annotations={"tl.grid": 0}):
                a = T.alloc_buffer((32, 32), "float16", scope="shared.l1")
                c = T.alloc_buffer((32, 32), scope="local.l0c")
                v = T.alloc_buffer((64,), scope="shared.ub")
                T.tl.copy(A[0:32, 0:32], a[0:32, 0:32])
                T.Call("tl.gemm", [a[0:32, 0:32], a[0:32, 0:32], c[0:32, 0:32], T.bool(True)], attrs={"transpose_A": 0, "transpose_B": 0}, ret_ty="void")
                T.tl.copy(c[0:32, 0:32], A[0:32, 0:32])
                T.tl.copy(V[0:64], v[0:64])
                for i in T.parallel(64, annotations={"tl.parallel": 1}):
                    v[i] = v[i] * T.float32(2.0)
                T.tl.copy(v[0:64], V[0:64])
        """,
    ),
    "drop_dead_fills": (
        """
        @T.prim_func
        def main(X: T.Buffer((64,), "float32")):
            for bx in T.serial(4, annotations={"tl.grid": 0}):
                a = T.alloc_buffer((64,), "float32", scope="shared.ub")
                b = T.alloc_buffer((64,), "float32", scope="shared.ub")
                ws = T.alloc_buffer((64,), "float32", annotations={"workspace": 1})
                ws_1 = T.alloc_buffer((64,), "float32", annotations={"workspace": 1})
                T.tl.fill(b[0:64], T.float32(0))
                T.tl.copy(X[0:64], a[0:64])
                T.tl.copy(a[0:64], ws[0:64])
                T.tl.copy(ws[0:64], b[0:64])
                T.tl.copy(a[0:64], ws_1[0:64])
                T.tl.copy(ws_1[0:64], X[0:64])
                T.tl.copy(a[0:64], X[0:64])
        """,
        """
        @T.prim_func
        def main(X: T.Buffer((64,), "float32")):
            for bx in T.serial(4, annotations={"tl.grid": 0}):
                a = T.alloc_buffer((64,), scope="shared.ub")
                b = T.alloc_buffer((64,), scope="shared.ub")
                ws_1 = T.alloc_buffer((64,), annotations={"workspace": 1})
                T.tl.copy(X[0:64], a[0:64])
                T.tl.copy(a[0:64], ws_1[0:64])
                T.tl.copy(ws_1[0:64], X[0:64])
                T.tl.copy(a[0:64], X[0:64])
        """,
    ),
    "narrow_channels": (
        """
        @T.prim_func
        def main(P: T.Buffer((16, 16), "float32")):
            for bx in T.serial(1, annotations={"tl.grid": 0}):
                q = T.alloc_buffer((16, 16), "float16", scope="shared.l1")
                s_l0c = T.alloc_buffer((16, 16), "float32", scope="local.l0c")
                s = T.alloc_buffer((16, 16), "float32", scope="shared.ub")
                ws = T.alloc_buffer((16, 16), "float32", annotations={"workspace": 1})
                T.Call("tl.gemm", [q[0:16, 0:16], q[0:16, 0:16], s_l0c[0:16, 0:16], T.bool(True)], attrs={"transpose_A": 0, "transpose_B": 1}, ret_ty="void")
                T.tl.copy(s_l0c[0:16, 0:16], ws[0:16, 0:16])
                T.tl.copy(ws[0:16, 0:16], s[0:16, 0:16])
                for i in T.parallel(16, annotations={"tl.parallel": 2}):
                    for j in T.parallel(16):
                        s[i, j] = s[i, j] + T.if_then_else(i >= j, T.float32(0), T.float32(-1e9))
                for i in T.parallel(16, annotations={"tl.parallel": 2}):
                    for j in T.parallel(16):
                        s[i, j] = T.exp(s[i, j])
                T.tl.copy(s[0:16, 0:16], P[0:16, 0:16])
        """,
        """
        @T.prim_func
        def main(P: T.Buffer((16, 16), "float32")):
            for bx in T.serial(1, annotations={"tl.grid": 0}):
                q = T.alloc_buffer((16, 16), "float16", scope="shared.l1")
                s_l0c = T.alloc_buffer((16, 16), "float32", scope="local.l0c")
                s = T.alloc_buffer((16, 16), "float32", scope="shared.ub")
                ws = T.alloc_buffer((16, 16), "float16", annotations={"workspace": 1})
                T.Call("tl.gemm", [q[0:16, 0:16], q[0:16, 0:16], s_l0c[0:16, 0:16], T.bool(True)], attrs={"transpose_A": 0, "transpose_B": 1}, ret_ty="void")
                T.tl.copy(s_l0c[0:16, 0:16], ws[0:16, 0:16])
                T.tl.copy(ws[0:16, 0:16], s[0:16, 0:16])
                for i in T.parallel(16, annotations={"tl.parallel": 2}):
                    for j in T.parallel(16):
                        s[i, j] = T.if_then_else(i >= j, s[i, j], T.float32(-1e9))
                for i in T.parallel(16, annotations={"tl.parallel": 2}):
                    for j in T.parallel(16):
                        s[i, j] = T.exp(s[i, j])
                T.tl.copy(s[0:16, 0:16], P[0:16, 0:16])
        """,
    ),
    "pick_elements": (
        """
        @T.prim_func
        def main(X: T.Buffer((60000,), "float32"), L: T.Buffer((1,), "int32"), Y: T.Buffer((1,), "float32")):
            x = T.alloc_buffer((60000,), "float32", scope="shared.ub")
            T.tl.copy(X[0:60000], x[0:60000])
            Y[0] = T.float32(2) - x[L[0]]
        """,
        """
        @T.prim_func
        def main(X: T.Buffer((60000,), "float32"), L: T.Buffer((1,), "int32"), Y: T.Buffer((1,), "float32")):
            x = T.alloc_buffer((60000,), "float32", scope="shared.ub")
            T.tl.copy(X[0:60000], x[0:60000])
            at: T.let[T.int32] = L[0]
            x_row = T.alloc_buffer((60000,), "float32", scope="shared.ub")
            x_picked = T.alloc_buffer((1,), "float32", scope="shared.ub")
            for j in T.parallel(60000, annotations={"tl.parallel": 1}):
                x_row[j] = T.if_then_else(j == at, x[j], T.float32("-inf"))
            T.Call("tl.reduce", [x_row[0:60000], x_picked[0:1]], attrs={"kind": "max", "dim": 0, "clear": 1}, ret_ty="void")
            Y[0] = T.float32(2) - x_picked[0]
        """,
    ),
    "part_accumulators": (
        """
        @T.prim_func
        def main(A: T.Buffer((256, 128), "float16"), Y: T.Buffer((256, 256), "float32")):
            for bx in T.serial(1, annotations={"tl.grid": 0}):
                a = T.alloc_buffer((256, 64), "float16", scope="shared.l1")
                c = T.alloc_buffer((256, 256), "float32", scope="local.l0c")
                w = T.alloc_buffer((256, 256), "float32", annotations={"workspace": 1})
                T.tl.fill(c[0:256, 0:256], T.float32(0))
                for k in range(2):
                    T.tl.copy(A[0:256, k * 64:k * 64 + 64], a[0:256, 0:64])
                    T.Call("tl.gemm", [a[0:256, 0:64], a[0:256, 0:64], c[0:256, 0:256], T.bool(False)], attrs={"transpose_A": 0, "transpose_B": 1}, ret_ty="void")
                T.tl.copy(c[0:256, 0:256], w[0:256, 0:256])
        """,
        """
        @T.prim_func
        def main(A: T.Buffer((256, 128), "float16"), Y: T.Buffer((256, 256), "float32")):
            for bx in T.serial(1, annotations={"tl.grid": 0}):
                a = T.alloc_buffer((64, 64), "float16", scope="shared.l1")
                a_columns = T.alloc_buffer((256, 64), "float16", scope="shared.l1")
                c = T.alloc_buffer((64, 256), scope="local.l0c")
                w = T.alloc_buffer((256, 256), annotations={"workspace": 1})
                for part in range(4):
                    T.tl.fill(c[0:64, 0:256], T.float32(0))
                    for k in range(2):
                        T.tl.copy(A[part * 64:part * 64 + 64, k * 64:k * 64 + 64], a[0:64, 0:64])
                        T.tl.copy(A[0:256, k * 64:k * 64 + 64], a_columns[0:256, 0:64])
                        T.Call("tl.gemm", [a[0:64, 0:64], a_columns[0:256, 0:64], c[0:64, 0:256], T.bool(False)], attrs={"transpose_A": 0, "transpose_B": 1}, ret_ty="void")
                    T.tl.copy(c[0:64, 0:256], w[part * 64:part * 64 + 64, 0:256])
        """,
    ),
    "part_accumulators, with a rest": (
        """
        @T.prim_func
        def main(A: T.Buffer((200, 64), "float16"), B: T.Buffer((64, 264), "float16")):
            for bx in T.serial(1, annotations={"tl.grid": 0}):
                a = T.alloc_buffer((200, 64), "float16", scope="shared.l1")
                b = T.alloc_buffer((64, 264), "float16", scope="shared.l1")
                c = T.alloc_buffer((200, 264), "float32", scope="local.l0c")
                w = T.alloc_buffer((200, 264), "float32", annotations={"workspace": 1})
                T.tl.copy(A[0:200, 0:64], a[0:200, 0:64])
                T.tl.copy(B[0:64, 0:264], b[0:64, 0:264])
                T.tl.fill(c[0:200, 0:264], T.float32(0))
                T.Call("tl.gemm", [a[0:200, 0:64], b[0:64, 0:264], c[0:200, 0:264], T.bool(False)], attrs={"transpose_A": 0, "transpose_B": 0}, ret_ty="void")
                T.tl.copy(c[0:200, 0:264], w[0:200, 0:264])
        """,
        """
        @T.prim_func
        def main(A: T.Buffer((200, 64), "float16"), B: T.Buffer((64, 264), "float16")):
            for bx in T.serial(1, annotations={"tl.grid": 0}):
                a = T.alloc_buffer((200, 64), "float16", scope="shared.l1")
                b = T.alloc_buffer((64, 264), "float16", scope="shared.l1")
                c = T.alloc_buffer((48, 264), scope="local.l0c")
                c_rest = T.alloc_buffer((8, 264), scope="local.l0c")
                w = T.alloc_buffer((200, 264), annotations={"workspace": 1})
                T.tl.copy(A[0:200, 0:64], a[0:200, 0:64])
                T.tl.copy(B[0:64, 0:264], b[0:64, 0:264])
                for part in range(4):
                    T.tl.fill(c[0:48, 0:264], T.float32(0))
                    T.Call("tl.gemm", [a[part * 48:part * 48 + 48, 0:64], b[0:64, 0:264], c[0:48, 0:264], T.bool(False)], attrs={"transpose_A": 0, "transpose_B": 0}, ret_ty="void")
                    T.tl.copy(c[0:48, 0:264], w[part * 48:part * 48 + 48, 0:264])
                T.tl.fill(c_rest[0:8, 0:264], T.float32(0))
                T.Call("tl.gemm", [a[192:200, 0:64], b[0:64, 0:264], c_rest[0:8, 0:264], T.bool(False)], attrs={"transpose_A": 0, "transpose_B": 0}, ret_ty="void")
                T.tl.copy(c_rest[0:8, 0:264], w[192:200, 0:264])
        """,
    ),
    "spill_tiles": (
        """
        @T.prim_func
        def main(X: T.Buffer((256, 256), "float32"), Y: T.Buffer((256, 256), "float32")):
            for bx in T.serial(1, annotations={"tl.grid": 0}):
                x = T.alloc_buffer((256, 256), "float32", scope="shared.ub")
                y = T.alloc_buffer((256, 256), "float32", scope="shared.ub")
                s = T.alloc_buffer((256,), "float32", scope="shared.ub")
                T.tl.copy(X[0:256, 0:256], x[0:256, 0:256])
                T.Call("tl.reduce", [x[0:256, 0:256], s[0:256]], attrs={"kind": "sum", "dim": 1, "clear": 1}, ret_ty="void")
                for i in T.parallel(256, annotations={"tl.parallel": 2}):
                    for j in T.parallel(256):
                        y[i, j] = x[j, i] + s[j]
                T.tl.copy(y[0:256, 0:256], Y[0:256, 0:256])
        """,
        """
        @T.prim_func
        def main(X: T.Buffer((256, 256), "float32"), Y: T.Buffer((256, 256), "float32")):
            for bx in T.serial(1, annotations={"tl.grid": 0}):
                x_ws = T.alloc_buffer((256, 256), "float32", annotations={"workspace": 1})
                y_ws = T.alloc_buffer((256, 256), "float32", annotations={"workspace": 1})
                s = T.alloc_buffer((256,), "float32", scope="shared.ub")
                T.tl.copy(X[0:256, 0:256], x_ws[0:256, 0:256])
                T.Call("tl.reduce", [x_ws[0:256, 0:256], s[0:256]], attrs={"kind": "sum", "dim": 1, "clear": 1}, ret_ty="void")
                for i in T.parallel(256, annotations={"tl.parallel": 2}):
                    for j in T.parallel(256):
                        y_ws[i, j] = x_ws[j, i] + s[j]
                T.tl.copy(y_ws[0:256, 0:256], Y[0:256, 0:256])
        """,
    ),
    "narrow_nests": (
        """
        @T.prim_func
        def main(X: T.Buffer((100,), "float32")):
            a = T.alloc_buffer((64,), "float32", scope="shared.ub")
            for i in T.parallel(128, annotations={"tl.parallel": 1}):
                if i < 64:
                    a[i] = T.float32(1)
        """,
        """
        @T.prim_func
        def main(X: T.Buffer((100,), "float32")):
            a = T.alloc_buffer((64,), scope="shared.ub")
            for i in T.parallel(64, annotations={"tl.parallel": 1}):
                a[i] = T.float32(1.0)
        """,
    ),
    "split_dynamic_nests": (
        """
        @T.prim_func
        def main(X: T.Buffer((100000,), "float32"), n: T.int32):
            for i in T.parallel(n, annotations={"tl.parallel": 1}):
                X[i] = X[i] + T.float32(1)
        """,
        """
        @T.prim_func
        def main(X: T.Buffer((100000,), "float32"), n: T.int32):
            for i_part in T.serial((n + 4095) // 4096, annotations={"num_stages": 2}):
                for i in T.parallel(4096, annotations={"tl.parallel": 1}):
                    if i_part * 4096 + i < n:
                        X[i_part * 4096 + i] = X[i_part * 4096 + i] + T.float32(1.0)
        """,
    ),
    "stage_atomics": (
        """
        @T.prim_func
        def main(X: T.Buffer((64,), "float32")):
            for bx in T.serial(4, annotations={"tl.grid": 0}):
                a = T.alloc_buffer((64,), "float32", scope="shared.ub")
                for i in T.parallel(64, annotations={"tl.parallel": 1}):
                    T.tl.atomic_add(X[i:i + 1], a[i])
        """,
        """
        @T.prim_func
        def main(X: T.Buffer((64,), "float32")):
            for bx in T.serial(4, annotations={"tl.grid": 0}):
                X_v = T.alloc_buffer((64,), scope="shared.ub")
                a = T.alloc_buffer((64,), scope="shared.ub")
                for i in T.parallel(64, annotations={"tl.parallel": 1}):
                    X_v[i] = a[i]
                T.tl.atomic_add(X[0:64], X_v[0:64])
        """,
    ),
    "reverse_loops": (
        """
        @T.prim_func
        def main():
            a = T.alloc_buffer((64,), "float32", scope="shared.ub")
            b = T.alloc_buffer((64,), "float32", scope="shared.ub")
            for i in T.parallel(64, annotations={"tl.parallel": 1}):
                b[63 - i] = a[i]
        """,
        """
        @T.prim_func
        def main():
            a = T.alloc_buffer((64,), scope="shared.ub")
            b = T.alloc_buffer((64,), scope="shared.ub")
            for i in T.parallel(64, annotations={"tl.parallel": 1}):
                b[i] = a[63 - i]
        """,
    ),
    "stage_globals": (
        """
        @T.prim_func
        def main(X: T.Buffer((6400,), "float32"), Y: T.Buffer((6400,), "float32")):
            for bx in T.serial(100, annotations={"tl.grid": 0}):
                for i in T.parallel(64, annotations={"tl.parallel": 1}):
                    Y[bx * 64 + i] = X[bx * 64 + i] + T.float32(1)
        """,
        """
        @T.prim_func
        def main(X: T.Buffer((6400,), "float32"), Y: T.Buffer((6400,), "float32")):
            for bx in T.serial(100, annotations={"tl.grid": 0}):
                X_t = T.alloc_buffer((64,), scope="shared.ub")
                Y_t = T.alloc_buffer((64,), scope="shared.ub")
                T.tl.copy(X[bx * 64:bx * 64 + 64], X_t[0:64])
                for i in T.parallel(64, annotations={"tl.parallel": 1}):
                    Y_t[i] = X_t[i] + T.float32(1.0)
                T.tl.copy(Y_t[0:64], Y[bx * 64:bx * 64 + 64])
        """,
    ),
    "float_integers": (
        """
        @T.prim_func
        def main(X: T.Buffer((4, 128), "float32"), P: T.Buffer((4,), "int32")):
            for bx in T.serial(1, annotations={"tl.grid": 0}):
                x = T.alloc_buffer((4, 128), "float32", scope="shared.ub")
                where = T.alloc_buffer((4, 128), "int32", scope="shared.ub")
                place = T.alloc_buffer((4,), "int32", scope="shared.ub")
                T.tl.copy(X[0:4, 0:128], x[0:4, 0:128])
                for i in T.parallel(4, annotations={"tl.parallel": 2}):
                    for j in T.parallel(128):
                        where[i, j] = T.Select(x[i, j] > T.float32(0), 128 - j, 0)
                T.Call("tl.reduce", [where[0:4, 0:128], place[0:4]], attrs={"kind": "max", "dim": 1, "clear": 1}, ret_ty="void")
                for i in T.parallel(4, annotations={"tl.parallel": 1}):
                    P[i] = 128 - place[i]
        """,
        """
        @T.prim_func
        def main(X: T.Buffer((4, 128), "float32"), P: T.Buffer((4,), "int32")):
            for bx in T.serial(1, annotations={"tl.grid": 0}):
                x = T.alloc_buffer((4, 128), "float32", scope="shared.ub")
                where = T.alloc_buffer((4, 128), "float32", scope="shared.ub")
                place = T.alloc_buffer((4,), "float32", scope="shared.ub")
                T.tl.copy(X[0:4, 0:128], x[0:4, 0:128])
                for i in T.parallel(4, annotations={"tl.parallel": 2}):
                    for j in T.parallel(128):
                        where[i, j] = T.Select(x[i, j] > T.float32(0), T.Cast("float32", 128 - j), T.float32(0))
                T.Call("tl.reduce", [where[0:4, 0:128], place[0:4]], attrs={"kind": "max", "dim": 1, "clear": 1}, ret_ty="void")
                for i in T.parallel(4, annotations={"tl.parallel": 1}):
                    P[i] = 128 - T.Cast("int32", place[i])
        """,
    ),
    "spread_loops": (
        """
        @T.prim_func
        def main(X: T.Buffer((16384,), "float32"), Y: T.Buffer((16384,), "float32")):
            for bx in T.serial(8, annotations={"tl.grid": 0}):
                x = T.alloc_buffer((128,), "float32", scope="shared.ub")
                for t in T.serial(16, annotations={"num_stages": 2}):
                    T.tl.copy(X[(bx * 16 + t) * 128:(bx * 16 + t) * 128 + 128], x[0:128])
                    T.tl.copy(x[0:128], Y[(bx * 16 + t) * 128:(bx * 16 + t) * 128 + 128])
        """,
        """
        @T.prim_func
        def main(X: T.Buffer((16384,), "float32"), Y: T.Buffer((16384,), "float32")):
            for bx in T.serial(8, annotations={"tl.grid": 0}):
                for t in T.serial(16, annotations={"tl.grid": 1}):
                    x = T.alloc_buffer((128,), "float32", scope="shared.ub")
                    T.tl.copy(X[(bx * 16 + t) * 128:(bx * 16 + t) * 128 + 128], x[0:128])
                    T.tl.copy(x[0:128], Y[(bx * 16 + t) * 128:(bx * 16 + t) * 128 + 128])
        """,
    ),
    "lengthen_tiles": (
        """
        @T.prim_func
        def main(X: T.Buffer((16388, 32), "float32"), M: T.Buffer((16388,), "float32")):
            for bx in T.serial(4097, annotations={"tl.grid": 0}):
                x = T.alloc_buffer((4, 32), "float32", scope="shared.ub")
                m = T.alloc_buffer((4,), "float32", scope="shared.ub")
                T.tl.copy(X[bx * 4:bx * 4 + 4, 0:32], x[0:4, 0:32])
                T.Call("tl.reduce", [x[0:4, 0:32], m[0:4]], attrs={"kind": "max", "dim": 1, "clear": 1}, ret_ty="void")
                T.tl.copy(m[0:4], M[bx * 4:bx * 4 + 4])
        """,
        """
        @T.prim_func
        def main(X: T.Buffer((16388, 32), "float32"), M: T.Buffer((16388,), "float32")):
            for bx in T.serial(373, annotations={"tl.grid": 0}):
                x = T.alloc_buffer((44, 32), "float32", scope="shared.ub")
                m = T.alloc_buffer((44,), "float32", scope="shared.ub")
                T.tl.copy(X[bx * 11 * 4:bx * 11 * 4 + 44, 0:32], x[0:44, 0:32])
                T.Call("tl.reduce", [x[0:44, 0:32], m[0:44]], attrs={"kind": "max", "dim": 1, "clear": 1}, ret_ty="void")
                T.tl.copy(m[0:44], M[bx * 11 * 4:bx * 11 * 4 + 44])
        """,
    ),
    "batch_blocks": (
        """
        @T.prim_func
        def main(K: T.Buffer((8256, 128), "int8"), Slot: T.Buffer((8256,), "int32"), Cache: T.Buffer((9000, 128), "int8")):
            for bx in T.serial(8256, annotations={"tl.grid": 0}):
                row = T.alloc_buffer((128,), "int8", scope="shared.ub")
                T.tl.copy(K[bx, 0:128], row[0:128])
                T.tl.copy(row[0:128], Cache[Slot[bx], 0:128])
        """,
        """
        @T.prim_func
        def main(K: T.Buffer((8256, 128), "int8"), Slot: T.Buffer((8256,), "int32"), Cache: T.Buffer((9000, 128), "int8")):
            for bx in T.serial(143, annotations={"tl.grid": 0}):
                row = T.alloc_buffer((58, 128), "int8", scope="shared.ub")
                T.tl.copy(K[bx * 58:bx * 58 + 58, 0:128], row[0:58, 0:128])
                for r in T.serial(T.min(58, 8256 - bx * 58), annotations={"tl.unordered": 1}):
                    T.tl.copy(row[r, 0:128], Cache[Slot[bx * 58 + r], 0:128])
        """,
    ),
    "hint_l2": (
        """
        @T.prim_func
        def main(X: T.Buffer((16384, 8192), "float16"), Z: T.Buffer((16384, 8192), "float16")):
            for bx in T.serial(16384, annotations={"tl.grid": 0}):
                x = T.alloc_buffer((1, 8192), "float16", scope="shared.ub")
                T.tl.copy(X[bx, 0:8192], x[0, 0:8192])
                T.tl.copy(x[0, 0:8192], Z[bx, 0:8192])
        """,
        """
        @T.prim_func
        def main(X: T.Buffer((16384, 8192), "float16"), Z: T.Buffer((16384, 8192), "float16")):
            T.func_attr({"ascend.past_l2": ["X", "Z"]})
            for bx in T.serial(16384, annotations={"tl.grid": 0}):
                x = T.alloc_buffer((1, 8192), "float16", scope="shared.ub")
                T.tl.copy(X[bx, 0:8192], x[0, 0:8192])
                T.tl.copy(x[0, 0:8192], Z[bx, 0:8192])
        """,
    ),
    "map_grid": (
        """
        @T.prim_func
        def main(X: T.Buffer((6400,), "float32")):
            for bx in T.serial(100, annotations={"tl.grid": 0}):
                a = T.alloc_buffer((64,), "float32", scope="shared.ub")
                T.tl.copy(X[bx * 64:bx * 64 + 64], a[0:64])
                T.tl.copy(a[0:64], X[bx * 64:bx * 64 + 64])
        """,
        """
        @T.prim_func
        def main(X: T.Buffer((6400,), "float32")):
            T.func_attr({"ascend.block_dim": 48})
            a = T.alloc_buffer((64,), scope="shared.ub")
            block: T.let[T.int32] = T.ascend.get_block_idx()
            for t in T.serial((147 - block) // 48, annotations={"tl.persistent": 1}):
                tile: T.let[T.int32] = block + t * 48
                bx: T.let[T.int32] = tile % 100
                T.tl.copy(X[bx * 64:bx * 64 + 64], a[0:64])
                T.tl.copy(a[0:64], X[bx * 64:bx * 64 + 64])
        """,
    ),
    "hoist_loads": (
        """
        @T.prim_func
        def main(X: T.Buffer((64,), "float32"), Y: T.Buffer((6400,), "float32")):
            a = T.alloc_buffer((64,), "float32", scope="shared.ub")
            block: T.let[T.int32] = T.ascend.get_block_idx()
            for t in T.serial(3, annotations={"tl.persistent": 1}):
                T.tl.copy(X[0:64], a[0:64])
                T.tl.copy(a[0:64], Y[t * 64:t * 64 + 64])
        """,
        """
        @T.prim_func
        def main(X: T.Buffer((64,), "float32"), Y: T.Buffer((6400,), "float32")):
            a = T.alloc_buffer((64,), scope="shared.ub")
            block: T.let[T.int32] = T.ascend.get_block_idx()
            T.tl.copy(X[0:64], a[0:64])
            for t in T.serial(3, annotations={"tl.persistent": 1}):
                T.tl.copy(a[0:64], Y[t * 64:t * 64 + 64])
        """,
    ),
    "split_tiles": (
        """
        @T.prim_func
        def main(A: T.Buffer((512, 512), "float32"), W: T.Buffer((512,), "float32"), C: T.Buffer((512, 512), "float32")):
            for bx in T.serial(8, annotations={"tl.grid": 0}):
                a = T.alloc_buffer((64, 512), "float32", scope="shared.ub")
                w = T.alloc_buffer((512,), "float32", scope="shared.ub")
                T.tl.copy(W[0:512], w[0:512])
                T.tl.copy(A[bx * 64:bx * 64 + 64, 0:512], a[0:64, 0:512])
                for i in T.parallel(64, annotations={"tl.parallel": 2}):
                    for j in T.parallel(512):
                        a[i, j] = a[i, j] * w[j] + T.Cast("float32", i)
                T.tl.copy(a[0:64, 0:512], C[bx * 64:bx * 64 + 64, 0:512])
        """,
        """
        @T.prim_func
        def main(A: T.Buffer((512, 512), "float32"), W: T.Buffer((512,), "float32"), C: T.Buffer((512, 512), "float32")):
            for part in T.serial(4, annotations={"tl.grid": 1, "tl.part": 1}):
                for bx in T.serial(8, annotations={"tl.grid": 0}):
                    a = T.alloc_buffer((16, 512), scope="shared.ub")
                    w = T.alloc_buffer((512,), scope="shared.ub")
                    T.tl.copy(W[0:512], w[0:512])
                    T.tl.copy(A[bx * 64 + part * 16:bx * 64 + part * 16 + 16, 0:512], a[0:16, 0:512])
                    for i in T.parallel(16, annotations={"tl.parallel": 2}):
                        for j in T.parallel(512):
                            a[i, j] = a[i, j] * w[j] + T.Cast("float32", i + part * 16)
                    T.tl.copy(a[0:16, 0:512], C[bx * 64 + part * 16:bx * 64 + part * 16 + 16, 0:512])
        """,
        {"parts": 4, "scope": "shared.ub"},
    ),
    "split_tiles, with a workspace": (
        """
        @T.prim_func
        def main(A: T.Buffer((64, 512), "float32"), C: T.Buffer((64, 512), "float32")):
            v = T.alloc_buffer((64, 512), "float32", annotations={"workspace": 1})
            w = T.alloc_buffer((64, 512), "float32", annotations={"workspace": 1})
            for bx in T.serial(1, annotations={"tl.grid": 0}):
                a = T.alloc_buffer((64, 512), "float32", scope="shared.ub")
                b = T.alloc_buffer((64, 512), "float32", scope="shared.ub")
                for k in range(4):
                    T.tl.copy(A[0:64, 0:512], a[0:64, 0:512])
                    T.tl.copy(a[0:64, 0:512], w[0:64, 0:512])
                    T.tl.copy(w[0:64, 0:512], b[0:64, 0:512])
                    T.tl.copy(b[0:64, 0:256], v[0:64, 0:256])
                    T.tl.copy(b[0:64, 0:512], C[0:64, 0:512])
        """,
        """
        @T.prim_func
        def main(A: T.Buffer((64, 512), "float32"), C: T.Buffer((64, 512), "float32")):
            v = T.alloc_buffer((64, 512), annotations={"workspace": 1})
            w = T.alloc_buffer((16, 512), annotations={"workspace": 1})
            for part in T.serial(4, annotations={"tl.grid": 1, "tl.part": 1}):
                for bx in T.serial(1, annotations={"tl.grid": 0}):
                    a = T.alloc_buffer((16, 512), scope="shared.ub")
                    b = T.alloc_buffer((16, 512), scope="shared.ub")
                    for k in range(4):
                        T.tl.copy(A[part * 16:part * 16 + 16, 0:512], a[0:16, 0:512])
                        T.tl.copy(a[0:16, 0:512], w[0:16, 0:512])
                        T.tl.copy(w[0:16, 0:512], b[0:16, 0:512])
                        T.tl.copy(b[0:16, 0:256], v[part * 16:part * 16 + 16, 0:256])
                        T.tl.copy(b[0:16, 0:512], C[part * 16:part * 16 + 16, 0:512])
        """,
        {"parts": 4, "scope": "shared.ub"},
    ),
    "stream_reductions": (
        """
        @T.prim_func
        def main(X: T.Buffer((1, 1000), "float16"), Y: T.Buffer((1, 1000), "float32"), H: T.Buffer((1,), "float16")):
            x = T.alloc_buffer((1, 1000), "float16", scope="shared.ub")
            e = T.alloc_buffer((1, 1000), "float32", scope="shared.ub")
            most = T.alloc_buffer((1,), "float16", scope="shared.ub")
            total = T.alloc_buffer((1,), "float16", scope="shared.ub")
            T.tl.copy(X[0:1, 0:1000], x[0:1, 0:1000])
            T.Call("tl.reduce", [x[0:1, 0:1000], most[0:1]], attrs={"clear": 1, "dim": 1, "kind": "max"}, ret_ty="void")
            for j in T.parallel(1000, annotations={"tl.parallel": 1}):
                e[0, j] = T.exp(T.Cast("float32", x[0, j] - most[0]))
            T.Call("tl.reduce", [x[0:1, 0:1000], total[0:1]], attrs={"clear": 1, "dim": 1, "kind": "sum"}, ret_ty="void")
            T.tl.copy(total[0:1], H[0:1])
            T.tl.copy(e[0:1, 0:1000], Y[0:1, 0:1000])
        """,
        """
        @T.prim_func
        def main(X: T.Buffer((1, 1000), "float16"), Y: T.Buffer((1, 1000), "float32"), H: T.Buffer((1,), "float16")):
            total_total = T.alloc_buffer((1,), scope="shared.ub")
            x = T.alloc_buffer((1, 384), "float16", scope="shared.ub")
            x_rest = T.alloc_buffer((1, 232), "float16", scope="shared.ub")
            e = T.alloc_buffer((1, 384), scope="shared.ub")
            e_rest = T.alloc_buffer((1, 232), scope="shared.ub")
            most = T.alloc_buffer((1,), "float16", scope="shared.ub")
            total = T.alloc_buffer((1,), "float16", scope="shared.ub")
            T.tl.fill(most[0:1], T.float16("-inf"))
            for part in range(2):
                T.tl.copy(X[0:1, part * 384:part * 384 + 384], x[0:1, 0:384])
                T.Call("tl.reduce", [x[0:1, 0:384], most[0:1]], attrs={"clear": 0, "dim": 1, "kind": "max"}, ret_ty="void")
            T.tl.copy(X[0:1, 768:1000], x_rest[0:1, 0:232])
            T.Call("tl.reduce", [x_rest[0:1, 0:232], most[0:1]], attrs={"clear": 0, "dim": 1, "kind": "max"}, ret_ty="void")
            T.tl.fill(total_total[0:1], T.float32(-0.0))
            for part in range(2):
                T.tl.copy(X[0:1, part * 384:part * 384 + 384], x[0:1, 0:384])
                T.Call("tl.reduce", [x[0:1, 0:384], total_total[0:1]], attrs={"clear": 0, "dim": 1, "kind": "sum"}, ret_ty="void")
            T.tl.copy(X[0:1, 768:1000], x_rest[0:1, 0:232])
            T.Call("tl.reduce", [x_rest[0:1, 0:232], total_total[0:1]], attrs={"clear": 0, "dim": 1, "kind": "sum"}, ret_ty="void")
            T.tl.copy(total_total[0:1], total[0:1])
            T.tl.copy(total[0:1], H[0:1])
            for part in range(2):
                T.tl.copy(X[0:1, part * 384:part * 384 + 384], x[0:1, 0:384])
                for j in T.parallel(384, annotations={"tl.parallel": 1}):
                    e[0, j] = T.exp(T.Cast("float32", x[0, j] - most[0]))
                T.tl.copy(e[0:1, 0:384], Y[0:1, part * 384:part * 384 + 384])
            T.tl.copy(X[0:1, 768:1000], x_rest[0:1, 0:232])
            for j in T.parallel(232, annotations={"tl.parallel": 1}):
                e_rest[0, j] = T.exp(T.Cast("float32", x_rest[0, j] - most[0]))
            T.tl.copy(e_rest[0:1, 0:232], Y[0:1, 768:1000])
        """,
        {"parts": 3, "scope": "shared.ub"},
    ),
    "carry_elements": (
        """
        @T.prim_func
        def main(A: T.Buffer((32, 32), "float16")):
            a = T.alloc_buffer((16, 16), "float16", scope="shared.l1")
            c = T.alloc_buffer((16, 16), "float32", scope="local.l0c")
            s = T.alloc_buffer((8,), "float32", scope="shared.ub")
            block: T.let[T.int32] = T.ascend.get_block_idx()
            at = T.alloc_buffer((1,), "int32", scope="local.var")
            best = T.alloc_buffer((1,), "float32", scope="local.var")
            at[0] = 0
            best[0] = T.float32(0)
            for i in range(8):
                v: T.let[T.float32] = s[i]
                if v > best[0]:
                    best[0] = v
                    at[0] = i
            w: T.let[T.float32] = s[3]
            T.tl.copy(A[at[0]:at[0] + 16, 0:16], a[0:16, 0:16])
            if w > T.float32(0):
                T.Call("tl.gemm", [a[0:16, 0:16], a[0:16, 0:16], c[0:16, 0:16], T.bool(True)], attrs={"transpose_A": 0, "transpose_B": 0}, ret_ty="void")
        """,
        """
        @T.prim_func
        def main(A: T.Buffer((32, 32), "float16")):
            at_place = T.alloc_buffer((1,), "int32", scope="global", annotations={"workspace": 1, "carried": 1})
            w_place = T.alloc_buffer((1,), scope="global", annotations={"workspace": 1, "carried": 1})
            a = T.alloc_buffer((16, 16), "float16", scope="shared.l1")
            c = T.alloc_buffer((16, 16), scope="local.l0c")
            s = T.alloc_buffer((8,), scope="shared.ub")
            block: T.let[T.int32] = T.ascend.get_block_idx()
            at = T.alloc_buffer((1,), "int32", scope="local.var")
            best = T.alloc_buffer((1,), scope="local.var")
            at[0] = 0
            best[0] = T.float32(0.0)
            at_1 = T.alloc_buffer((1,), "int32", scope="local.var")
            at_1[0] = at[0]
            for i in range(8):
                v: T.let[T.float32] = s[i]
                if v > best[0]:
                    best[0] = v
                    at_1[0] = i
            at_place[0] = at_1[0]
            at[0] = at_place[0]
            w_place[0] = s[3]
            w: T.let[T.float32] = w_place[0]
            T.tl.copy(A[at[0]:at[0] + 16, 0:16], a[0:16, 0:16])
            if w > T.float32(0.0):
                T.Call("tl.gemm", [a[0:16, 0:16], a[0:16, 0:16], c[0:16, 0:16], T.bool(True)], attrs={"transpose_A": 0, "transpose_B": 0}, ret_ty="void")
        """,
    ),
    "split_rows": (
        """
        @T.prim_func
        def main(A: T.Buffer((32, 32), "float16"), C: T.Buffer((32, 32), "float32")):
            a = T.alloc_buffer((32, 32), "float16", scope="shared.l1")
            c = T.alloc_buffer((32, 32), "float32", scope="local.l0c")
            v = T.alloc_buffer((32, 32), "float32", scope="shared.ub")
            block: T.let[T.int32] = T.ascend.get_block_idx()
            T.tl.copy(A[0:32, 0:32], a[0:32, 0:32])
            T.Call("tl.gemm", [a[0:32, 0:32], a[0:32, 0:32], c[0:32, 0:32], T.bool(True)], attrs={"transpose_A": 0, "transpose_B": 0}, ret_ty="void")
            T.tl.copy(c[0:32, 0:32], v[0:32, 0:32])
            for i in T.parallel(32, annotations={"tl.parallel": 2}):
                for j in T.parallel(32):
                    v[i, j] = v[i, j] + T.float32(1)
            T.tl.copy(v[0:32, 0:32], C[0:32, 0:32])
        """,
        """
        @T.prim_func
        def main(A: T.Buffer((32, 32), "float16"), C: T.Buffer((32, 32), "float32")):
            a = T.alloc_buffer((32, 32), "float16", scope="shared.l1")
            c = T.alloc_buffer((32, 32), scope="local.l0c")
            v = T.alloc_buffer((16, 32), scope="shared.ub")
            sub_block: T.let[T.int32] = T.ascend.get_sub_block_idx()
            block: T.let[T.int32] = T.ascend.get_block_idx()
            T.tl.copy(A[0:32, 0:32], a[0:32, 0:32])
            T.Call("tl.gemm", [a[0:32, 0:32], a[0:32, 0:32], c[0:32, 0:32], T.bool(True)], attrs={"transpose_A": 0, "transpose_B": 0}, ret_ty="void")
            T.tl.copy(c[sub_block * 16:sub_block * 16 + 16, 0:32], v[0:16, 0:32])
            for i in T.parallel(16, annotations={"tl.parallel": 2}):
                for j in T.parallel(32):
                    v[i, j] = v[i, j] + T.float32(1.0)
            T.tl.copy(v[0:16, 0:32], C[sub_block * 16:sub_block * 16 + 16, 0:32])
        """,
    ),
    "version_buffers": (
        """
        @T.prim_func
        def main(X: T.Buffer((256,), "float32"), Y: T.Buffer((256,), "float32")):
            a = T.alloc_buffer((64,), "float32", scope="shared.ub")
            for k in T.serial(4, annotations={"num_stages": 2}):
                T.tl.copy(X[k * 64:k * 64 + 64], a[0:64])
                T.tl.copy(a[0:64], Y[k * 64:k * 64 + 64])
        """,
        """
        @T.prim_func
        def main(X: T.Buffer((256,), "float32"), Y: T.Buffer((256,), "float32")):
            a = T.alloc_buffer((2, 64), scope="shared.ub")
            for k in T.serial(4, annotations={"num_stages": 2}):
                T.tl.copy(X[k * 64:k * 64 + 64], a[k % 2, 0:64])
                T.tl.copy(a[k % 2, 0:64], Y[k * 64:k * 64 + 64])
        """,
        {"sharing": Sharing(2, temporaries=0)},
    ),
    "fold_clears": (
        """
        @T.prim_func
        def main():
            a = T.alloc_buffer((1, 32, 32), "float16", scope="shared.l1")
            c = T.alloc_buffer((1, 32, 32), "float32", scope="local.l0c")
            T.tl.fill(c[0, 0:32, 0:32], T.float32(0))
            for k in range(4):
                T.Call("tl.gemm", [a[0, 0:32, 0:32], a[0, 0:32, 0:32], c[0, 0:32, 0:32], T.bool(False)], attrs={"transpose_A": 0, "transpose_B": 0}, ret_ty="void")
        """,
        """
        @T.prim_func
        def main():
            a = T.alloc_buffer((1, 32, 32), "float16", scope="shared.l1")
            c = T.alloc_buffer((1, 32, 32), scope="local.l0c")
            for k in range(4):
                T.Call("tl.gemm", [a[0, 0:32, 0:32], a[0, 0:32, 0:32], c[0, 0:32, 0:32], k == 0], attrs={"transpose_A": 0, "transpose_B": 0}, ret_ty="void")
        """,
    ),
    "split_masks": (
        """
        @T.prim_func
        def main(n: T.int32):
            a = T.alloc_buffer((8, 512), "float32", scope="shared.ub")
            for k in T.serial(n, annotations={"tl.skew": "0 1"}):
                if not n >= k * 512:
                    for i in T.parallel(8, annotations={"tl.parallel": 2}):
                        for j in T.parallel(512):
                            a[i, j] = a[i, j] + T.if_then_else(n >= k * 512 + j, T.float32(0), T.float32("-inf"))
                if not n >= k * 512:
                    for i in T.parallel(8, annotations={"tl.parallel": 2}):
                        for j in T.parallel(512):
                            a[i, j] = T.if_then_else(n >= k * 512 + j, a[i, j], T.float32("-inf"))
                for i in T.parallel(8, annotations={"tl.parallel": 2}):
                    for j in T.parallel(512):
                        a[i, j] = T.exp(a[i, j])
        """,
        """
        @T.prim_func
        def main(n: T.int32):
            a = T.alloc_buffer((8, 512), scope="shared.ub")
            for k in T.serial(n, annotations={"tl.skew": "0 1"}):
                if not n >= k * 512:
                    for i_part in range(2):
                        for i in T.parallel(4, annotations={"tl.parallel": 2}):
                            for j in T.parallel(512):
                                a[i_part * 4 + i, j] = a[i_part * 4 + i, j] + T.if_then_else(n >= k * 512 + j, T.float32(0), T.float32("-inf"))
                if not n >= k * 512:
                    for i in T.parallel(8, annotations={"tl.parallel": 2}):
                        for j in T.parallel(512):
                            a[i, j] = T.if_then_else(n >= k * 512 + j, a[i, j], T.float32("-inf"))
                for i in T.parallel(8, annotations={"tl.parallel": 2}):
                    for j in T.parallel(512):
                        a[i, j] = T.exp(a[i, j])
        """,
    ),
    "split_nests": (
        """
        @T.prim_func
        def main():
            a = T.alloc_buffer((1, 8, 64), "float32", scope="shared.ub")
            for i in T.parallel(8, annotations={"tl.parallel": 2}):
                for j in T.parallel(64):
                    a[0, i, j] = T.exp(a[0, i, j])
        """,
        """
        @T.prim_func
        def main():
            a = T.alloc_buffer((1, 8, 64), scope="shared.ub")
            for i_part in range(4):
                for i in T.parallel(2, annotations={"tl.parallel": 2}):
                    for j in T.parallel(64):
                        a[0, i_part * 2 + i, j] = T.exp(a[0, i_part * 2 + i, j])
        """,
        {"lanes": 128},
    ),
    "lower_tile_ops": (
        """
        @T.prim_func
        def main(X: T.Buffer((64,), "float32")):
            T.func_attr({"ascend.block_dim": 1, "global_symbol": "main"})
            a = T.alloc_buffer((1, 64), "float32", scope="shared.ub")
            T.tl.copy(X[0:64], a[0, 0:64])
            for i in T.parallel(64, annotations={"tl.parallel": 1}):
                a[0, i] = a[0, i] + T.float32(1)
            T.tl.copy(a[0, 0:64], X[0:64])
        """,
        """
        @T.prim_func
        def main(X: T.Buffer((64,), "float32")):
            T.func_attr({"ascend.block_dim": 1, "ascend.num_workspaces": 0, "ascend.workspace_bytes": []})
            a = T.alloc_buffer((1, 64), scope="shared.ub", annotations={"elements": 256})
            T.ascend.copy_gm_to_ub(a[0, 0], X[0], 1, 256, 0, 0, 0, 0, 0, 0)
            T.ascend.adds(a[0, 0], a[0, 0], T.float32(1.0), 64)
            T.ascend.copy_ub_to_gm(X[0], a[0, 0], 1, 256, 0, 0)
        """,
    ),
    "float8_codes": (
        """
        @T.prim_func
        def main(X: T.Buffer((64,), "float8_e4m3fn"), Y: T.Buffer((64,), "float8_e4m3fn")):
            a = T.alloc_buffer((1, 64), "float8_e4m3fn", scope="shared.ub")
            T.ascend.copy_gm_to_ub(a[0, 0], X[0], 1, 64, 0, 0, 0, 0, 0, 0)
            T.ascend.copy_ub_to_gm(Y[0], a[0, 0], 1, 64, 0, 0)
        """,
        """
        @T.prim_func
        def main(X: T.Buffer((64,), "uint8"), Y: T.Buffer((64,), "uint8")):
            a = T.alloc_buffer((1, 64), "uint8", scope="shared.ub")
            T.ascend.copy_gm_to_ub(a[0, 0], X[0], 1, 64, 0, 0, 0, 0, 0, 0)
            T.ascend.copy_ub_to_gm(Y[0], a[0, 0], 1, 64, 0, 0)
        """,
    ),
    "distribute_loops": (
        """
        @T.prim_func
        def main(X: T.Buffer((4096,), "float32"), Y: T.Buffer((64,), "float32")):
            x = T.alloc_buffer((2, 1024), "float32", scope="shared.ub")
            b = T.alloc_buffer((1, 128), "float32", scope="shared.ub")
            c = T.alloc_buffer((1, 64), "float32", scope="shared.ub")
            y = T.alloc_buffer((1, 64), "float32", scope="shared.ub")
            for k in range(4):
                T.ascend.copy_gm_to_ub(x[k % 2, 0], X[k * 1024], 1, 4096, 0, 0, 0, 0, 0, 0)
                T.ascend.block_reduce_sum(b[0, 0], x[k % 2, 0], 16, 64, 1, 1, 8)
                T.ascend.block_reduce_sum(c[0, 0], b[0, 0], 2, 64, 1, 1, 8)
                T.ascend.adds(y[0, k * 16], c[0, 0], T.float32(1), 16)
            T.ascend.copy_ub_to_gm(Y[0], y[0, 0], 1, 256, 0, 0)
        """,
        """
        @T.prim_func
        def main(X: T.Buffer((4096,), "float32"), Y: T.Buffer((64,), "float32")):
            x = T.alloc_buffer((2, 1024), scope="shared.ub")
            b = T.alloc_buffer((1, 512), scope="shared.ub")
            c = T.alloc_buffer((1, 64), scope="shared.ub")
            y = T.alloc_buffer((1, 64), scope="shared.ub")
            for k in range(4):
                T.ascend.copy_gm_to_ub(x[k % 2, 0], X[k * 1024], 1, 4096, 0, 0, 0, 0, 0, 0)
                T.ascend.block_reduce_sum(b[0, k * 128], x[k % 2, 0], 16, 64, 1, 1, 8)
            T.ascend.block_reduce_sum(c[0, 0], b[0, 0], 8, 64, 1, 1, 8)
            for k in range(4):
                T.ascend.adds(y[0, k * 16], c[0, k * 16], T.float32(1.0), 16)
            T.ascend.copy_ub_to_gm(Y[0], y[0, 0], 1, 256, 0, 0)
        """,
    ),
    "interleave_windows": (
        """
        @T.prim_func
        def main(X: T.Buffer((256,), "float32"), Y: T.Buffer((256,), "float32")):
            x = T.alloc_buffer((2, 64), "float32", scope="shared.ub")
            m = T.alloc_buffer((1, 64), "float32", scope="shared.ub")
            for k in range(5):
                if k < 4:
                    T.ascend.copy_gm_to_ub(x[k % 2, 0], X[k * 64], 1, 256, 0, 0, 0, 0, 0, 0)
                    T.ascend.adds(m[0, 0], x[k % 2, 0], T.float32(1), 64)
                    T.ascend.muls(m[0, 0], m[0, 0], T.float32(2), 64)
                if k >= 1:
                    y = T.alloc_buffer((1, 64), "float32", scope="shared.ub")
                    T.ascend.adds(y[0, 0], x[(k + 1) % 2, 0], T.float32(3), 64)
                    for r in range(2):
                        T.ascend.exp(y[0, r * 32], y[0, r * 32], 32)
                    T.ascend.copy_ub_to_gm(Y[k * 64 - 64], y[0, 0], 1, 256, 0, 0)
        """,
        """
        @T.prim_func
        def main(X: T.Buffer((256,), "float32"), Y: T.Buffer((256,), "float32")):
            x = T.alloc_buffer((2, 64), "float32", scope="shared.ub")
            m = T.alloc_buffer((1, 64), "float32", scope="shared.ub")
            for k in range(5):
                y = T.alloc_buffer((1, 64), "float32", scope="shared.ub")
                if k >= 1:
                    T.ascend.adds(y[0, 0], x[(k + 1) % 2, 0], T.float32(3), 64)
                if k < 4:
                    T.ascend.copy_gm_to_ub(x[k % 2, 0], X[k * 64], 1, 256, 0, 0, 0, 0, 0, 0)
                    T.ascend.adds(m[0, 0], x[k % 2, 0], T.float32(1), 64)
                if k >= 1:
                    for r in range(2):
                        T.ascend.exp(y[0, r * 32], y[0, r * 32], 32)
                    T.ascend.copy_ub_to_gm(Y[k * 64 - 64], y[0, 0], 1, 256, 0, 0)
                if k < 4:
                    T.ascend.muls(m[0, 0], m[0, 0], T.float32(2), 64)
        """,
    ),
    "interleave_windows, loads in branches and results that take longer": (
        """
        @T.prim_func
        def main(X: T.Buffer((256,), "float32"), Y: T.Buffer((256,), "float32"), n: T.int32):
            x = T.alloc_buffer((2, 64), "float32", scope="shared.ub")
            m = T.alloc_buffer((2, 64), "float32", scope="shared.ub")
            for k in range(5):
                if k < 4:
                    if n < 64:
                        T.ascend.copy_gm_to_ub(x[k % 2, 0], X[k * 64], 1, n * 4, 0, 0, 0, 0, 0, 0)
                    else:
                        T.ascend.copy_gm_to_ub(x[k % 2, 0], X[k * 64], 1, 256, 0, 0, 0, 0, 0, 0)
                    T.ascend.adds(m[k % 2, 0], x[k % 2, 0], T.float32(1), 64)
                    T.ascend.exp(m[k % 2, 0], m[k % 2, 0], 64)
                if k >= 1:
                    y = T.alloc_buffer((1, 64), "float32", scope="shared.ub")
                    T.ascend.adds(y[0, 0], m[(k + 1) % 2, 0], T.float32(3), 64)
                    T.ascend.muls(y[0, 0], y[0, 0], T.float32(3), 64)
                    T.ascend.copy_ub_to_gm(Y[k * 64 - 64], y[0, 0], 1, 256, 0, 0)
        """,
        """
        @T.prim_func
        def main(X: T.Buffer((256,), "float32"), Y: T.Buffer((256,), "float32"), n: T.int32):
            x = T.alloc_buffer((2, 64), "float32", scope="shared.ub")
            m = T.alloc_buffer((2, 64), "float32", scope="shared.ub")
            for k in range(5):
                y = T.alloc_buffer((1, 64), "float32", scope="shared.ub")
                if k >= 1:
                    T.ascend.adds(y[0, 0], m[(k + 1) % 2, 0], T.float32(3), 64)
                if k < 4:
                    if n < 64:
                        T.ascend.copy_gm_to_ub(x[k % 2, 0], X[k * 64], 1, n * 4, 0, 0, 0, 0, 0, 0)
                    else:
                        T.ascend.copy_gm_to_ub(x[k % 2, 0], X[k * 64], 1, 256, 0, 0, 0, 0, 0, 0)
                    T.ascend.adds(m[k % 2, 0], x[k % 2, 0], T.float32(1), 64)
                if k < 4:
                    T.ascend.exp(m[k % 2, 0], m[k % 2, 0], 64)
                if k >= 1:
                    T.ascend.muls(y[0, 0], y[0, 0], T.float32(3), 64)
                    T.ascend.copy_ub_to_gm(Y[k * 64 - 64], y[0, 0], 1, 256, 0, 0)
        """,
    ),
    "hoist_invariants": (
        """
        @T.prim_func
        def main(X: T.Buffer((64,), "float32")):
            a = T.alloc_buffer((1, 64), "float32", scope="shared.ub")
            b = T.alloc_buffer((1, 64), "float32", scope="shared.ub")
            for k in range(4):
                T.ascend.duplicate(a[0, 0], T.float32(2), 64)
                T.ascend.add(b[0, 0], b[0, 0], a[0, 0], 64)
            T.ascend.copy_ub_to_gm(X[0], b[0, 0], 1, 256, 0, 0)
        """,
        """
        @T.prim_func
        def main(X: T.Buffer((64,), "float32")):
            a = T.alloc_buffer((1, 64), scope="shared.ub")
            b = T.alloc_buffer((1, 64), scope="shared.ub")
            T.ascend.duplicate(a[0, 0], T.float32(2.0), 64)
            for k in range(4):
                T.ascend.add(b[0, 0], b[0, 0], a[0, 0], 64)
            T.ascend.copy_ub_to_gm(X[0], b[0, 0], 1, 256, 0, 0)
        """,
    ),
    "expand_lane_numbers": (
        """
        @T.prim_func
        def main():
            a = T.alloc_buffer((1, 64), "int32", scope="shared.ub")
            T.ascend.create_vec_index(a[0, 0], 5, 16)
        """,
        """
        @T.prim_func
        def main():
            a = T.alloc_buffer((1, 64), "int32", scope="shared.ub")
            T.ascend.duplicate(a[0, 0], 5, 16)
            T.ascend.adds_mask(a[0, 0], a[0, 0], 1, T.int64(0), T.int64(43690), 1, 1, 1, 8, 8)
            T.ascend.adds_mask(a[0, 0], a[0, 0], 2, T.int64(0), T.int64(52428), 1, 1, 1, 8, 8)
            T.ascend.adds_mask(a[0, 0], a[0, 0], 4, T.int64(0), T.int64(61680), 1, 1, 1, 8, 8)
            T.ascend.adds_mask(a[0, 0], a[0, 0], 8, T.int64(0), T.int64(65280), 1, 1, 1, 8, 8)
        """,
    ),
    "plan_memory": (
        """
        @T.prim_func
        def main(X: T.Buffer((64,), "float32")):
            a = T.alloc_buffer((1, 64), "float32", scope="shared.ub")
            b = T.alloc_buffer((2, 64), "float32", scope="shared.ub")
            T.ascend.copy_gm_to_ub(a[0, 0], X[0], 1, 256, 0, 0, 0, 0, 0, 0)
            T.ascend.exp(b[1, 0], a[0, 0], 64)
            T.ascend.copy_ub_to_gm(X[0], b[1, 0], 1, 256, 0, 0)
        """,
        """
        @T.prim_func
        def main(X: T.Buffer((64,), "float32")):
            a = T.alloc_buffer((1, 64), scope="shared.ub", annotations={"address": 512})
            b = T.alloc_buffer((2, 64), scope="shared.ub", annotations={"address": 0})
            T.ascend.copy_gm_to_ub(a[0, 0], X[0], 1, 256, 0, 0, 0, 0, 0, 0)
            T.ascend.exp(b[1, 0], a[0, 0], 64)
            T.ascend.copy_ub_to_gm(X[0], b[1, 0], 1, 256, 0, 0)
        """,
    ),
    "fresh_elements": (
        """
        @T.prim_func
        def main(X: T.Buffer((64,), "int32"), Y: T.Buffer((64,), "int32")):
            a = T.alloc_buffer((1, 8), "int32", scope="shared.ub", annotations={"address": 0})
            i: T.let[T.int32] = T.ascend.get_value(X[3])
            T.ascend.copy_ub_to_gm(Y[i], a[0, 0], 1, 4, 0, 0)
            y: T.let[T.int32] = T.ascend.get_value(Y[5])
            T.ascend.set_value(a[0, 0], y)
        """,
        """
        @T.prim_func
        def main(X: T.Buffer((64,), "int32"), Y: T.Buffer((64,), "int32")):
            a = T.alloc_buffer((1, 8), "int32", scope="shared.ub", annotations={"address": 0})
            i: T.let[T.int32] = T.ascend.get_value(X[3])
            T.ascend.copy_ub_to_gm(Y[i], a[0, 0], 1, 4, 0, 0)
            T.ascend.data_cache_clean(Y[5])
            y: T.let[T.int32] = T.ascend.get_value(Y[5])
            T.ascend.set_value(a[0, 0], y)
        """,
    ),
    "schedule_vector": (
        """
        @T.prim_func
        def main():
            a = T.alloc_buffer((1, 64), "float32", scope="shared.ub", annotations={"address": 0})
            b = T.alloc_buffer((1, 64), "float32", scope="shared.ub", annotations={"address": 256})
            c = T.alloc_buffer((1, 64), "float32", scope="shared.ub", annotations={"address": 512})
            d = T.alloc_buffer((1, 64), "float32", scope="shared.ub", annotations={"address": 768})
            T.ascend.exp(b[0, 0], a[0, 0], 64)
            T.ascend.exp(b[0, 0], b[0, 0], 64)
            T.ascend.exp(d[0, 0], c[0, 0], 64)
            T.ascend.exp(d[0, 0], d[0, 0], 64)
        """,
        """
        @T.prim_func
        def main():
            a = T.alloc_buffer((1, 64), scope="shared.ub", annotations={"address": 0})
            b = T.alloc_buffer((1, 64), scope="shared.ub", annotations={"address": 256})
            c = T.alloc_buffer((1, 64), scope="shared.ub", annotations={"address": 512})
            d = T.alloc_buffer((1, 64), scope="shared.ub", annotations={"address": 768})
            T.ascend.exp(b[0, 0], a[0, 0], 64)
            T.ascend.exp(d[0, 0], c[0, 0], 64)
            T.ascend.exp(b[0, 0], b[0, 0], 64)
            T.ascend.exp(d[0, 0], d[0, 0], 64)
        """,
    ),
    "guard_jumps": (
        """
        @T.prim_func
        def main(N: T.Buffer((4,), "int32")):
            a = T.alloc_buffer((1, 64), "float32", scope="shared.ub", annotations={"address": 0})
            for k in range(4):
                n: T.let[T.int32] = T.ascend.get_value(N[k])
                if n > 3:
                    T.evaluate(T.break_loop())
                T.ascend.exp(a[0, 0], a[0, 0], 64)
        """,
        """
        @T.prim_func
        def main(N: T.Buffer((4,), "int32")):
            a = T.alloc_buffer((1, 64), scope="shared.ub", annotations={"address": 0})
            rest: T.int32
            done: T.int32 = 0
            for k in range(4):
                if done == 0:
                    rest = 0
                    n: T.let[T.int32] = T.ascend.get_value(N[k])
                    if n > 3:
                        rest = 1
                        done = 1
                    if rest == 0:
                        T.ascend.exp(a[0, 0], a[0, 0], 64)
        """,
    ),
    "insert_sync": (
        """
        @T.prim_func
        def main(X: T.Buffer((64,), "float32")):
            a = T.alloc_buffer((1, 64), "float32", scope="shared.ub", annotations={"address": 0})
            T.ascend.copy_gm_to_ub(a[0, 0], X[0], 1, 256, 0, 0, 0, 0, 0, 0)
            T.ascend.exp(a[0, 0], a[0, 0], 64)
            T.ascend.copy_ub_to_gm(X[0], a[0, 0], 1, 256, 0, 0)
        """,
        """
        @T.prim_func
        def main(X: T.Buffer((64,), "float32")):
            a = T.alloc_buffer((1, 64), scope="shared.ub", annotations={"address": 0})
            T.ascend.copy_gm_to_ub(a[0, 0], X[0], 1, 256, 0, 0, 0, 0, 0, 0)
            T.Call("ascend.set_flag", [0], attrs={"core": "aiv", "event": "MTE2_V"}, ret_ty="void")
            T.Call("ascend.wait_flag", [0], attrs={"core": "aiv", "event": "MTE2_V"}, ret_ty="void")
            T.ascend.exp(a[0, 0], a[0, 0], 64)
            T.Call("ascend.set_flag", [0], attrs={"core": "aiv", "event": "V_MTE3"}, ret_ty="void")
            T.Call("ascend.wait_flag", [0], attrs={"core": "aiv", "event": "V_MTE3"}, ret_ty="void")
            T.ascend.copy_ub_to_gm(X[0], a[0, 0], 1, 256, 0, 0)
        """,
    ),
    "split_cores": (
        """
        @T.prim_func
        def main(X: T.Buffer((256,), "float16"), Y: T.Buffer((64,), "float32")):
            T.func_attr({"ascend.block_dim": 1, "ascend.chip": "Ascend910B1", "ascend.num_workspaces": 0, "ascend.workspace_bytes": [], "global_symbol": "main"})
            a = T.alloc_buffer((1, 256), "float16", scope="shared.l1", annotations={"address": 0})
            v = T.alloc_buffer((1, 64), "float32", scope="shared.ub", annotations={"address": 0})
            T.ascend.copy_gm_to_l1_nd2nz(a[0, 0], X[0], 1, 16, 16, 0, 16, 16, 1, 0)
            T.ascend.copy_gm_to_ub(v[0, 0], Y[0], 1, 256, 0, 0, 0, 0, 0, 0)
        """,
        """
        @I.ir_module
        class Module:
            @T.prim_func
            def main_aic(X: T.Buffer((256,), "float16"), Y: T.Buffer((64,), "float32")):
                T.func_attr({"ascend.block_dim": 1, "ascend.chip": "Ascend910B1", "ascend.core": "aic", "ascend.kernel_name": "main", "ascend.kernel_type": "mix_1_2", "ascend.num_workspaces": 0, "ascend.workspace_bytes": []})
                a = T.alloc_buffer((1, 256), "float16", scope="shared.l1", annotations={"address": 0})
                T.ascend.copy_gm_to_l1_nd2nz(a[0, 0], X[0], 1, 16, 16, 0, 16, 16, 1, 0)
            @T.prim_func
            def main_aiv(X: T.Buffer((256,), "float16"), Y: T.Buffer((64,), "float32")):
                T.func_attr({"ascend.block_dim": 1, "ascend.chip": "Ascend910B1", "ascend.core": "aiv", "ascend.kernel_name": "main", "ascend.kernel_type": "mix_1_2", "ascend.num_workspaces": 0, "ascend.workspace_bytes": []})
                v = T.alloc_buffer((1, 64), scope="shared.ub", annotations={"address": 0})
                T.ascend.copy_gm_to_ub(v[0, 0], Y[0], 1, 256, 0, 0, 0, 0, 0, 0)
        """,
    ),
    "resolve_block_index": (
        """
        @T.prim_func
        def main(X: T.Buffer((64,), "float32")):
            T.func_attr({"ascend.core": "aiv", "ascend.kernel_type": "mix_1_2", "global_symbol": "main"})
            block: T.let[T.int32] = T.ascend.get_block_idx()
            v = T.alloc_buffer((1, 64), "float32", scope="shared.ub", annotations={"address": 0})
            T.ascend.copy_gm_to_ub(v[0, 0], X[block], 1, 4, 0, 0, 0, 0, 0, 0)
        """,
        """
        @I.ir_module
        class Module:
            @T.prim_func
            def main_aiv(X: T.Buffer((64,), "float32")):
                T.func_attr({"ascend.core": "aiv", "ascend.kernel_type": "mix_1_2", "global_symbol": "main"})
                core: T.let[T.int32] = T.ascend.get_block_idx()
                block: T.let[T.int32] = core // 2
                v = T.alloc_buffer((1, 64), scope="shared.ub", annotations={"address": 0})
                T.ascend.copy_gm_to_ub(v[0, 0], X[block], 1, 4, 0, 0, 0, 0, 0, 0)
        """,
    ),
    "close_cores": (
        """
        @T.prim_func
        def main(X: T.Buffer((64,), "float32")):
            T.func_attr({"ascend.core": "aiv", "ascend.kernel_type": "aiv_only", "global_symbol": "main"})
            v = T.alloc_buffer((1, 64), "float32", scope="shared.ub", annotations={"address": 0})
            T.ascend.copy_ub_to_gm(X[0], v[0, 0], 1, 256, 0, 0)
        """,
        """
        @I.ir_module
        class Module:
            @T.prim_func
            def main_aiv(X: T.Buffer((64,), "float32")):
                T.func_attr({"ascend.core": "aiv", "ascend.kernel_type": "aiv_only", "global_symbol": "main"})
                v = T.alloc_buffer((1, 64), scope="shared.ub", annotations={"address": 0})
                T.ascend.copy_ub_to_gm(X[0], v[0, 0], 1, 256, 0, 0)
                T.Call("ascend.pipe_barrier", [], attrs={"pipe": "ALL"}, ret_ty="void")
        """,
    ),
    "merge_steps": (
        """
        @T.prim_func
        def main(K: T.Buffer((256, 32), "float16"), V: T.Buffer((256, 32), "float16"), O: T.Buffer((16, 32), "float32")):
            q = T.alloc_shared((16, 32), "float16")
            k_s = T.alloc_shared((16, 32), "float16")
            v_s = T.alloc_shared((16, 32), "float16")
            s = T.alloc_buffer((16, 16), "float32", scope="local.fragment")
            p = T.alloc_buffer((16, 16), "float16", scope="local.fragment")
            o = T.alloc_buffer((16, 32), "float32", scope="local.fragment")
            m = T.alloc_buffer((16,), "float32", scope="local.fragment")
            old = T.alloc_buffer((16,), "float32", scope="local.fragment")
            for k in T.serial(16, annotations={"num_stages": 2}):
                T.tl.copy(K[k * 16:k * 16 + 16, 0:32], k_s[0:16, 0:32])
                T.tl.fill(s[0:16, 0:16], T.float32(0))
                T.Call("tl.gemm", [q[0:16, 0:32], k_s[0:16, 0:32], s[0:16, 0:16], T.bool(False)], attrs={"transpose_A": 0, "transpose_B": 1}, ret_ty="void")
                T.tl.copy(m[0:16], old[0:16])
                T.Call("tl.reduce", [s[0:16, 0:16], m[0:16]], attrs={"clear": 0, "dim": 1, "kind": "max"}, ret_ty="void")
                for i in T.parallel(16, annotations={"tl.parallel": 2}):
                    for j in T.parallel(16):
                        p[i, j] = T.Cast("float16", T.exp(s[i, j] - m[i]))
                for i in T.parallel(16, annotations={"tl.parallel": 2}):
                    for d in T.parallel(32):
                        o[i, d] = o[i, d] * T.exp(old[i] - m[i])
                T.tl.copy(V[k * 16:k * 16 + 16, 0:32], v_s[0:16, 0:32])
                T.Call("tl.gemm", [p[0:16, 0:16], v_s[0:16, 0:32], o[0:16, 0:32], T.bool(False)], attrs={"transpose_A": 0, "transpose_B": 0}, ret_ty="void")
            T.tl.copy(o[0:16, 0:32], O[0:16, 0:32])
        """,
        """
        @T.prim_func
        def main(K: T.Buffer((256, 32), "float16"), V: T.Buffer((256, 32), "float16"), O: T.Buffer((16, 32), "float32")):
            q = T.alloc_shared((16, 32), "float16")
            k_s = T.alloc_shared((64, 32), "float16")
            v_s = T.alloc_shared((64, 32), "float16")
            s = T.alloc_buffer((16, 64), "float32", scope="local.fragment")
            p = T.alloc_buffer((16, 64), "float16", scope="local.fragment")
            o = T.alloc_buffer((16, 32), "float32", scope="local.fragment")
            m = T.alloc_buffer((16,), "float32", scope="local.fragment")
            old = T.alloc_buffer((16,), "float32", scope="local.fragment")
            for k in T.serial(4, annotations={"num_stages": 2}):
                T.tl.copy(K[k * 4 * 16:k * 4 * 16 + 64, 0:32], k_s[0:64, 0:32])
                T.tl.fill(s[0:16, 0:64], T.float32(0))
                T.Call("tl.gemm", [q[0:16, 0:32], k_s[0:64, 0:32], s[0:16, 0:64], T.bool(False)], attrs={"transpose_A": 0, "transpose_B": 1}, ret_ty="void")
                T.tl.copy(m[0:16], old[0:16])
                T.Call("tl.reduce", [s[0:16, 0:64], m[0:16]], attrs={"clear": 0, "dim": 1, "kind": "max"}, ret_ty="void")
                for i in T.parallel(16, annotations={"tl.parallel": 2}):
                    for j in T.parallel(64):
                        p[i, j] = T.Cast("float16", T.exp(s[i, j] - m[i]))
                for i in T.parallel(16, annotations={"tl.parallel": 2}):
                    for d in T.parallel(32):
                        o[i, d] = o[i, d] * T.exp(old[i] - m[i])
                T.tl.copy(V[k * 4 * 16:k * 4 * 16 + 64, 0:32], v_s[0:64, 0:32])
                T.Call("tl.gemm", [p[0:16, 0:64], v_s[0:64, 0:32], o[0:16, 0:32], T.bool(False)], attrs={"transpose_A": 0, "transpose_B": 0}, ret_ty="void")
            T.tl.copy(o[0:16, 0:32], O[0:16, 0:32])
        """,
    ),
    "shorten_steps": (
        """
        @T.prim_func
        def main(Q: T.Buffer((256, 128), "float16"), V: T.Buffer((128, 128), "float32"), G: T.Buffer((256, 128), "float32")):
            a = T.alloc_shared((128, 128), "float16")
            q = T.alloc_shared((128, 128), "float16")
            p = T.alloc_shared((128, 128), "float16")
            s = T.alloc_buffer((128, 128), "float32", scope="local.fragment")
            v = T.alloc_buffer((128, 128), "float32", scope="local.fragment")
            g = T.alloc_buffer((128, 128), "float32", scope="local.fragment")
            for j in T.serial(2, annotations={"num_stages": 2}):
                T.tl.copy(Q[j * 128:j * 128 + 128, 0:128], q[0:128, 0:128])
                T.tl.fill(s[0:128, 0:128], T.float32(0))
                T.Call("tl.gemm", [a[0:128, 0:128], q[0:128, 0:128], s[0:128, 0:128], T.bool(False)], attrs={"transpose_A": 0, "transpose_B": 1}, ret_ty="void")
                for x in T.parallel(128, annotations={"tl.parallel": 2}):
                    for y in T.parallel(128):
                        p[x, y] = T.Cast("float16", T.exp(s[x, y]))
                T.Call("tl.gemm", [p[0:128, 0:128], q[0:128, 0:128], v[0:128, 0:128], T.bool(False)], attrs={"transpose_A": 0, "transpose_B": 0}, ret_ty="void")
                T.tl.fill(g[0:128, 0:128], T.float32(0))
                T.Call("tl.gemm", [p[0:128, 0:128], a[0:128, 0:128], g[0:128, 0:128], T.bool(False)], attrs={"transpose_A": 1, "transpose_B": 0}, ret_ty="void")
                T.tl.atomic_add(G[j * 128:j * 128 + 128, 0:128], g[0:128, 0:128])
            T.tl.copy(v[0:128, 0:128], V[0:128, 0:128])
        """,
        """
        @T.prim_func
        def main(Q: T.Buffer((256, 128), "float16"), V: T.Buffer((128, 128), "float32"), G: T.Buffer((256, 128), "float32")):
            a = T.alloc_shared((128, 128), "float16")
            q = T.alloc_shared((64, 128), "float16")
            p = T.alloc_shared((128, 64), "float16")
            s = T.alloc_buffer((128, 64), "float32", scope="local.fragment")
            v = T.alloc_buffer((128, 128), "float32", scope="local.fragment")
            g = T.alloc_buffer((64, 128), "float32", scope="local.fragment")
            for j in T.serial(4, annotations={"num_stages": 2}):
                T.tl.copy(Q[j * 64:j * 64 + 64, 0:128], q[0:64, 0:128])
                T.tl.fill(s[0:128, 0:64], T.float32(0))
                T.Call("tl.gemm", [a[0:128, 0:128], q[0:64, 0:128], s[0:128, 0:64], T.bool(False)], attrs={"transpose_A": 0, "transpose_B": 1}, ret_ty="void")
                for x in T.parallel(128, annotations={"tl.parallel": 2}):
                    for y in T.parallel(64):
                        p[x, y] = T.Cast("float16", T.exp(s[x, y]))
                T.Call("tl.gemm", [p[0:128, 0:64], q[0:64, 0:128], v[0:128, 0:128], T.bool(False)], attrs={"transpose_A": 0, "transpose_B": 0}, ret_ty="void")
                T.tl.fill(g[0:64, 0:128], T.float32(0))
                T.Call("tl.gemm", [p[0:128, 0:64], a[0:128, 0:128], g[0:64, 0:128], T.bool(False)], attrs={"transpose_A": 1, "transpose_B": 0}, ret_ty="void")
                T.tl.atomic_add(G[j * 64:j * 64 + 64, 0:128], g[0:64, 0:128])
            T.tl.copy(v[0:128, 0:128], V[0:128, 0:128])
        """,
    ),
    "skip_blocks": (
        """
        @T.prim_func
        def main(A: T.Buffer((64, 16), "float16"), L: T.Buffer((1,), "int32"), Y: T.Buffer((64, 16), "float32")):
            for bx in T.serial(4, annotations={"tl.grid": 0}):
                a = T.alloc_shared((16, 16), "float16")
                n: T.let[T.int32] = L[0]
                c = T.alloc_buffer((16, 16), "float32", scope="local.fragment")
                for k in range(4):
                    T.tl.copy(A[k * 16:k * 16 + 16, 0:16], a[0:16, 0:16])
                    T.Call("tl.gemm", [a[0:16, 0:16], a[0:16, 0:16], c[0:16, 0:16], k == 0], attrs={"transpose_A": 0, "transpose_B": 1}, ret_ty="void")
                for i in T.parallel(16, annotations={"tl.parallel": 2}):
                    for j in T.parallel(16):
                        if bx * 16 + i < n:
                            Y[bx * 16 + i, j] = c[i, j]
        """,
        """
        @T.prim_func
        def main(A: T.Buffer((64, 16), "float16"), L: T.Buffer((1,), "int32"), Y: T.Buffer((64, 16), "float32")):
            for bx in T.serial(4, annotations={"tl.grid": 0}):
                a = T.alloc_shared((16, 16), "float16")
                n: T.let[T.int32] = L[0]
                c = T.alloc_buffer((16, 16), "float32", scope="local.fragment")
                if n > T.Add(bx * 16, 0):
                    for k in range(4):
                        T.tl.copy(A[k * 16:k * 16 + 16, 0:16], a[0:16, 0:16])
                        T.Call("tl.gemm", [a[0:16, 0:16], a[0:16, 0:16], c[0:16, 0:16], k == 0], attrs={"transpose_A": 0, "transpose_B": 1}, ret_ty="void")
                    for i in T.parallel(16, annotations={"tl.parallel": 2}):
                        for j in T.parallel(16):
                            if bx * 16 + i < n:
                                Y[bx * 16 + i, j] = c[i, j]
        """,
    ),
    "separate_products": (
        """
        @T.prim_func
        def main():
            for bx in T.serial(1, annotations={"tl.grid": 0}):
                a = T.alloc_shared((32, 32), "float16")
                c = T.alloc_buffer((32, 32), "float32", scope="local.fragment")
                for i in T.parallel(32, annotations={"tl.parallel": 2}):
                    for j in T.parallel(32):
                        c[i, j] = T.float32(1)
                for k in range(4):
                    T.Call("tl.gemm", [a[0:32, 0:32], a[0:32, 0:32], c[0:32, 0:32], T.bool(False)], attrs={"transpose_A": 0, "transpose_B": 0}, ret_ty="void")
        """,
        """
        @T.prim_func
        def main():
            for bx in T.serial(1, annotations={"tl.grid": 0}):
                c_product = T.alloc_buffer((32, 32), scope="local.fragment")
                a = T.alloc_shared((32, 32), "float16")
                c = T.alloc_buffer((32, 32), scope="local.fragment")
                for i in T.parallel(32, annotations={"tl.parallel": 2}):
                    for j in T.parallel(32):
                        c[i, j] = T.float32(1.0)
                T.tl.fill(c_product[0:32, 0:32], T.float32(0.0))
                for k in range(4):
                    T.Call("tl.gemm", [a[0:32, 0:32], a[0:32, 0:32], c_product[0:32, 0:32], T.bool(False)], attrs={"transpose_A": 0, "transpose_B": 0}, ret_ty="void")
                for i0 in T.parallel(32, annotations={"tl.parallel": 2}):
                    for i1 in T.parallel(32):
                        c[i0, i1] = c[i0, i1] + c_product[i0, i1]
        """,
    ),
    "separate_products, for sums larger than L0C": (
        """
        @T.prim_func
        def main(C: T.Buffer((256, 256), "float32")):
            for bx in T.serial(1, annotations={"tl.grid": 0}):
                a = T.alloc_shared((256, 256), "float16")
                c = T.alloc_buffer((256, 256), "float32", scope="local.fragment")
                for s in range(3):
                    T.tl.fill(c[0:256, 0:256], T.float32(0))
                    for k in range(2):
                        T.Call("tl.gemm", [a[0:256, 0:256], a[0:256, 0:256], c[0:256, 0:256], T.bool(False)], attrs={"transpose_A": 0, "transpose_B": 0}, ret_ty="void")
                    T.tl.copy(c[0:256, 0:256], a[0:256, 0:256])
                    T.Call("tl.gemm", [a[0:256, 0:256], a[0:256, 0:256], c[0:256, 0:256], T.bool(False)], attrs={"transpose_A": 0, "transpose_B": 0}, ret_ty="void")
                T.tl.copy(c[0:256, 0:256], C[0:256, 0:256])
        """,
        """
        @T.prim_func
        def main(C: T.Buffer((256, 256), "float32")):
            for bx in T.serial(1, annotations={"tl.grid": 0}):
                c_product = T.alloc_buffer((256, 256), scope="local.fragment")
                c_product_1 = T.alloc_buffer((256, 256), scope="local.fragment")
                a = T.alloc_shared((256, 256), "float16")
                c = T.alloc_buffer((256, 256), scope="local.fragment")
                for s in range(3):
                    T.tl.fill(c_product[0:256, 0:256], T.float32(0.0))
                    for k in range(2):
                        T.Call("tl.gemm", [a[0:256, 0:256], a[0:256, 0:256], c_product[0:256, 0:256], T.bool(False)], attrs={"transpose_A": 0, "transpose_B": 0}, ret_ty="void")
                    T.tl.copy(c_product[0:256, 0:256], c[0:256, 0:256])
                    T.tl.copy(c[0:256, 0:256], a[0:256, 0:256])
                    T.tl.fill(c_product_1[0:256, 0:256], T.float32(0.0))
                    T.Call("tl.gemm", [a[0:256, 0:256], a[0:256, 0:256], c_product_1[0:256, 0:256], T.bool(False)], attrs={"transpose_A": 0, "transpose_B": 0}, ret_ty="void")
                    for i0 in T.parallel(256, annotations={"tl.parallel": 2}):
                        for i1 in T.parallel(256):
                            c[i0, i1] = c[i0, i1] + c_product_1[i0, i1]
                T.tl.copy(c[0:256, 0:256], C[0:256, 0:256])
        """,
        {"apart": Apart.LOOPS},
    ),
    "separate_stores": (
        """
        @T.prim_func
        def main(X: T.Buffer((6400,), "float32"), Y: T.Buffer((6400,), "float32")):
            a = T.alloc_buffer((64,), "float32", scope="shared.ub")
            for k in range(100):
                T.tl.copy(X[k * 64:k * 64 + 64], a[0:64])
                for i in T.parallel(64, annotations={"tl.parallel": 1}):
                    a[i] = a[i] * a[i]
                T.tl.copy(a[0:64], Y[k * 64:k * 64 + 64])
        """,
        """
        @T.prim_func
        def main(X: T.Buffer((6400,), "float32"), Y: T.Buffer((6400,), "float32")):
            a = T.alloc_buffer((64,), scope="shared.ub")
            a_out = T.alloc_buffer((64,), scope="shared.ub")
            for k in range(100):
                T.tl.copy(X[k * 64:k * 64 + 64], a[0:64])
                for i in T.parallel(64, annotations={"tl.parallel": 1}):
                    a_out[i] = a[i] * a[i]
                T.tl.copy(a_out[0:64], Y[k * 64:k * 64 + 64])
        """,
    ),
    "overlap_tiles": (
        """
        @T.prim_func
        def main(X: T.Buffer((512, 64), "float32"), Y: T.Buffer((512, 64), "float32")):
            T.func_attr({"ascend.block_dim": 2})
            x = T.alloc_buffer((4, 64), "float32", scope="shared.ub")
            m = T.alloc_buffer((4,), "float32", scope="shared.ub")
            block: T.let[T.int32] = T.ascend.get_block_idx()
            for t in T.serial(64, annotations={"tl.persistent": 1}):
                tile: T.let[T.int32] = block + t * 2
                T.tl.copy(X[tile * 4:tile * 4 + 4, 0:64], x[0:4, 0:64])
                T.Call("tl.reduce", [x[0:4, 0:64], m[0:4]], attrs={"clear": 1, "dim": 1, "kind": "max"}, ret_ty="void")
                for i in T.parallel(4, annotations={"tl.parallel": 2}):
                    for j in T.parallel(64):
                        x[i, j] = T.exp(x[i, j] - m[i])
                T.tl.copy(x[0:4, 0:64], Y[tile * 4:tile * 4 + 4, 0:64])
        """,
        """
        @T.prim_func
        def main(X: T.Buffer((512, 64), "float32"), Y: T.Buffer((512, 64), "float32")):
            T.func_attr({"ascend.block_dim": 2})
            x = T.alloc_buffer((4, 64), "float32", scope="shared.ub")
            m = T.alloc_buffer((4,), "float32", scope="shared.ub")
            block: T.let[T.int32] = T.ascend.get_block_idx()
            for t in T.serial(64, annotations={"tl.persistent": 1, "tl.skew": "0 0 0 1 1"}):
                tile: T.let[T.int32] = block + t * 2
                T.tl.copy(X[tile * 4:tile * 4 + 4, 0:64], x[0:4, 0:64])
                T.Call("tl.reduce", [x[0:4, 0:64], m[0:4]], attrs={"clear": 1, "dim": 1, "kind": "max"}, ret_ty="void")
                for i in T.parallel(4, annotations={"tl.parallel": 2}):
                    for j in T.parallel(64):
                        x[i, j] = T.exp(x[i, j] - m[i])
                T.tl.copy(x[0:4, 0:64], Y[tile * 4:tile * 4 + 4, 0:64])
        """,
    ),
    "pair_tiles": (
        """
        @T.prim_func
        def main(X: T.Buffer((10, 8, 64), "float32"), Y: T.Buffer((10, 64), "float32")):
            T.func_attr({"ascend.block_dim": 2})
            x = T.alloc_buffer((64,), "float32", scope="shared.ub")
            y = T.alloc_buffer((64,), "float32", scope="shared.ub")
            block: T.let[T.int32] = T.ascend.get_block_idx()
            for t in T.serial(5, annotations={"tl.persistent": 1, "tl.skew": "0 0 0 1"}):
                tile: T.let[T.int32] = block + t * 2
                T.tl.fill(y[0:64], T.float32(0.0))
                for k in range(8):
                    T.tl.copy(X[tile, k, 0:64], x[0:64])
                    for i in T.parallel(64, annotations={"tl.parallel": 1}):
                        y[i] = T.exp(y[i] - x[i])
                T.tl.copy(y[0:64], Y[tile, 0:64])
        """,
        """
        @T.prim_func
        def main(X: T.Buffer((10, 8, 64), "float32"), Y: T.Buffer((10, 64), "float32")):
            T.func_attr({"ascend.block_dim": 2})
            x = T.alloc_buffer((64,), "float32", scope="shared.ub")
            x_2 = T.alloc_buffer((64,), "float32", scope="shared.ub")
            x_3 = T.alloc_buffer((64,), "float32", scope="shared.ub")
            y = T.alloc_buffer((64,), "float32", scope="shared.ub")
            y_2 = T.alloc_buffer((64,), "float32", scope="shared.ub")
            y_3 = T.alloc_buffer((64,), "float32", scope="shared.ub")
            block: T.let[T.int32] = T.ascend.get_block_idx()
            for t in T.serial(2, annotations={"tl.persistent": 1, "tl.paired": 1}):
                tile: T.let[T.int32] = block + t * 2 * 2
                tile_2: T.let[T.int32] = block + (t * 2 + 1) * 2
                T.tl.fill(y[0:64], T.float32(0.0))
                T.tl.fill(y_2[0:64], T.float32(0.0))
                for k in range(8):
                    T.tl.copy(X[tile, k, 0:64], x[0:64])
                    T.tl.copy(X[tile_2, k, 0:64], x_2[0:64])
                    for i in T.parallel(64, annotations={"tl.parallel": 1}):
                        y[i] = T.exp(y[i] - x[i])
                    for i in T.parallel(64, annotations={"tl.parallel": 1}):
                        y_2[i] = T.exp(y_2[i] - x_2[i])
                T.tl.copy(y[0:64], Y[tile, 0:64])
                T.tl.copy(y_2[0:64], Y[tile_2, 0:64])
            tile_3: T.let[T.int32] = block + T.Mul(4, 2)
            T.tl.fill(y_3[0:64], T.float32(0.0))
            for k in range(8):
                T.tl.copy(X[tile_3, k, 0:64], x_3[0:64])
                for i in T.parallel(64, annotations={"tl.parallel": 1}):
                    y_3[i] = T.exp(y_3[i] - x_3[i])
            T.tl.copy(y_3[0:64], Y[tile_3, 0:64])
        """,
    ),
    "pair_tiles, by way of both kinds of core": (
        """
        @T.prim_func
        def main(X: T.Buffer((4, 8, 64, 64), "float16"), Y: T.Buffer((4, 64, 64), "float32")):
            T.func_attr({"ascend.block_dim": 2})
            x = T.alloc_buffer((64, 64), "float16", scope="shared.l1")
            s = T.alloc_buffer((64, 64), "float16", scope="shared.l1")
            p = T.alloc_buffer((64, 64), "float32", scope="local.l0c")
            y = T.alloc_buffer((64, 64), "float32", scope="shared.ub")
            ws = T.alloc_buffer((64, 64), "float32", annotations={"workspace": 1})
            back = T.alloc_buffer((64, 64), "float16", annotations={"workspace": 1})
            block: T.let[T.int32] = T.ascend.get_block_idx()
            for t in T.serial(2, annotations={"tl.persistent": 1}):
                T.tl.fill(s[0:64, 0:64], T.float16(0.0))
                for k in range(8):
                    T.tl.fill(p[0:64, 0:64], T.float32(0.0))
                    T.Call("tl.gemm", [s[0:64, 0:64], s[0:64, 0:64], p[0:64, 0:64], T.bool(False)], attrs={"transpose_A": 0, "transpose_B": 0}, ret_ty="void")
                    T.tl.copy(p[0:64, 0:64], ws[0:64, 0:64])
                    T.tl.copy(ws[0:64, 0:64], y[0:64, 0:64])
                    T.tl.copy(X[block + t * 2, k, 0:64, 0:64], x[0:64, 0:64])
                    for i in T.parallel(64, annotations={"tl.parallel": 2}):
                        for j in T.parallel(64):
                            y[i, j] = T.exp(y[i, j])
                    T.tl.copy(y[0:64, 0:64], back[0:64, 0:64])
                    T.tl.copy(back[0:64, 0:64], s[0:64, 0:64])
                T.tl.copy(y[0:64, 0:64], Y[block + t * 2, 0:64, 0:64])
        """,
        """
        @T.prim_func
        def main(X: T.Buffer((4, 8, 64, 64), "float16"), Y: T.Buffer((4, 64, 64), "float32")):
            T.func_attr({"ascend.block_dim": 2})
            x = T.alloc_buffer((64, 64), "float16", scope="shared.l1")
            x_2 = T.alloc_buffer((64, 64), "float16", scope="shared.l1")
            s = T.alloc_buffer((64, 64), "float16", scope="shared.l1")
            s_2 = T.alloc_buffer((64, 64), "float16", scope="shared.l1")
            p = T.alloc_buffer((64, 64), "float32", scope="local.l0c")
            p_2 = T.alloc_buffer((64, 64), "float32", scope="local.l0c")
            y = T.alloc_buffer((64, 64), "float32", scope="shared.ub")
            y_2 = T.alloc_buffer((64, 64), "float32", scope="shared.ub")
            ws = T.alloc_buffer((64, 64), "float32", annotations={"workspace": 1})
            ws_2 = T.alloc_buffer((64, 64), "float32", annotations={"workspace": 1})
            back = T.alloc_buffer((64, 64), "float16", annotations={"workspace": 1})
            back_2 = T.alloc_buffer((64, 64), "float16", annotations={"workspace": 1})
            block: T.let[T.int32] = T.ascend.get_block_idx()
            for t in T.serial(1, annotations={"tl.persistent": 1}):
                T.tl.fill(s[0:64, 0:64], T.float16(0.0))
                T.tl.fill(s_2[0:64, 0:64], T.float16(0.0))
                for k in range(8):
                    T.tl.fill(p[0:64, 0:64], T.float32(0.0))
                    T.Call("tl.gemm", [s[0:64, 0:64], s[0:64, 0:64], p[0:64, 0:64], T.bool(False)], attrs={"transpose_A": 0, "transpose_B": 0}, ret_ty="void")
                    T.tl.copy(p[0:64, 0:64], ws[0:64, 0:64])
                    T.tl.copy(X[block + t * 2 * 2, k, 0:64, 0:64], x[0:64, 0:64])
                    T.tl.fill(p_2[0:64, 0:64], T.float32(0.0))
                    T.Call("tl.gemm", [s_2[0:64, 0:64], s_2[0:64, 0:64], p_2[0:64, 0:64], T.bool(False)], attrs={"transpose_A": 0, "transpose_B": 0}, ret_ty="void")
                    T.tl.copy(p_2[0:64, 0:64], ws_2[0:64, 0:64])
                    T.tl.copy(X[block + (t * 2 + 1) * 2, k, 0:64, 0:64], x_2[0:64, 0:64])
                    T.tl.copy(ws[0:64, 0:64], y[0:64, 0:64])
                    for i in T.parallel(64, annotations={"tl.parallel": 2}):
                        for j in T.parallel(64):
                            y[i, j] = T.exp(y[i, j])
                    T.tl.copy(y[0:64, 0:64], back[0:64, 0:64])
                    T.tl.copy(ws_2[0:64, 0:64], y_2[0:64, 0:64])
                    for i in T.parallel(64, annotations={"tl.parallel": 2}):
                        for j in T.parallel(64):
                            y_2[i, j] = T.exp(y_2[i, j])
                    T.tl.copy(y_2[0:64, 0:64], back_2[0:64, 0:64])
                    T.tl.copy(back[0:64, 0:64], s[0:64, 0:64])
                    T.tl.copy(back_2[0:64, 0:64], s_2[0:64, 0:64])
                T.tl.copy(y[0:64, 0:64], Y[block + t * 2 * 2, 0:64, 0:64])
                T.tl.copy(y_2[0:64, 0:64], Y[block + (t * 2 + 1) * 2, 0:64, 0:64])
        """,
    ),
    "interleave_pairs": (
        """
        @T.prim_func
        def main(X: T.Buffer((256,), "float32"), Y: T.Buffer((256,), "float32")):
            x = T.alloc_buffer((1, 64), "float32", scope="shared.ub")
            x_2 = T.alloc_buffer((1, 64), "float32", scope="shared.ub")
            m = T.alloc_buffer((1, 64), "float32", scope="shared.ub")
            m_2 = T.alloc_buffer((1, 64), "float32", scope="shared.ub")
            for t in T.serial(2, annotations={"tl.persistent": 1, "tl.paired": 1}):
                T.ascend.copy_gm_to_ub(x[0, 0], X[t * 128], 1, 256, 0, 0, 0, 0, 0, 0)
                T.ascend.copy_gm_to_ub(x_2[0, 0], X[t * 128 + 64], 1, 256, 0, 0, 0, 0, 0, 0)
                T.ascend.adds(m[0, 0], x[0, 0], T.float32(1), 64)
                T.ascend.adds(m_2[0, 0], x_2[0, 0], T.float32(1), 64)
                for i in range(8):
                    T.ascend.muls(m[0, 0], m[0, 0], T.float32(2), 64)
                    T.ascend.exp(m[0, 0], m[0, 0], 64)
                    T.ascend.muls(m_2[0, 0], m_2[0, 0], T.float32(2), 64)
                    T.ascend.exp(m_2[0, 0], m_2[0, 0], 64)
                T.ascend.adds(x[0, 0], m[0, 0], T.float32(1), 64)
                T.ascend.adds(x_2[0, 0], m_2[0, 0], T.float32(1), 64)
                T.ascend.copy_ub_to_gm(Y[t * 128], x[0, 0], 1, 256, 0, 0)
                T.ascend.copy_ub_to_gm(Y[t * 128 + 64], x_2[0, 0], 1, 256, 0, 0)
        """,
        """
        @T.prim_func
        def main(X: T.Buffer((256,), "float32"), Y: T.Buffer((256,), "float32")):
            x = T.alloc_buffer((1, 64), "float32", scope="shared.ub")
            x_2 = T.alloc_buffer((1, 64), "float32", scope="shared.ub")
            m = T.alloc_buffer((1, 64), "float32", scope="shared.ub")
            m_2 = T.alloc_buffer((1, 64), "float32", scope="shared.ub")
            for t in T.serial(2, annotations={"tl.persistent": 1, "tl.paired": 1}):
                T.ascend.copy_gm_to_ub(x[0, 0], X[t * 128], 1, 256, 0, 0, 0, 0, 0, 0)
                T.ascend.copy_gm_to_ub(x_2[0, 0], X[t * 128 + 64], 1, 256, 0, 0, 0, 0, 0, 0)
                T.ascend.adds(m[0, 0], x[0, 0], T.float32(1), 64)
                T.ascend.adds(m_2[0, 0], x_2[0, 0], T.float32(1), 64)
                for i in range(8):
                    T.ascend.muls(m[0, 0], m[0, 0], T.float32(2), 64)
                    T.ascend.muls(m_2[0, 0], m_2[0, 0], T.float32(2), 64)
                    T.ascend.exp(m[0, 0], m[0, 0], 64)
                    T.ascend.exp(m_2[0, 0], m_2[0, 0], 64)
                T.ascend.adds(x[0, 0], m[0, 0], T.float32(1), 64)
                T.ascend.adds(x_2[0, 0], m_2[0, 0], T.float32(1), 64)
                T.ascend.copy_ub_to_gm(Y[t * 128], x[0, 0], 1, 256, 0, 0)
                T.ascend.copy_ub_to_gm(Y[t * 128 + 64], x_2[0, 0], 1, 256, 0, 0)
        """,
    ),
    "pair_blocks": (
        """
        @T.prim_func
        def main(X: T.Buffer((1024, 4, 16, 16), "float16"), Y: T.Buffer((1024, 16, 16), "float32")):
            for bx in T.serial(1024, annotations={"tl.grid": 0}):
                for by in T.serial(4, annotations={"tl.grid": 1}):
                    x = T.alloc_buffer((16, 16), "float16", scope="shared.l1")
                    p = T.alloc_buffer((16, 16), "float32", scope="local.l0c")
                    y = T.alloc_buffer((16, 16), "float32", scope="shared.ub")
                    ws = T.alloc_buffer((16, 16), "float32", annotations={"workspace": 1})
                    steps: T.let[T.int32] = by + 1
                    row: T.let[T.int32] = bx * 4
                    T.tl.fill(p[0:16, 0:16], T.float32(0.0))
                    for k in range(steps):
                        T.tl.copy(X[bx, k, 0:16, 0:16], x[0:16, 0:16])
                        T.Call("tl.gemm", [x[0:16, 0:16], x[0:16, 0:16], p[0:16, 0:16], T.bool(False)], attrs={"transpose_A": 0, "transpose_B": 0}, ret_ty="void")
                    T.tl.copy(p[0:16, 0:16], ws[0:16, 0:16])
                    T.tl.copy(ws[0:16, 0:16], y[0:16, 0:16])
                    for i in T.parallel(16, annotations={"tl.parallel": 2}):
                        for j in T.parallel(16):
                            y[i, j] = T.exp(y[i, j] * T.float32(2.0)) + T.Cast("float32", row)
                    T.tl.copy(y[0:16, 0:16], Y[bx, 0:16, 0:16])
        """,
        """
        @T.prim_func
        def main(X: T.Buffer((1024, 4, 16, 16), "float16"), Y: T.Buffer((1024, 16, 16), "float32")):
            T.func_attr({"ascend.paired": 1})
            for bx in T.serial(512, annotations={"tl.grid": 0}):
                for by in T.serial(4, annotations={"tl.grid": 1}):
                    x = T.alloc_buffer((16, 16), "float16", scope="shared.l1")
                    x_2 = T.alloc_buffer((16, 16), "float16", scope="shared.l1")
                    p = T.alloc_buffer((16, 16), "float32", scope="local.l0c")
                    p_2 = T.alloc_buffer((16, 16), "float32", scope="local.l0c")
                    y = T.alloc_buffer((16, 16), "float32", scope="shared.ub")
                    y_2 = T.alloc_buffer((16, 16), "float32", scope="shared.ub")
                    ws = T.alloc_buffer((16, 16), "float32", annotations={"workspace": 1})
                    ws_2 = T.alloc_buffer((16, 16), "float32", annotations={"workspace": 1})
                    steps: T.let[T.int32] = by + 1
                    row: T.let[T.int32] = bx * 2 * 4
                    row_2: T.let[T.int32] = (bx * 2 + 1) * 4
                    T.tl.fill(p[0:16, 0:16], T.float32(0.0))
                    T.tl.fill(p_2[0:16, 0:16], T.float32(0.0))
                    for k in range(steps):
                        T.tl.copy(X[bx * 2, k, 0:16, 0:16], x[0:16, 0:16])
                        T.tl.copy(X[bx * 2 + 1, k, 0:16, 0:16], x_2[0:16, 0:16])
                        T.Call("tl.gemm", [x[0:16, 0:16], x[0:16, 0:16], p[0:16, 0:16], T.bool(False)], attrs={"transpose_A": 0, "transpose_B": 0}, ret_ty="void")
                        T.Call("tl.gemm", [x_2[0:16, 0:16], x_2[0:16, 0:16], p_2[0:16, 0:16], T.bool(False)], attrs={"transpose_A": 0, "transpose_B": 0}, ret_ty="void")
                    T.tl.copy(p[0:16, 0:16], ws[0:16, 0:16])
                    T.tl.copy(p_2[0:16, 0:16], ws_2[0:16, 0:16])
                    T.tl.copy(ws[0:16, 0:16], y[0:16, 0:16])
                    T.tl.copy(ws_2[0:16, 0:16], y_2[0:16, 0:16])
                    for i in T.parallel(16, annotations={"tl.parallel": 2}):
                        for j in T.parallel(16):
                            y[i, j] = T.exp(y[i, j] * T.float32(2.0)) + T.Cast("float32", row)
                    for i in T.parallel(16, annotations={"tl.parallel": 2}):
                        for j in T.parallel(16):
                            y_2[i, j] = T.exp(y_2[i, j] * T.float32(2.0)) + T.Cast("float32", row_2)
                    T.tl.copy(y[0:16, 0:16], Y[bx * 2, 0:16, 0:16])
                    T.tl.copy(y_2[0:16, 0:16], Y[bx * 2 + 1, 0:16, 0:16])
        """,
    ),
    "gather_loads": (
        """
        @T.prim_func
        def main(A: T.Buffer((64, 32), "float32"), B: T.Buffer((64, 32), "float32"), Y: T.Buffer((64, 32), "float32")):
            a = T.alloc_buffer((32, 32), "float32", scope="shared.ub")
            b = T.alloc_buffer((32, 32), "float32", scope="shared.ub")
            c = T.alloc_buffer((32, 32), "float32", scope="shared.ub")
            p = T.alloc_buffer((32, 32), scope="local.l0c")
            w = T.alloc_buffer((32, 32), "float32", annotations={"workspace": 1})
            for k in range(2):
                T.tl.copy(A[k * 32:k * 32 + 32, 0:32], a[0:32, 0:32])
                T.tl.fill(c[0:32, 0:32], T.float32(0.0))
                n: T.let[T.int32] = k * 32
                T.tl.copy(B[n:n + 32, 0:32], b[0:32, 0:32])
                T.tl.copy(B[k * 32:k * 32 + 32, 0:32], b[0:32, 0:32])
                T.tl.copy(w[0:32, 0:32], a[0:32, 0:32])
                T.tl.copy(B[k * 32:k * 32 + 32, 0:32], c[0:32, 0:32])
                T.tl.copy(a[0:32, 0:32], Y[k * 32:k * 32 + 32, 0:32])
        """,
        """
        @T.prim_func
        def main(A: T.Buffer((64, 32), "float32"), B: T.Buffer((64, 32), "float32"), Y: T.Buffer((64, 32), "float32")):
            a = T.alloc_buffer((32, 32), scope="shared.ub")
            b = T.alloc_buffer((32, 32), scope="shared.ub")
            c = T.alloc_buffer((32, 32), scope="shared.ub")
            p = T.alloc_buffer((32, 32), scope="local.l0c")
            w = T.alloc_buffer((32, 32), annotations={"workspace": 1})
            for k in range(2):
                T.tl.copy(A[k * 32:k * 32 + 32, 0:32], a[0:32, 0:32])
                T.tl.fill(c[0:32, 0:32], T.float32(0.0))
                n: T.let[T.int32] = k * 32
                T.tl.copy(B[n:n + 32, 0:32], b[0:32, 0:32])
                T.tl.copy(B[k * 32:k * 32 + 32, 0:32], b[0:32, 0:32])
                T.tl.copy(B[k * 32:k * 32 + 32, 0:32], c[0:32, 0:32])
                T.tl.copy(w[0:32, 0:32], a[0:32, 0:32])
                T.tl.copy(a[0:32, 0:32], Y[k * 32:k * 32 + 32, 0:32])
        """,
    ),
    "skew_stages": (
        """
        @T.prim_func
        def main(A: T.Buffer((128, 32), "float16")):
            a = T.alloc_buffer((32, 32), "float16", scope="shared.l1")
            s = T.alloc_buffer((32, 32), "float32", scope="local.l0c")
            w = T.alloc_buffer((32, 32), "float32", annotations={"workspace": 1})
            x = T.alloc_buffer((32, 32), "float16", scope="shared.ub")
            v = T.alloc_buffer((32, 32), "float16", annotations={"workspace": 1})
            p = T.alloc_buffer((32, 32), "float16", scope="shared.l1")
            o = T.alloc_buffer((32, 32), "float32", scope="local.l0c")
            for k in range(4):
                T.tl.copy(A[k * 32:k * 32 + 32, 0:32], a[0:32, 0:32])
                T.Call("tl.gemm", [a[0:32, 0:32], a[0:32, 0:32], s[0:32, 0:32], T.bool(True)], attrs={"transpose_A": 0, "transpose_B": 0}, ret_ty="void")
                T.tl.copy(s[0:32, 0:32], w[0:32, 0:32])
                T.tl.copy(w[0:32, 0:32], x[0:32, 0:32])
                T.tl.copy(x[0:32, 0:32], v[0:32, 0:32])
                T.tl.copy(v[0:32, 0:32], p[0:32, 0:32])
                T.Call("tl.gemm", [p[0:32, 0:32], a[0:32, 0:32], o[0:32, 0:32], T.bool(False)], attrs={"transpose_A": 0, "transpose_B": 0}, ret_ty="void")
        """,
        """
        @T.prim_func
        def main(A: T.Buffer((128, 32), "float16")):
            a = T.alloc_buffer((32, 32), "float16", scope="shared.l1")
            s = T.alloc_buffer((32, 32), scope="local.l0c")
            w = T.alloc_buffer((32, 32), annotations={"workspace": 1})
            x = T.alloc_buffer((32, 32), "float16", scope="shared.ub")
            v = T.alloc_buffer((32, 32), "float16", annotations={"workspace": 1})
            p = T.alloc_buffer((32, 32), "float16", scope="shared.l1")
            o = T.alloc_buffer((32, 32), scope="local.l0c")
            for k in T.serial(4, annotations={"tl.skew": "0 0 0 0 0 2 2"}):
                T.tl.copy(A[k * 32:k * 32 + 32, 0:32], a[0:32, 0:32])
                T.Call("tl.gemm", [a[0:32, 0:32], a[0:32, 0:32], s[0:32, 0:32], T.bool(True)], attrs={"transpose_A": 0, "transpose_B": 0}, ret_ty="void")
                T.tl.copy(s[0:32, 0:32], w[0:32, 0:32])
                T.tl.copy(w[0:32, 0:32], x[0:32, 0:32])
                T.tl.copy(x[0:32, 0:32], v[0:32, 0:32])
                T.tl.copy(v[0:32, 0:32], p[0:32, 0:32])
                T.Call("tl.gemm", [p[0:32, 0:32], a[0:32, 0:32], o[0:32, 0:32], T.bool(False)], attrs={"transpose_A": 0, "transpose_B": 0}, ret_ty="void")
        """,
    ),
    "skew_stages, a branch": (
        """
        @T.prim_func
        def main(A: T.Buffer((128, 32), "float16"), M: T.Buffer((4,), "int32")):
            a = T.alloc_buffer((32, 32), "float16", scope="shared.l1")
            s = T.alloc_buffer((32, 32), "float32", scope="local.l0c")
            w = T.alloc_buffer((32, 32), "float32", annotations={"workspace": 1})
            x = T.alloc_buffer((32, 32), "float16", scope="shared.ub")
            v = T.alloc_buffer((32, 32), "float16", annotations={"workspace": 1})
            p = T.alloc_buffer((32, 32), "float16", scope="shared.l1")
            o = T.alloc_buffer((32, 32), "float32", scope="local.l0c")
            for k in range(4):
                if M[k] != 0:
                    T.tl.copy(A[k * 32:k * 32 + 32, 0:32], a[0:32, 0:32])
                    T.Call("tl.gemm", [a[0:32, 0:32], a[0:32, 0:32], s[0:32, 0:32], T.bool(True)], attrs={"transpose_A": 0, "transpose_B": 0}, ret_ty="void")
                    T.tl.copy(s[0:32, 0:32], w[0:32, 0:32])
                    T.tl.copy(w[0:32, 0:32], x[0:32, 0:32])
                    T.tl.copy(x[0:32, 0:32], v[0:32, 0:32])
                    T.tl.copy(v[0:32, 0:32], p[0:32, 0:32])
                    T.Call("tl.gemm", [p[0:32, 0:32], a[0:32, 0:32], o[0:32, 0:32], T.bool(False)], attrs={"transpose_A": 0, "transpose_B": 0}, ret_ty="void")
        """,
        """
        @T.prim_func
        def main(A: T.Buffer((128, 32), "float16"), M: T.Buffer((4,), "int32")):
            a = T.alloc_buffer((32, 32), "float16", scope="shared.l1")
            s = T.alloc_buffer((32, 32), scope="local.l0c")
            w = T.alloc_buffer((32, 32), annotations={"workspace": 1})
            x = T.alloc_buffer((32, 32), "float16", scope="shared.ub")
            v = T.alloc_buffer((32, 32), "float16", annotations={"workspace": 1})
            p = T.alloc_buffer((32, 32), "float16", scope="shared.l1")
            o = T.alloc_buffer((32, 32), scope="local.l0c")
            for k in T.serial(4, annotations={"tl.skew": "0 0 0 0 0 2 2"}):
                if M[k] != 0:
                    T.tl.copy(A[k * 32:k * 32 + 32, 0:32], a[0:32, 0:32])
                if M[k] != 0:
                    T.Call("tl.gemm", [a[0:32, 0:32], a[0:32, 0:32], s[0:32, 0:32], T.bool(True)], attrs={"transpose_A": 0, "transpose_B": 0}, ret_ty="void")
                if M[k] != 0:
                    T.tl.copy(s[0:32, 0:32], w[0:32, 0:32])
                if M[k] != 0:
                    T.tl.copy(w[0:32, 0:32], x[0:32, 0:32])
                if M[k] != 0:
                    T.tl.copy(x[0:32, 0:32], v[0:32, 0:32])
                if M[k] != 0:
                    T.tl.copy(v[0:32, 0:32], p[0:32, 0:32])
                if M[k] != 0:
                    T.Call("tl.gemm", [p[0:32, 0:32], a[0:32, 0:32], o[0:32, 0:32], T.bool(False)], attrs={"transpose_A": 0, "transpose_B": 0}, ret_ty="void")
        """,
    ),
    "skew_stages, an accumulator": (
        """
        @T.prim_func
        def main(Y: T.Buffer((128, 32), "float32")):
            x = T.alloc_buffer((32, 32), "float16", scope="shared.ub")
            y = T.alloc_buffer((32, 32), "float32", scope="shared.ub")
            p = T.alloc_buffer((32, 32), "float16", scope="shared.l1")
            s = T.alloc_buffer((32, 32), "float32", scope="local.l0c")
            o = T.alloc_buffer((32, 32), "float32", scope="local.l0c")
            u = T.alloc_buffer((32, 32), "float16", annotations={"workspace": 1})
            v = T.alloc_buffer((32, 32), "float16", annotations={"workspace": 1})
            w = T.alloc_buffer((32, 32), "float32", annotations={"workspace": 1})
            T.tl.fill(x[0:32, 0:32], T.float16(0.0))
            for t in T.serial(4, annotations={"tl.persistent": 1}):
                T.tl.fill(o[0:32, 0:32], T.float32(0.0))
                for k in range(3):
                    T.tl.copy(x[0:32, 0:32], u[0:32, 0:32])
                    T.tl.copy(u[0:32, 0:32], p[0:32, 0:32])
                    T.Call("tl.gemm", [p[0:32, 0:32], p[0:32, 0:32], s[0:32, 0:32], T.bool(True)], attrs={"transpose_A": 0, "transpose_B": 0}, ret_ty="void")
                    T.Call("tl.gemm", [p[0:32, 0:32], p[0:32, 0:32], o[0:32, 0:32], T.bool(False)], attrs={"transpose_A": 0, "transpose_B": 0}, ret_ty="void")
                    T.tl.copy(s[0:32, 0:32], v[0:32, 0:32])
                    T.tl.copy(v[0:32, 0:32], x[0:32, 0:32])
                T.tl.copy(o[0:32, 0:32], w[0:32, 0:32])
                T.tl.copy(w[0:32, 0:32], y[0:32, 0:32])
                T.tl.copy(y[0:32, 0:32], Y[t * 32:t * 32 + 32, 0:32])
        """,
        """
        @T.prim_func
        def main(Y: T.Buffer((128, 32), "float32")):
            x = T.alloc_buffer((32, 32), "float16", scope="shared.ub")
            y = T.alloc_buffer((32, 32), scope="shared.ub")
            p = T.alloc_buffer((32, 32), "float16", scope="shared.l1")
            s = T.alloc_buffer((32, 32), scope="local.l0c")
            o = T.alloc_buffer((32, 32), scope="local.l0c")
            u = T.alloc_buffer((32, 32), "float16", annotations={"workspace": 1})
            v = T.alloc_buffer((32, 32), "float16", annotations={"workspace": 1})
            w = T.alloc_buffer((32, 32), annotations={"workspace": 1})
            T.tl.fill(x[0:32, 0:32], T.float16(0.0))
            for t in T.serial(4, annotations={"tl.persistent": 1, "tl.skew": "0 0 0 1 1"}):
                T.tl.fill(o[0:32, 0:32], T.float32(0.0))
                for k in range(3):
                    T.tl.copy(x[0:32, 0:32], u[0:32, 0:32])
                    T.tl.copy(u[0:32, 0:32], p[0:32, 0:32])
                    T.Call("tl.gemm", [p[0:32, 0:32], p[0:32, 0:32], s[0:32, 0:32], T.bool(True)], attrs={"transpose_A": 0, "transpose_B": 0}, ret_ty="void")
                    T.Call("tl.gemm", [p[0:32, 0:32], p[0:32, 0:32], o[0:32, 0:32], T.bool(False)], attrs={"transpose_A": 0, "transpose_B": 0}, ret_ty="void")
                    T.tl.copy(s[0:32, 0:32], v[0:32, 0:32])
                    T.tl.copy(v[0:32, 0:32], x[0:32, 0:32])
                T.tl.copy(o[0:32, 0:32], w[0:32, 0:32])
                T.tl.copy(w[0:32, 0:32], y[0:32, 0:32])
                T.tl.copy(y[0:32, 0:32], Y[t * 32:t * 32 + 32, 0:32])
        """,
    ),
    "chain_tiles": (
        """
        @T.prim_func
        def main(A: T.Buffer((64, 32), "float16"), Y: T.Buffer((64, 32), "float16")):
            q = T.alloc_buffer((32, 32), "float16", scope="shared.l1")
            s = T.alloc_buffer((32, 32), "float32", scope="local.l0c")
            w = T.alloc_buffer((32, 32), "float32", annotations={"workspace": 1})
            x = T.alloc_buffer((32, 32), "float16", scope="shared.ub")
            for t in T.serial(2, annotations={"tl.persistent": 1}):
                T.tl.copy(A[t * 32:t * 32 + 32, 0:32], q[0:32, 0:32])
                T.tl.fill(x[0:32, 0:32], T.float16(0.0))
                for k in T.serial(4, annotations={"tl.skew": "0 0 2"}):
                    T.Call("tl.gemm", [q[0:32, 0:32], q[0:32, 0:32], s[0:32, 0:32], T.bool(True)], attrs={"transpose_A": 0, "transpose_B": 0}, ret_ty="void")
                    T.tl.copy(s[0:32, 0:32], w[0:32, 0:32])
                    T.tl.copy(w[0:32, 0:32], x[0:32, 0:32])
                T.tl.copy(x[0:32, 0:32], Y[t * 32:t * 32 + 32, 0:32])
        """,
        """
        @T.prim_func
        def main(A: T.Buffer((64, 32), "float16"), Y: T.Buffer((64, 32), "float16")):
            q = T.alloc_buffer((32, 32), "float16", scope="shared.l1")
            s = T.alloc_buffer((32, 32), scope="local.l0c")
            w = T.alloc_buffer((32, 32), annotations={"workspace": 1})
            x = T.alloc_buffer((32, 32), "float16", scope="shared.ub")
            for t in T.serial(2, annotations={"tl.behind": 1, "tl.chained": "0 2 0 2", "tl.persistent": 1}):
                T.tl.copy(A[t * 32:t * 32 + 32, 0:32], q[0:32, 0:32])
                T.tl.fill(x[0:32, 0:32], T.float16(0.0))
                for k in T.serial(4, annotations={"tl.skew": "0 0 2"}):
                    T.Call("tl.gemm", [q[0:32, 0:32], q[0:32, 0:32], s[0:32, 0:32], T.bool(True)], attrs={"transpose_A": 0, "transpose_B": 0}, ret_ty="void")
                    T.tl.copy(s[0:32, 0:32], w[0:32, 0:32])
                    T.tl.copy(w[0:32, 0:32], x[0:32, 0:32])
                T.tl.copy(x[0:32, 0:32], Y[t * 32:t * 32 + 32, 0:32])
        """,
    ),
    "chain_tiles, a loop no tile follows": (
        """
        @T.prim_func
        def main(A: T.Buffer((64, 32), "float16"), Y: T.Buffer((64, 32), "float16")):
            q = T.alloc_buffer((32, 32), "float16", scope="shared.l1")
            s = T.alloc_buffer((32, 32), "float32", scope="local.l0c")
            w = T.alloc_buffer((32, 32), "float32", annotations={"workspace": 1})
            x = T.alloc_buffer((32, 32), "float16", scope="shared.ub")
            T.tl.copy(A[0:32, 0:32], q[0:32, 0:32])
            for k in T.serial(2, annotations={"tl.skew": "0 0 3"}):
                T.Call("tl.gemm", [q[0:32, 0:32], q[0:32, 0:32], s[0:32, 0:32], T.bool(True)], attrs={"transpose_A": 0, "transpose_B": 0}, ret_ty="void")
                T.tl.copy(s[0:32, 0:32], w[0:32, 0:32])
                T.tl.copy(w[0:32, 0:32], x[0:32, 0:32])
            T.tl.copy(x[0:32, 0:32], Y[0:32, 0:32])
        """,
        """
        @T.prim_func
        def main(A: T.Buffer((64, 32), "float16"), Y: T.Buffer((64, 32), "float16")):
            q = T.alloc_buffer((32, 32), "float16", scope="shared.l1")
            s = T.alloc_buffer((32, 32), "float32", scope="local.l0c")
            w = T.alloc_buffer((32, 32), "float32", annotations={"workspace": 1})
            x = T.alloc_buffer((32, 32), "float16", scope="shared.ub")
            T.tl.copy(A[0:32, 0:32], q[0:32, 0:32])
            for k in T.serial(2, annotations={"tl.skew": "0 0 1"}):
                T.Call("tl.gemm", [q[0:32, 0:32], q[0:32, 0:32], s[0:32, 0:32], T.bool(True)], attrs={"transpose_A": 0, "transpose_B": 0}, ret_ty="void")
                T.tl.copy(s[0:32, 0:32], w[0:32, 0:32])
                T.tl.copy(w[0:32, 0:32], x[0:32, 0:32])
            T.tl.copy(x[0:32, 0:32], Y[0:32, 0:32])
        """,
    ),
    "expand_workspaces": (
        """
        @T.prim_func
        def main(n: T.int32, A: T.Buffer((64, 32), "float16"), Y: T.Buffer((64, 32), "float16")):
            x = T.alloc_buffer((32, 32), "float16", scope="shared.ub")
            p = T.alloc_buffer((32, 32), "float16", scope="shared.l1")
            w = T.alloc_buffer((32, 32), "float16", annotations={"workspace": 1})
            v = T.alloc_buffer((32, 32), "float16", annotations={"workspace": 1})
            for t in T.serial(2, annotations={"tl.persistent": 1, "tl.skew": "0 0 1"}):
                for k in T.serial(T.min(n, 3)):
                    T.tl.copy(x[0:32, 0:32], w[0:32, 0:32])
                    T.tl.copy(w[0:32, 0:32], p[0:32, 0:32])
                for k in T.serial(n):
                    T.tl.copy(x[0:32, 0:32], v[0:32, 0:32])
                    T.tl.copy(v[0:32, 0:32], p[0:32, 0:32])
                T.tl.copy(x[0:32, 0:32], Y[t * 32:t * 32 + 32, 0:32])
        """,
        """
        @T.prim_func
        def main(n: T.int32, A: T.Buffer((64, 32), "float16"), Y: T.Buffer((64, 32), "float16")):
            x = T.alloc_buffer((32, 32), "float16", scope="shared.ub")
            p = T.alloc_buffer((32, 32), "float16", scope="shared.l1")
            w = T.alloc_buffer((2, 3, 32, 32), "float16", annotations={"workspace": 1})
            v = T.alloc_buffer((32, 32), "float16", annotations={"workspace": 1})
            for t in T.serial(2, annotations={"tl.persistent": 1, "tl.skew": "0 0 1"}):
                for k in T.serial(T.min(n, 3)):
                    T.tl.copy(x[0:32, 0:32], w[t % 2, k, 0:32, 0:32])
                    T.tl.copy(w[t % 2, k, 0:32, 0:32], p[0:32, 0:32])
                for k in T.serial(n):
                    T.tl.copy(x[0:32, 0:32], v[0:32, 0:32])
                    T.tl.copy(v[0:32, 0:32], p[0:32, 0:32])
                T.tl.copy(x[0:32, 0:32], Y[t * 32:t * 32 + 32, 0:32])
        """,
    ),
    "rotate_loops": (
        """
        @T.prim_func
        def main(X: T.Buffer((4, 64), "float32"), Y: T.Buffer((4, 64), "float32")):
            a = T.alloc_buffer((2, 64), "float32", scope="shared.ub")
            for k in T.serial(4, annotations={"tl.skew": "0 1"}):
                T.tl.copy(X[k, 0:64], a[k % 2, 0:64])
                T.tl.copy(a[k % 2, 0:64], Y[k, 0:64])
        """,
        """
        @T.prim_func
        def main(X: T.Buffer((4, 64), "float32"), Y: T.Buffer((4, 64), "float32")):
            a = T.alloc_buffer((2, 64), scope="shared.ub")
            for k in range(5):
                if k < 4:
                    T.tl.copy(X[k, 0:64], a[k % 2, 0:64])
                if k >= 1:
                    T.tl.copy(a[(k + 1) % 2, 0:64], Y[k - 1, 0:64])
        """,
    ),
    "narrow_masks": (
        """
        @T.prim_func
        def main(S: T.Buffer((64, 512), "float16"), n: T.int32):
            raw = T.alloc_buffer((64, 512), "float16", scope="shared.ub")
            x = T.alloc_buffer((64, 512), "float32", scope="shared.ub")
            T.tl.copy(S[0:64, 0:512], raw[0:64, 0:512])
            for i in T.parallel(64, annotations={"tl.parallel": 2}):
                for j in T.parallel(512):
                    x[i, j] = T.Cast("float32", raw[i, j])
            if n < 512:
                for i in T.parallel(64, annotations={"tl.parallel": 2}):
                    for j in T.parallel(512):
                        x[i, j] = x[i, j] + T.if_then_else(j < n, T.float32(0), T.float32("-inf"))
        """,
        """
        @T.prim_func
        def main(S: T.Buffer((64, 512), "float16"), n: T.int32):
            raw = T.alloc_buffer((64, 512), "float16", scope="shared.ub")
            x = T.alloc_buffer((64, 512), "float32", scope="shared.ub")
            T.tl.copy(S[0:64, 0:512], raw[0:64, 0:512])
            if n < 512:
                for i in T.parallel(64, annotations={"tl.parallel": 2}):
                    for j in T.parallel(512):
                        raw[i, j] = raw[i, j] + T.if_then_else(j < n, T.float16(0), T.float16("-inf"))
            for i in T.parallel(64, annotations={"tl.parallel": 2}):
                for j in T.parallel(512):
                    x[i, j] = T.Cast("float32", raw[i, j])
        """,
    ),
    "narrow_maxima": (
        """
        @T.prim_func
        def main():
            raw = T.alloc_buffer((4, 64), "float16", scope="shared.ub")
            x = T.alloc_buffer((4, 64), "float32", scope="shared.ub")
            m = T.alloc_buffer((4,), "float32", scope="shared.ub")
            for i in T.parallel(4, annotations={"tl.parallel": 2}):
                for j in T.parallel(64):
                    x[i, j] = T.Cast("float32", raw[i, j])
            T.Call("tl.reduce", [x[0:4, 0:64], m[0:4]], attrs={"clear": 1, "dim": 1, "kind": "max"}, ret_ty="void")
        """,
        """
        @T.prim_func
        def main():
            raw = T.alloc_buffer((4, 64), "float16", scope="shared.ub")
            x = T.alloc_buffer((4, 64), scope="shared.ub")
            m = T.alloc_buffer((4,), scope="shared.ub")
            T.Call("tl.reduce", [raw[0:4, 0:64], m[0:4]], attrs={"clear": 1, "dim": 1, "kind": "max"}, ret_ty="void")
            for i in T.parallel(4, annotations={"tl.parallel": 2}):
                for j in T.parallel(64):
                    x[i, j] = T.Cast("float32", raw[i, j])
        """,
    ),
    "part_products": (
        """
        @T.prim_func
        def main(K: T.Buffer((2048, 64), "float16")):
            q = T.alloc_buffer((128, 64), "float16", scope="shared.l1")
            k_s = T.alloc_buffer((512, 64), "float16", scope="shared.l1")
            s = T.alloc_buffer((128, 512), "float32", scope="local.l0c")
            w = T.alloc_buffer((128, 512), "float32", annotations={"workspace": 1})
            for k in range(4):
                T.tl.copy(K[k * 512:k * 512 + 512, 0:64], k_s[0:512, 0:64])
                T.tl.fill(s[0:128, 0:512], T.float32(0))
                T.Call("tl.gemm", [q[0:128, 0:64], k_s[0:512, 0:64], s[0:128, 0:512], T.bool(False)], attrs={"transpose_A": 0, "transpose_B": 1}, ret_ty="void")
                T.tl.copy(s[0:128, 0:512], w[0:128, 0:512])
        """,
        """
        @T.prim_func
        def main(K: T.Buffer((2048, 64), "float16")):
            q = T.alloc_buffer((128, 64), "float16", scope="shared.l1")
            k_s = T.alloc_buffer((256, 64), "float16", scope="shared.l1")
            s = T.alloc_buffer((128, 128), scope="local.l0c")
            w = T.alloc_buffer((128, 512), annotations={"workspace": 1})
            for k in range(4):
                for part in range(2):
                    T.tl.copy(K[k * 512 + part * 256:k * 512 + part * 256 + 256, 0:64], k_s[0:256, 0:64])
                    for piece in range(2):
                        T.tl.fill(s[0:128, 0:128], T.float32(0))
                        T.Call("tl.gemm", [q[0:128, 0:64], k_s[piece * 128:piece * 128 + 128, 0:64], s[0:128, 0:128], T.bool(False)], attrs={"transpose_A": 0, "transpose_B": 1}, ret_ty="void")
                        T.tl.copy(s[0:128, 0:128], w[0:128, part * 256 + piece * 128:part * 256 + piece * 128 + 128])
        """,
    ),
    "part_products, of a result alone": (
        """
        @T.prim_func
        def main(K: T.Buffer((2048, 512), "float16")):
            q = T.alloc_buffer((64, 512), "float16", scope="shared.l1")
            p = T.alloc_buffer((64, 64), "float16", scope="shared.l1")
            k_s = T.alloc_buffer((64, 512), "float16", scope="shared.l1")
            s = T.alloc_buffer((64, 64), "float32", scope="local.l0c")
            o = T.alloc_buffer((64, 512), "float32", scope="local.l0c")
            w = T.alloc_buffer((64, 64), "float32", annotations={"workspace": 1})
            v = T.alloc_buffer((64, 512), "float32", annotations={"workspace": 1})
            for k in range(4):
                T.tl.copy(K[k * 64:k * 64 + 64, 0:512], k_s[0:64, 0:512])
                T.Call("tl.gemm", [q[0:64, 0:512], k_s[0:64, 0:512], s[0:64, 0:64], T.bool(True)], attrs={"transpose_A": 0, "transpose_B": 1}, ret_ty="void")
                T.tl.copy(s[0:64, 0:64], w[0:64, 0:64])
                T.tl.fill(o[0:64, 0:512], T.float32(0))
                T.Call("tl.gemm", [p[0:64, 0:64], k_s[0:64, 0:512], o[0:64, 0:512], T.bool(False)], attrs={"transpose_A": 0, "transpose_B": 0}, ret_ty="void")
                T.tl.copy(o[0:64, 0:512], v[0:64, 0:512])
        """,
        """
        @T.prim_func
        def main(K: T.Buffer((2048, 512), "float16")):
            q = T.alloc_buffer((64, 512), "float16", scope="shared.l1")
            p = T.alloc_buffer((64, 64), "float16", scope="shared.l1")
            k_s = T.alloc_buffer((64, 512), "float16", scope="shared.l1")
            s = T.alloc_buffer((64, 64), scope="local.l0c")
            o = T.alloc_buffer((64, 128), scope="local.l0c")
            w = T.alloc_buffer((64, 64), annotations={"workspace": 1})
            v = T.alloc_buffer((64, 512), annotations={"workspace": 1})
            for k in range(4):
                T.tl.copy(K[k * 64:k * 64 + 64, 0:512], k_s[0:64, 0:512])
                T.Call("tl.gemm", [q[0:64, 0:512], k_s[0:64, 0:512], s[0:64, 0:64], T.bool(True)], attrs={"transpose_A": 0, "transpose_B": 1}, ret_ty="void")
                T.tl.copy(s[0:64, 0:64], w[0:64, 0:64])
                for part in range(4):
                    T.tl.fill(o[0:64, 0:128], T.float32(0))
                    T.Call("tl.gemm", [p[0:64, 0:64], k_s[0:64, part * 128:part * 128 + 128], o[0:64, 0:128], T.bool(False)], attrs={"transpose_A": 0, "transpose_B": 0}, ret_ty="void")
                    T.tl.copy(o[0:64, 0:128], v[0:64, part * 128:part * 128 + 128])
        """,
    ),
    "meet_cores": (
        """
        @T.prim_func
        def main_aiv(first: T.Buffer((32,), "float32"), place: T.Buffer((32,), "float32")):
            T.func_attr({"ascend.core": "aiv", "ascend.met_places": [1], "ascend.meeting_flag": 10, "ascend.num_workspaces": 2})
            v = T.alloc_buffer((1, 64), "float32", scope="shared.ub")
            turn: T.let[T.int32] = 1
            T.ascend.copy_ub_to_gm(place[turn * 16], v[0, 0], 1, 4, 0, 0)
            T.ascend.data_cache_clean(first[0])
            T.ascend.data_cache_clean(place[turn * 16])
            x: T.let[T.float32] = T.Call("ascend.get_value", [place[turn * 16]], ret_ty="float32")
        """,
        """
        @I.ir_module
        class Module:
            @T.prim_func
            def main_aiv(first: T.Buffer((32,), "float32"), place: T.Buffer((32,), "float32")):
                T.func_attr({"ascend.core": "aiv", "ascend.num_workspaces": 2, "global_symbol": "main"})
                v = T.alloc_buffer((1, 64), "float32", scope="shared.ub")
                turn: T.let[T.int32] = 1
                T.ascend.copy_ub_to_gm(place[turn * 16], v[0, 0], 1, 4, 0, 0)
                T.ascend.data_cache_clean(first[0])
                T.Call("ascend.pipe_barrier", [], attrs={"pipe": "ALL"}, ret_ty="void")
                T.Call("ascend.cross_core_set_flag", [10], attrs={"mode": "1", "pipe": "MTE3"}, ret_ty="void")
                T.ascend.cross_core_wait_flag(10)
                T.ascend.data_cache_clean(place[turn * 16])
                x: T.let[T.float32] = T.Call("ascend.get_value", [place[turn * 16]], ret_ty="float32")
        """,
    ),
    "part_products, of keys that are values": (
        """
        @T.prim_func
        def main(K: T.Buffer((4096, 512), "float16")):
            q = T.alloc_buffer((64, 512), "float16", scope="shared.l1")
            p = T.alloc_buffer((64, 512), "float16", scope="shared.l1")
            k_s = T.alloc_buffer((512, 512), "float16", scope="shared.l1")
            s = T.alloc_buffer((64, 512), "float32", scope="local.l0c")
            o = T.alloc_buffer((64, 512), "float32", scope="local.l0c")
            w = T.alloc_buffer((64, 512), "float32", annotations={"workspace": 1})
            x = T.alloc_buffer((64, 512), "float16", annotations={"workspace": 1})
            v = T.alloc_buffer((64, 512), "float32", annotations={"workspace": 1})
            for k in range(8):
                T.tl.copy(K[k * 512:k * 512 + 512, 0:512], k_s[0:512, 0:512])
                T.tl.fill(s[0:64, 0:512], T.float32(0))
                T.Call("tl.gemm", [q[0:64, 0:512], k_s[0:512, 0:512], s[0:64, 0:512], T.bool(False)], attrs={"transpose_A": 0, "transpose_B": 1}, ret_ty="void")
                T.tl.copy(s[0:64, 0:512], w[0:64, 0:512])
                T.tl.copy(x[0:64, 0:512], p[0:64, 0:512])
                T.tl.fill(o[0:64, 0:512], T.float32(0))
                T.Call("tl.gemm", [p[0:64, 0:512], k_s[0:512, 0:512], o[0:64, 0:512], T.bool(False)], attrs={"transpose_A": 0, "transpose_B": 0}, ret_ty="void")
                T.tl.copy(o[0:64, 0:512], v[0:64, 0:512])
        """,
        """
        @T.prim_func
        def main(K: T.Buffer((4096, 512), "float16")):
            q = T.alloc_buffer((64, 512), "float16", scope="shared.l1")
            p = T.alloc_buffer((64, 512), "float16", scope="shared.l1")
            k_s = T.alloc_buffer((64, 512), "float16", scope="shared.l1")
            k_s_own = T.alloc_buffer((512, 64), "float16", scope="shared.l1")
            s = T.alloc_buffer((64, 64), scope="local.l0c")
            o = T.alloc_buffer((64, 64), scope="local.l0c")
            w = T.alloc_buffer((64, 512), annotations={"workspace": 1})
            x = T.alloc_buffer((64, 512), "float16", annotations={"workspace": 1})
            v = T.alloc_buffer((64, 512), annotations={"workspace": 1})
            for k in range(8):
                for part in range(8):
                    T.tl.copy(K[k * 512 + part * 64:k * 512 + part * 64 + 64, 0:512], k_s[0:64, 0:512])
                    T.tl.fill(s[0:64, 0:64], T.float32(0.0))
                    T.Call("tl.gemm", [q[0:64, 0:512], k_s[0:64, 0:512], s[0:64, 0:64], T.bool(False)], attrs={"transpose_A": 0, "transpose_B": 1}, ret_ty="void")
                    T.tl.copy(s[0:64, 0:64], w[0:64, part * 64:part * 64 + 64])
                T.tl.copy(x[0:64, 0:512], p[0:64, 0:512])
                for part in range(8):
                    T.tl.fill(o[0:64, 0:64], T.float32(0.0))
                    T.tl.copy(K[k * 512:k * 512 + 512, part * 64:part * 64 + 64], k_s_own[0:512, 0:64])
                    T.Call("tl.gemm", [p[0:64, 0:512], k_s_own[0:512, 0:64], o[0:64, 0:64], T.bool(False)], attrs={"transpose_A": 0, "transpose_B": 0}, ret_ty="void")
                    T.tl.copy(o[0:64, 0:64], v[0:64, part * 64:part * 64 + 64])
        """,
    ),
    "direct_channels": (
        """
        @T.prim_func
        def main(A: T.Buffer((32, 32), "float16"), Y: T.Buffer((32, 32), "float32")):
            a = T.alloc_buffer((32, 32), "float16", scope="shared.l1")
            p = T.alloc_buffer((32, 32), "float16", scope="shared.l1")
            c = T.alloc_buffer((32, 32), scope="local.l0c")
            x = T.alloc_buffer((16, 32), scope="shared.ub")
            z = T.alloc_buffer((16, 32), "float16", scope="shared.ub")
            there = T.alloc_buffer((32, 32), annotations={"workspace": 1})
            back = T.alloc_buffer((32, 32), "float16", annotations={"workspace": 1})
            sub_block: T.let[T.int32] = T.ascend.get_sub_block_idx()
            T.Call("tl.gemm", [a[0:32, 0:32], a[0:32, 0:32], c[0:32, 0:32], T.bool(True)], attrs={"transpose_A": 0, "transpose_B": 0}, ret_ty="void")
            T.tl.copy(c[0:32, 0:32], there[0:32, 0:32])
            T.tl.copy(there[sub_block * 16:sub_block * 16 + 16, 0:32], x[0:16, 0:32])
            for i in T.parallel(16, annotations={"tl.parallel": 2}):
                for j in T.parallel(32):
                    z[i, j] = T.Cast("float16", x[i, j])
            T.tl.copy(z[0:16, 0:32], back[sub_block * 16:sub_block * 16 + 16, 0:32])
            T.tl.copy(back[0:32, 0:32], p[0:32, 0:32])
            T.Call("tl.gemm", [p[0:32, 0:32], a[0:32, 0:32], c[0:32, 0:32], T.bool(True)], attrs={"transpose_A": 0, "transpose_B": 0}, ret_ty="void")
            T.tl.copy(c[0:32, 0:32], Y[0:32, 0:32])
        """,
        """
        @T.prim_func
        def main(A: T.Buffer((32, 32), "float16"), Y: T.Buffer((32, 32), "float32")):
            a = T.alloc_buffer((32, 32), "float16", scope="shared.l1")
            p = T.alloc_buffer((32, 32), "float16", scope="shared.l1")
            c = T.alloc_buffer((32, 32), scope="local.l0c")
            x = T.alloc_buffer((16, 32), scope="shared.ub")
            z = T.alloc_buffer((16, 32), "float16", scope="shared.ub")
            sub_block: T.let[T.int32] = T.ascend.get_sub_block_idx()
            T.Call("tl.gemm", [a[0:32, 0:32], a[0:32, 0:32], c[0:32, 0:32], T.bool(True)], attrs={"transpose_A": 0, "transpose_B": 0}, ret_ty="void")
            T.tl.copy(c[sub_block * 16:sub_block * 16 + 16, 0:32], x[0:16, 0:32])
            for i in T.parallel(16, annotations={"tl.parallel": 2}):
                for j in T.parallel(32):
                    z[i, j] = T.Cast("float16", x[i, j])
            T.tl.copy(z[0:16, 0:32], p[sub_block * 16:sub_block * 16 + 16, 0:32])
            T.Call("tl.gemm", [p[0:32, 0:32], a[0:32, 0:32], c[0:32, 0:32], T.bool(True)], attrs={"transpose_A": 0, "transpose_B": 0}, ret_ty="void")
            T.tl.copy(c[0:32, 0:32], Y[0:32, 0:32])
        """,
        {"chip": get_chip("a5"), "direct": Direct.ALL},
    ),
    "direct_channels, in slices": (
        """
        @T.prim_func
        def main(Y: T.Buffer((64, 32), "float32")):
            a = T.alloc_buffer((64, 32), "float16", scope="shared.l1")
            p = T.alloc_buffer((64, 32), "float16", scope="shared.l1")
            c = T.alloc_buffer((64, 32), scope="local.l0c")
            x = T.alloc_buffer((16, 32), scope="shared.ub")
            z = T.alloc_buffer((16, 32), "float16", scope="shared.ub")
            there = T.alloc_buffer((64, 32), annotations={"workspace": 1})
            back = T.alloc_buffer((64, 32), "float16", annotations={"workspace": 1})
            sub_block: T.let[T.int32] = T.ascend.get_sub_block_idx()
            T.tl.copy(c[0:64, 0:32], there[0:64, 0:32])
            for part in T.serial(2, annotations={"tl.skew": "0 0 1"}):
                T.tl.copy(there[sub_block * 32 + part * 16:sub_block * 32 + part * 16 + 16, 0:32], x[0:16, 0:32])
                for i in T.parallel(16, annotations={"tl.parallel": 2}):
                    for j in T.parallel(32):
                        z[i, j] = T.Cast("float16", x[i, j])
                T.tl.copy(z[0:16, 0:32], back[sub_block * 32 + part * 16:sub_block * 32 + part * 16 + 16, 0:32])
            T.tl.copy(back[0:64, 0:32], p[0:64, 0:32])
        """,
        """
        @T.prim_func
        def main(Y: T.Buffer((64, 32), "float32")):
            a = T.alloc_buffer((64, 32), "float16", scope="shared.l1")
            p = T.alloc_buffer((64, 32), "float16", scope="shared.l1")
            c = T.alloc_buffer((64, 32), scope="local.l0c")
            x = T.alloc_buffer((32, 32), scope="shared.ub")
            z = T.alloc_buffer((16, 32), "float16", scope="shared.ub")
            sub_block: T.let[T.int32] = T.ascend.get_sub_block_idx()
            T.tl.copy(c[sub_block * 32:sub_block * 32 + 32, 0:32], x[0:32, 0:32])
            for part in T.serial(2, annotations={"tl.skew": "0 1"}):
                for i in T.parallel(16, annotations={"tl.parallel": 2}):
                    for j in T.parallel(32):
                        z[i, j] = T.Cast("float16", x[i + part * 16, j])
                T.tl.copy(z[0:16, 0:32], p[sub_block * 32 + part * 16:sub_block * 32 + part * 16 + 16, 0:32])
        """,
        {"chip": get_chip("a5"), "direct": Direct.ALL},
    ),
    "slice_rows": (
        """
        @T.prim_func
        def main(w: T.Buffer((32, 1024), "float32"), v: T.Buffer((32, 1024), "float32")):
            a = T.alloc_buffer((16, 16), "float16", scope="shared.l1")
            c = T.alloc_buffer((16, 16), "float32", scope="local.l0c")
            x = T.alloc_buffer((32, 1024), "float32", scope="shared.ub")
            m = T.alloc_buffer((32,), "float32", scope="shared.ub")
            for k in range(4):
                T.Call("tl.gemm", [a[0:16, 0:16], a[0:16, 0:16], c[0:16, 0:16], T.bool(True)], attrs={"transpose_A": 0, "transpose_B": 0}, ret_ty="void")
                T.tl.copy(w[0:32, 0:1024], x[0:32, 0:1024])
                T.Call("tl.reduce", [x[0:32, 0:1024], m[0:32]], attrs={"clear": 0, "dim": 1, "kind": "max"}, ret_ty="void")
                T.tl.copy(x[0:32, 0:1024], v[0:32, 0:1024])
        """,
        """
        @T.prim_func
        def main(w: T.Buffer((32, 1024), "float32"), v: T.Buffer((32, 1024), "float32")):
            a = T.alloc_buffer((16, 16), "float16", scope="shared.l1")
            c = T.alloc_buffer((16, 16), scope="local.l0c")
            x = T.alloc_buffer((8, 1024), scope="shared.ub")
            m = T.alloc_buffer((32,), scope="shared.ub")
            for k in range(4):
                T.Call("tl.gemm", [a[0:16, 0:16], a[0:16, 0:16], c[0:16, 0:16], T.bool(True)], attrs={"transpose_A": 0, "transpose_B": 0}, ret_ty="void")
                for part in range(4):
                    T.tl.copy(w[part * 8:part * 8 + 8, 0:1024], x[0:8, 0:1024])
                    T.Call("tl.reduce", [x[0:8, 0:1024], m[part * 8:part * 8 + 8]], attrs={"clear": 0, "dim": 1, "kind": "max"}, ret_ty="void")
                    T.tl.copy(x[0:8, 0:1024], v[part * 8:part * 8 + 8, 0:1024])
        """,
    ),
    "slice_rows, of sums and what is added to them": (
        """
        @T.prim_func
        def main(w: T.Buffer((32, 1024), "float32"), v: T.Buffer((32, 1024), "float32"), y: T.Buffer((32, 1024), "float32")):
            a = T.alloc_buffer((16, 16), "float16", scope="shared.l1")
            c = T.alloc_buffer((16, 16), "float32", scope="local.l0c")
            x = T.alloc_buffer((32, 1024), "float32", scope="shared.ub")
            z = T.alloc_buffer((32, 1024), "float32", scope="shared.ub")
            o = T.alloc_buffer((32, 1024), "float32", scope="shared.ub")
            m = T.alloc_buffer((32,), "float32", scope="shared.ub")
            for k in range(4):
                T.tl.copy(w[0:32, 0:1024], x[0:32, 0:1024])
                T.Call("tl.reduce", [x[0:32, 0:1024], m[0:32]], attrs={"clear": 1, "dim": 1, "kind": "max"}, ret_ty="void")
                T.tl.copy(x[0:32, 0:1024], v[0:32, 0:1024])
                for i in T.parallel(32, annotations={"tl.parallel": 2}):
                    for j in T.parallel(1024):
                        o[i, j] = o[i, j] * m[i]
                T.tl.copy(v[0:16, 0:16], a[0:16, 0:16])
                T.Call("tl.gemm", [a[0:16, 0:16], a[0:16, 0:16], c[0:16, 0:16], T.bool(True)], attrs={"transpose_A": 0, "transpose_B": 0}, ret_ty="void")
                T.tl.copy(c[0:16, 0:16], y[0:16, 0:16])
                T.tl.copy(y[0:32, 0:1024], z[0:32, 0:1024])
                for i in T.parallel(32, annotations={"tl.parallel": 2}):
                    for j in T.parallel(1024):
                        o[i, j] = o[i, j] + z[i, j]
        """,
        """
        @T.prim_func
        def main(w: T.Buffer((32, 1024), "float32"), v: T.Buffer((32, 1024), "float32"), y: T.Buffer((32, 1024), "float32")):
            a = T.alloc_buffer((16, 16), "float16", scope="shared.l1")
            c = T.alloc_buffer((16, 16), scope="local.l0c")
            x = T.alloc_buffer((8, 1024), scope="shared.ub")
            z = T.alloc_buffer((8, 1024), scope="shared.ub")
            o = T.alloc_buffer((32, 1024), scope="shared.ub")
            m = T.alloc_buffer((32,), scope="shared.ub")
            for k in range(4):
                for part in range(4):
                    T.tl.copy(w[part * 8:part * 8 + 8, 0:1024], x[0:8, 0:1024])
                    T.Call("tl.reduce", [x[0:8, 0:1024], m[part * 8:part * 8 + 8]], attrs={"clear": 1, "dim": 1, "kind": "max"}, ret_ty="void")
                    T.tl.copy(x[0:8, 0:1024], v[part * 8:part * 8 + 8, 0:1024])
                T.tl.copy(v[0:16, 0:16], a[0:16, 0:16])
                T.Call("tl.gemm", [a[0:16, 0:16], a[0:16, 0:16], c[0:16, 0:16], T.bool(True)], attrs={"transpose_A": 0, "transpose_B": 0}, ret_ty="void")
                T.tl.copy(c[0:16, 0:16], y[0:16, 0:16])
                for part in range(4):
                    for i in T.parallel(8, annotations={"tl.parallel": 2}):
                        for j in T.parallel(1024):
                            o[i + part * 8, j] = o[i + part * 8, j] * m[i + part * 8]
                    T.tl.copy(y[part * 8:part * 8 + 8, 0:1024], z[0:8, 0:1024])
                    for i in T.parallel(8, annotations={"tl.parallel": 2}):
                        for j in T.parallel(1024):
                            o[i + part * 8, j] = o[i + part * 8, j] + z[i, j]
        """,
    ),
    "slice_rows, behind products": (
        """
        @T.prim_func
        def main(w: T.Buffer((32, 1024), "float32"), y: T.Buffer((32, 1024), "float16")):
            a = T.alloc_buffer((16, 16), "float16", scope="shared.l1")
            c = T.alloc_buffer((16, 16), "float32", scope="local.l0c")
            x = T.alloc_buffer((32, 1024), "float32", scope="shared.ub")
            z = T.alloc_buffer((32, 1024), "float16", scope="shared.ub")
            T.Call("tl.gemm", [a[0:16, 0:16], a[0:16, 0:16], c[0:16, 0:16], T.bool(True)], attrs={"transpose_A": 0, "transpose_B": 0}, ret_ty="void")
            T.tl.copy(w[0:32, 0:1024], x[0:32, 0:1024])
            for i in T.parallel(32, annotations={"tl.parallel": 2}):
                for j in T.parallel(1024):
                    z[i, j] = T.Cast("float16", x[i, j])
            T.tl.copy(z[0:32, 0:1024], y[0:32, 0:1024])
        """,
        """
        @T.prim_func
        def main(w: T.Buffer((32, 1024), "float32"), y: T.Buffer((32, 1024), "float16")):
            a = T.alloc_buffer((16, 16), "float16", scope="shared.l1")
            c = T.alloc_buffer((16, 16), scope="local.l0c")
            x = T.alloc_buffer((8, 1024), scope="shared.ub")
            z = T.alloc_buffer((8, 1024), "float16", scope="shared.ub")
            T.Call("tl.gemm", [a[0:16, 0:16], a[0:16, 0:16], c[0:16, 0:16], T.bool(True)], attrs={"transpose_A": 0, "transpose_B": 0}, ret_ty="void")
            for part in range(4):
                T.tl.copy(w[part * 8:part * 8 + 8, 0:1024], x[0:8, 0:1024])
                for i in T.parallel(8, annotations={"tl.parallel": 2}):
                    for j in T.parallel(1024):
                        z[i, j] = T.Cast("float16", x[i, j])
                T.tl.copy(z[0:8, 0:1024], y[part * 8:part * 8 + 8, 0:1024])
        """,
    ),
}
"""Pass -> (before, after, what it asks for beyond the context)."""

REFUSALS = {
    "check_bounds": (
        """
        @T.prim_func
        def main(X: T.Buffer((64,), "float32")):
            a = T.alloc_shared((64,), "float32")
            a[64] = T.float32(1)
        """,
        "index 64 of dimension 0 of 'a'",
    ),
    "refuse_large_tiles": (
        """
        @T.prim_func
        def main():
            a = T.alloc_buffer((100000000,), "float32", scope="shared.ub")
            T.tl.fill(a[0:100000000], T.float32(1))
        """,
        "400000000 bytes needed",
    ),
    "check_elements": (
        """
        @T.prim_func
        def main(X: T.Buffer((64,), "float64")):
            x: T.let[T.float64] = T.ascend.get_value(X[0])
        """,
        "no arithmetic on elements of float64",
    ),
}
"""Check -> (a program it refuses, what it says)."""

ELSEWHERE = {"prefetch_loads": "test_prefetch_loads.py"}
"""Passes whose smallest program is a page long: the file that tests them alone."""


def program(text: str):
    """The function of a text, under a name; a module as it stands."""
    parsed = parse(dedent(text).strip())
    return parsed.with_attr("global_symbol", "main") if isinstance(parsed, PrimFunc) else parsed


def applied(name: str, ir, wanted: dict):
    """What the pass leaves, run alone. Behind a comma, `name` says what its row is about."""
    name = name.partition(",")[0]
    p = PASSES[name]
    if p.stage is Stage.SPLIT and name != "split_cores":
        ir = IRModule({"main_aiv": ir})
    if name == "lower_tile_ops":
        return p.run(ir, CHIP, {"fast_math": False})[0]
    if name == "plan_memory":
        return p.run(ir, CHIP)[0]
    given = {
        "chip": CHIP,
        "notes": [],
        "may_keep": True,
        "may_coarsen": True,
        "may_vectorize": True,
        "merging": SimpleNamespace(in_pieces=0, following=False, relied=False),
        "few_flags": False,
        "may_hint": True,
        "parting": SimpleNamespace(narrow=False),
        "joining": SimpleNamespace(joined=False),
        "chaining": SimpleNamespace(chained=False),
        "overlapping": SimpleNamespace(overlap=True, may_overlap=False),
        "pairing": SimpleNamespace(pair=True, may_pair=False, pair_blocks=True, may_pair_blocks=False),
        "uncut": False,
        "inner": False,
        "placed": False,
        "room": 1 / 4,
        "apart": Apart.FOUND,
        "fast_math": True,
        **wanted,
    }
    return p.run(ir, *(given[w] for w in p.wants))


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", PAIRS)
def test_before_and_after(name):
    before, after, *wanted = PAIRS[name]
    left, expected = applied(name, program(before), *(wanted or [{}])), program(after)
    assert not same_program(program(before), expected)
    assert same_program(left, expected), left.script(show_meta=False)


@pytest.mark.parametrize("name", REFUSALS)
def test_checks_refuse_at_the_line(name):
    text, reason = REFUSALS[name]
    with pytest.raises(TilelangAscendError, match=reason) as caught:
        applied(name, program(text), {})
    assert caught.value.location is not None


def test_every_pass_has_a_row():
    assert {*(name.partition(",")[0] for name in PAIRS), *REFUSALS, *ELSEWHERE} == set(PASSES)
    assert all((Path(__file__).parent / file).exists() for file in ELSEWHERE.values())
    assert all(PASSES[name].changes != (name in REFUSALS) for name in PASSES)
