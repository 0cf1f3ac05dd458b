"""One function per message a user can get from the front end and the language. Each raises when it is called."""

import tilelang_ascend.language as T

Mat = T.Tensor((64, 64), "float16")


def unknown_name():
    @T.prim_func
    def k(A: Mat):
        with T.Kernel(1):
            s = T.alloc_shard((8, 8), "float16")
            T.copy(A[0, 0], s)


def unknown_name_without_a_neighbour():
    @T.prim_func
    def k(A: Mat):
        with T.Kernel(1):
            T.frobnicate(A)


def thread_index():
    @T.prim_func
    def k(A: Mat):
        with T.Kernel(1, threads=128):
            tx = T.get_thread_binding(0)
            A[0, tx] = 1


def mbarrier():
    @T.prim_func
    def k(A: Mat):
        with T.Kernel(1):
            T.mbarrier_wait_parity(A[0, 0], 1)


def tensor_core():
    @T.prim_func
    def k(A: Mat):
        with T.Kernel(1):
            T.wgmma_gemm(A, A, A)


def not_yet_available():
    @T.prim_func
    def k(A: Mat):
        with T.Kernel(1):
            s = T.alloc_L1((16, 16), "float16")
            T.copy(A[0, 0], s)


def unknown_keyword():
    @T.prim_func
    def k(A: Mat):
        with T.Kernel(1):
            for i in T.Pipelined(4, num_stage=2):
                A[i, 0] = 1


def too_many_arguments():
    @T.prim_func
    def k(A: Mat):
        with T.Kernel(1):
            T.clear(A, 0, 0, 0)


def non_static_tile_shape():
    n = T.dynamic("n")

    @T.prim_func
    def k(A: T.Tensor((n, 64), "float16")):
        with T.Kernel(1):
            s = T.alloc_shared((n, 64), "float16")
            T.copy(A[0, 0], s)


def gemm_shapes():
    @T.prim_func
    def k(A: Mat):
        with T.Kernel(1):
            a, b = T.alloc_shared((16, 32), "float16"), T.alloc_shared((64, 32), "float16")
            c = T.alloc_fragment((16, 64), "float32")
            T.gemm(a, b, c)


def copy_shapes():
    @T.prim_func
    def k(A: Mat):
        with T.Kernel(1):
            s = T.alloc_shared((8, 32), "float16")
            T.copy(A[0:8, 0:16], s)


def reduce_shapes():
    @T.prim_func
    def k(A: Mat):
        with T.Kernel(1):
            s, r = T.alloc_shared((8, 32), "float32"), T.alloc_fragment((32,), "float32")
            T.reduce_sum(s, r, dim=1)


def integer_division():
    @T.prim_func
    def k(A: Mat):
        with T.Kernel(8) as bx:
            A[bx / 2, 0] = 1


def too_many_indices():
    @T.prim_func
    def k(A: Mat):
        with T.Kernel(8) as bx:
            A[bx, 0, 1] = 1


def float_index():
    @T.prim_func
    def k(A: Mat):
        with T.Kernel(8) as bx:
            A[bx, A[0, 0]] = 1


def matmul_operator():
    @T.prim_func
    def k(A: Mat):
        with T.Kernel(1):
            c = A @ A
            T.copy(c, A)


def for_else():
    @T.prim_func
    def k(A: Mat):
        with T.Kernel(1):
            for i in T.serial(4):
                A[i, 0] = 1
            else:
                A[0, 0] = 2


def generator():
    @T.prim_func
    def k(A: Mat):
        with T.Kernel(1):
            yield A


def endless_loop():
    @T.prim_func
    def k(A: Mat):
        with T.Kernel(1):
            while True:
                A[0, 0] = 1


def tile_as_condition():
    @T.prim_func
    def k(A: Mat):
        with T.Kernel(1):
            if A:
                A[0, 0] = 1


def iterating_a_value():
    @T.prim_func
    def k(A: Mat, n: T.int32):
        with T.Kernel(1):
            for i in n:
                A[i, 0] = 1


def comprehension_over_a_runtime_range():
    @T.prim_func
    def k(A: Mat, n: T.int32):
        with T.Kernel(1):
            A[0, 0] = sum([A[i, 0] for i in range(n)])


def python_list_indexed_at_run_time():
    @T.prim_func
    def k(A: Mat, n: T.int32):
        with T.Kernel(1):
            weights = [1, 2, 3]
            A[0, 0] = weights[n]


def name_bound_in_a_branch():
    @T.prim_func
    def k(A: Mat):
        with T.Kernel(8) as bx:
            if bx > 1:
                v = A[bx, 0]
            A[bx, 1] = v


def buffer_swapped_at_run_time():
    @T.prim_func
    def k(A: Mat):
        with T.Kernel(1):
            x, y = T.alloc_shared((8, 8), "float16"), T.alloc_shared((8, 8), "float16")
            for _ in T.serial(4):
                T.copy(x, y)
                x, y = y, x


def carried_scalar_in_parallel():
    @T.prim_func
    def k(A: Mat):
        with T.Kernel(1):
            total = 0.0
            for i in T.Parallel(64):
                total += A[i, 0]
            A[0, 0] = total


def break_out_of_an_unrolled_loop():
    @T.prim_func
    def k(A: Mat):
        with T.Kernel(8) as bx:
            for i in [0, 1, 2]:
                if bx > i:
                    break
                A[i, 0] = 1


def return_in_a_branch():
    @T.prim_func
    def k(A: Mat):
        with T.Kernel(8) as bx:
            if bx > 3:
                return
            A[bx, 0] = 1


def sub_block_index():
    @T.prim_func
    def k(A: Mat):
        with T.Kernel(8, is_npu=True) as (cid, vid):
            A[cid, vid] = 1


def no_launch():
    @T.prim_func
    def k(A: Mat):
        A[0, 0] = 1


def nested_launch():
    @T.prim_func
    def k(A: Mat):
        with T.Kernel(8) as bx:
            with T.Kernel(8) as by:
                A[bx, by] = 1


def parameter_without_type():
    @T.prim_func
    def k(A: Mat, n):
        with T.Kernel(1):
            A[0, 0] = n


def unknown_dtype():
    @T.prim_func
    def k(A: Mat):
        with T.Kernel(1):
            s = T.alloc_shared((8, 8), "float17")
            T.copy(A[0, 0], s)


def call_outside_a_kernel():
    T.copy(None, None)


def value_escapes():
    @T.prim_func
    def k(A: Mat):
        with T.Kernel(1):
            kept = []
            for i in T.serial(4):
                v = A[i, 0] * 2
                kept.append(v)
            A[0, 0] = kept[0]


def dimension_of_no_tensor():
    n = T.dynamic("N")

    @T.prim_func
    def k(A: Mat):
        with T.Kernel(T.ceildiv(n, 8)) as bx:
            A[bx, 0] = 0


def python_condition_in_a_foreign_lambda():
    clip = eval("lambda x: x if x > 0 else 0")

    @T.prim_func
    def k(A: Mat):
        with T.Kernel(8) as bx:
            A[bx, 0] = clip(A[bx, 1])


def shape_of_a_string():
    width = "width"

    @T.prim_func
    def k(A: T.Tensor((64, width), "float16")):
        with T.Kernel(1):
            A[0, 0] = 1


def shape_below_zero():
    @T.prim_func
    def k(A: T.Tensor((64, -3), "float16")):
        with T.Kernel(1):
            A[0, 0] = 1


CASES = {name: f for name, f in list(globals().items()) if callable(f) and getattr(f, "__module__", None) == __name__}
