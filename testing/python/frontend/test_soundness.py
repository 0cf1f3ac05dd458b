"""Names assigned under run-time control flow: loop-carried, typed, never silently constant."""

import numpy as np
import pytest

import tilelang_ascend.language as T
from tilelang_ascend.errors import InvalidArgument, InvalidKernel, ScopeError, UnsupportedConstruct
from tilelang_ascend.ir import AllocBuffer, scope_of, statements
from tilelang_ascend.sim.reference import run

N = 8
Vec = T.Tensor((N,), "float32")
IVec = T.Tensor((N,), "int32")


def mutable(func):
    """{name: dtype} of the mutable scalars of a kernel."""
    allocs = [s.buffer for s in statements(func.body) if isinstance(s, AllocBuffer)]
    return {b.name: str(b.ty.dtype) for b in allocs if scope_of(b) == "local.var"}


def call(func, *more, dtype=np.float32):
    a, b = np.arange(1, N + 1).astype(dtype), np.zeros(N, dtype)
    run(func, a, b, *more)
    return b


def test_constant_assigned_under_a_runtime_if():
    @T.prim_func
    def k(A: IVec, B: IVec):
        with T.Kernel(4) as bx:
            x = bx * 2
            if bx > 1:
                x = 5
            B[bx] = x

    assert call(k, dtype=np.int32)[:4].tolist() == [0, 2, 5, 5]


def test_literal_accumulator_is_carried():
    @T.prim_func
    def k(A: Vec, B: Vec):
        with T.Kernel(1):
            acc = 0
            for i in T.serial(4):
                acc = acc + A[i]
            B[0] = acc

    assert call(k)[0] == 10 and mutable(k) == {"acc": "float32"}


@pytest.mark.parametrize(
    "start, dtype, want", [(0, "float32", "float32"), (0.0, "float32", "float32"), (False, "float32", "float32"),
                           (0, "float16", "float16"), (0.0, "float16", "float32"), (0, "int64", "int64"), (0, "int32", "int32"),
                           (0, "int8", "int32"), (False, "int32", "int32")]
)  # fmt: skip
@pytest.mark.parametrize("trips", [0, 1, 5])
def test_accumulators_take_the_loop_carried_type(start, dtype, want, trips):
    @T.prim_func
    def k(A: T.Tensor((N,), dtype), B: T.Tensor((N,), "float32"), n: T.int32):
        with T.Kernel(1):
            s = start
            for i in T.serial(n):
                s += A[i]
            B[0] = s

    a, b = np.arange(1, N + 1).astype(dtype), np.zeros(N, np.float32)
    run(k, a, b, trips)
    assert b[0] == a[:trips].sum() and mutable(k) == {"s": want}


def test_running_maximum_from_minus_infinity():
    @T.prim_func
    def k(A: Vec, B: Vec):
        with T.Kernel(1):
            m = -T.infinity("float32")
            for i in T.serial(N):
                m = T.max(m, -A[i])
            B[0] = m

    assert call(k)[0] == -1


def test_flag_set_in_a_branch_is_not_folded():
    @T.prim_func
    def k(A: IVec, B: IVec):
        with T.Kernel(N) as bx:
            found = False
            for i in T.serial(N):
                if A[i] == bx * 2:
                    found = True
            if found:
                B[bx] = 1

    assert call(k, dtype=np.int32).tolist() == [0, 1, 1, 1, 1, 0, 0, 0]
    assert mutable(k) == {"found": "bool"}


def test_both_branches_define_a_name():
    @T.prim_func
    def k(A: Vec, B: Vec):
        with T.Kernel(N) as bx:
            if A[bx] > 3:
                v = A[bx] * 2
            else:
                v = 1
            B[bx] = v

    assert call(k).tolist() == [1, 1, 1, 8, 10, 12, 14, 16] and mutable(k) == {"v": "float32"}


def test_integer_then_float_in_the_other_branch_widens():
    @T.prim_func
    def k(A: Vec, B: Vec):
        with T.Kernel(N) as bx:
            if bx < 4:
                v = bx
            else:
                v = A[bx] / 2
            B[bx] = v

    assert call(k).tolist() == [0, 1, 2, 3, 2.5, 3, 3.5, 4] and mutable(k) == {"v": "float32"}


def test_else_branch_sees_the_value_before_the_if():
    @T.prim_func
    def k(A: IVec, B: IVec):
        with T.Kernel(2) as bx:
            x = 3
            if bx == 0:
                x = 7
                B[0] = x
            else:
                B[1] = x

    assert call(k, dtype=np.int32)[:2].tolist() == [7, 3] and mutable(k) == {}


def test_private_temporaries_stay_immutable():
    @T.prim_func
    def k(A: Vec, B: Vec):
        with T.Kernel(1):
            v = A[0]
            B[0] = v
            for i in T.Parallel(N):
                v = A[i] * 2
                w = v + 1
                B[i] = w
            for i in T.serial(2):
                v = A[i]
                B[i] = v

    assert mutable(k) == {} and call(k).tolist() == [1, 2, 7, 9, 11, 13, 15, 17]


def test_constant_is_known_again_after_an_assignment_at_the_same_level():
    @T.prim_func
    def k(A: Vec, B: Vec):
        with T.Kernel(1):
            n = 0
            for i in T.serial(3):
                n += 1
            n = 4
            t = T.alloc_shared((n,), "float32")
            T.copy(A[0], t)
            T.copy(t, B[0])

    assert call(k).tolist() == [1, 2, 3, 4, 0, 0, 0, 0]


def test_nested_loops_carry_through_every_level():
    @T.prim_func
    def k(A: Vec, B: Vec, n: T.int32):
        with T.Kernel(1):
            total = 0
            for i in T.serial(n):
                row = 0
                for j in T.serial(i):
                    if j % 2 == 0:
                        row += A[j]
                total += row
            B[0] = total

    want = sum(sum(j + 1 for j in range(i) if j % 2 == 0) for i in range(6))
    assert call(k, 6)[0] == want


def test_carried_state_in_a_helper_and_a_nested_function():
    @T.prim_func
    def k(A: Vec, B: Vec):
        with T.Kernel(1):
            count = 0

            def tick():
                nonlocal count
                count += 1

            for i in T.serial(5):
                tick()
            B[0] = count

            def total(n):
                s = 0
                for i in T.serial(n):
                    s += A[i]
                return s

            B[1] = total(3) + total(4)

    assert call(k)[:2].tolist() == [5, 16]


def test_break_keeps_the_carried_value():
    @T.prim_func
    def k(A: Vec, B: Vec):
        with T.Kernel(1):
            at = -1
            for i in T.serial(N):
                if A[i] > 4:
                    at = i
                    break
            B[0] = at

    assert call(k)[0] == 4


def test_values_assigned_only_inside_a_branch_cannot_be_read():
    with pytest.raises(ScopeError, match="'v' cannot be read here") as info:

        @T.prim_func
        def k(A: Vec, B: Vec):
            with T.Kernel(N) as bx:
                if bx > 1:
                    v = A[bx]
                B[bx] = v

    assert info.value.hint and info.value.location.line == info.value.notes[0][1].line + 2


def test_loop_variable_cannot_be_read_after_the_loop():
    with pytest.raises(ScopeError, match="'i' cannot be read here"):

        @T.prim_func
        def k(A: Vec, B: Vec):
            with T.Kernel(1):
                for i in T.serial(N):
                    B[i] = A[i]
                B[0] = i


def test_buffers_cannot_be_swapped_from_one_runtime_iteration_to_the_next():
    with pytest.raises(InvalidKernel, match="different object in the next iteration"):

        @T.prim_func
        def k(A: Vec, B: Vec):
            with T.Kernel(1):
                x = T.alloc_shared((N,), "float32")
                y = T.alloc_shared((N,), "float32")
                for i in T.serial(4):
                    T.copy(x, y)
                    x, y = y, x


def test_carried_scalar_in_a_parallel_loop_is_refused():
    with pytest.raises(InvalidKernel, match="T.Parallel"):

        @T.prim_func
        def k(A: Vec, B: Vec):
            with T.Kernel(1):
                s = 0.0
                for i in T.Parallel(N):
                    s += A[i]
                B[0] = s


def test_value_smuggled_out_in_a_list():
    with pytest.raises(UnsupportedConstruct, match="append"):

        @T.prim_func
        def k(A: Vec, B: Vec):
            with T.Kernel(1):
                kept = []
                for i in T.serial(N):
                    v = A[i] * 2
                    kept.append(v)
                B[0] = kept[0]


def test_one_helper_at_two_types_keeps_them_apart():
    def total(buf, n):
        s = 0
        for i in T.serial(n):
            s += buf[i]
        return s

    @T.prim_func
    def k(A: Vec, B: Vec, C: IVec):
        with T.Kernel(1):
            x = total(A, 3)
            y = total(C, 3)
            B[0] = x + y
            for buf in (A, C):
                z = 0
                for i in T.serial(2):
                    z += buf[i]
                B[1] = z

    assert sorted(mutable(k).values()) == ["float32", "float32", "int32", "int32"]
    assert call(k, np.full(N, 2, np.int32))[:2].tolist() == [12, 4]


def test_reference_to_a_known_constant_is_refused():
    @T.macro
    def bump(x: T.Ref):
        x = x + 1  # noqa: F841

    with pytest.raises(InvalidArgument, match="T.Ref parameter 'x' got 3"):

        @T.prim_func
        def k(A: Vec, B: Vec):
            with T.Kernel(1):
                n = 3
                bump(n)
                B[0] = n


def test_walrus_where_it_would_not_bind():
    with pytest.raises(UnsupportedConstruct, match="may not be evaluated"):

        @T.prim_func
        def k(A: Vec, B: Vec):
            with T.Kernel(1) as bx:
                if bx > 0 and (v := A[0]) > 1:
                    B[0] = v


def test_walrus_in_a_while_condition():
    @T.prim_func
    def k(A: Vec, B: Vec, n: T.int32):
        with T.Kernel(1):
            i = 0
            while (i := i + 1) < n:
                B[i] = 1
            B[0] = i

    out = np.zeros(8, np.float32)
    run(k, np.zeros(8, np.float32), out, 5)
    assert out.tolist() == [5, 1, 1, 1, 1, 0, 0, 0]


def test_names_survive_nested_runtime_and_unrolled_loops():
    @T.prim_func
    def k(A: Vec, B: Vec, n: T.int32):
        with T.Kernel(1):
            best, at, hits = -1.0, 0, 0
            for lo in (0, 4):
                for i in T.serial(4):
                    v = A[lo + i]
                    if v > best and v < n:
                        best, at = v, lo + i
                        hits += 1
                    elif v >= n:
                        break
            B[0], B[1], B[2] = best, at, hits

    assert call(k, 7)[:3].tolist() == [6, 5, 6]


def test_reassigning_a_loop_variable_does_not_change_the_loop():
    @T.prim_func
    def k(A: Vec, B: Vec):
        with T.Kernel(1):
            for i in T.serial(4):
                B[i] = A[i]
                i = i + 4
                B[i] = -A[i]

    assert call(k).tolist() == [1, 2, 3, 4, -5, -6, -7, -8]
