"""Stages that mean something else are named with their first statement; stages that mean the same are not."""

import ml_dtypes
import numpy as np
import pytest

import tilelang_ascend as tilelang
import tilelang_ascend.language as T
from tilelang_ascend.ir import BufferStore, Evaluate, IRModule, StmtMutator, imm, op_name
from tilelang_ascend.jit.build import lower_stages
from tilelang_ascend.sim.reference import InterpreterError, TooMuchWork, execute
from tilelang_ascend.sim.validate import close, validate
from tilelang_ascend.tile import tile_op
from tilelang_ascend.transform.canonicalize.split_launches import split_launches


def scale(n=64):
    @T.prim_func
    def kernel(A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32")):
        with T.Kernel(n // 32) as bx:
            s = T.alloc_shared((32,), "float32")
            T.copy(A[bx * 32], s)
            for i in T.Parallel(32):
                s[i] = s[i] * 2
            T.copy(s, B[bx * 32])

    return kernel


def line_of(func, text):
    source = func.span.source_name.name if func.span else __file__
    return next(i for i, line in enumerate(open(__file__), 1) if text in line)


class Drop(StmtMutator):
    """Leaves out the statements that `wrong` says."""

    def __init__(self, wrong):
        self.wrong = wrong

    def visit_Evaluate(self, s: Evaluate):
        return None if self.wrong(s) else s

    def visit_BufferStore(self, s: BufferStore):
        return None if self.wrong(s) else s


class Double(StmtMutator):
    def visit_BufferStore(self, s: BufferStore):
        return BufferStore(s.buffer, s.value * imm(2, "float32"), list(s.indices), span=s.span)


def arguments():
    return [np.arange(64, dtype=np.float32) + 1, np.zeros(64, np.float32)]


def test_a_pass_that_computes_something_else_is_named_with_the_statement():
    func = scale()
    found = validate([("tile_ir", func), ("same", func), ("wrong", func.with_body(Double()(func.body)))], arguments()).finding
    assert found.stage == "wrong" and "B[0] is 4.0, not 2.0 (64 of 64 elements differ)" in found.message
    assert found.statement == f"{__file__}:{line_of(func, 's[i] = s[i] * 2') - 1}"
    assert found.text().startswith("after wrong: B[0]")


def test_passes_in_between_are_run_where_the_last_differs():
    func = scale()
    wrong = func.with_body(Double()(func.body))
    stages = [("tile_ir", func), ("doubles", wrong), ("again", wrong.with_body(Double()(wrong.body)))]
    found = validate(stages, arguments(), every=False).finding
    assert found.stage == "doubles" and found == validate(stages, arguments()).finding
    back = [("tile_ir", func), ("doubles", wrong), ("back", func)]
    found = validate(back, arguments(), every=False)
    assert found.finding is None and found.stages == ("tile_ir", "back")
    assert validate(back, arguments()).finding.stage == "doubles"


def test_passes_that_round_are_always_run():
    class Once(StmtMutator):
        def visit_BufferStore(self, s: BufferStore):
            return BufferStore(s.buffer, s.value * imm(2, "float32") * imm(0.5, "float32"), list(s.indices), span=s.span)

    func = scale()
    once = func.with_body(Once()(func.body))
    stages = [("tile_ir", func), ("some", once), ("narrow_channels", func), ("other", once), ("last", func)]
    assert validate(stages, arguments(), every=False).stages == ("tile_ir", "narrow_channels", "last")


def test_a_pass_that_loses_a_store_is_named():
    func = scale()
    lost = func.with_body(Drop(lambda s: op_name(s) == "tl.copy" and s.value.args[1].source.name == "B")(func.body))
    args = arguments()
    args[1] = args[0] * 2  # what is not written happens to be right
    found = validate([("tile_ir", func), ("loses", lost)], args).finding
    assert found.stage == "loses" and "not written any more (64 of 64" in found.message


def test_a_pass_that_reads_what_was_never_written_is_named():
    func = scale()
    unloaded = func.with_body(Drop(lambda s: op_name(s) == "tl.copy" and s.value.args[0].source.name == "A")(func.body))
    found = validate([("tile_ir", func), ("unloaded", unloaded)], arguments()).finding
    assert "never computed (64 elements)" in found.message


def test_values_nobody_has_may_become_any():
    @T.prim_func
    def kernel(B: T.Tensor((32,), "float32")):
        with T.Kernel(1):
            s = T.alloc_shared((32,), "float32")
            T.copy(s, B)

    class Fill(StmtMutator):
        def visit_Evaluate(self, s):
            return [tile_op("fill", s.value.args[0], imm(7, "float32")), s] if op_name(s) == "tl.copy" else s

    filled = kernel.with_body(Fill()(kernel.body))
    assert validate([("tile_ir", kernel), ("filled", filled)], [np.zeros(32, np.float32)]).finding is None
    assert "never computed" in validate([("tile_ir", filled), ("empty", kernel)], [np.zeros(32, np.float32)]).finding.message


def twice():
    @T.prim_func
    def kernel(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
        W = T.alloc_global((64,), "float32")
        for source, target in ((A, W), (W, B)):
            with T.Kernel(2) as bx:
                s = T.alloc_shared((32,), "float32")
                T.copy(source[bx * 32], s)
                for i in T.Parallel(32):
                    s[i] = s[i] * 2
                T.copy(s, target[bx * 32])

    return kernel


def test_a_pass_that_goes_wrong_in_a_later_launch_is_named():
    func = twice()
    module = split_launches(func)
    first, second = module.functions.values()
    stages = [("tile_ir", func), ("split_launches", module), ("same", first)]
    found = validate([*stages, ("same", second)], arguments())
    assert found.finding is None
    assert found.stages == ("tile_ir", "launch 1: split_launches", "launch 2: split_launches")
    np.testing.assert_array_equal(found.last.tensors["B"].data, arguments()[0] * 4)
    assert set(found.last.tensors) == {"A", "B"} and (found.last.tensors["B"].writes == 1).all()
    found = validate([*stages, ("wrong", second.with_body(Double()(second.body)))], arguments()).finding
    assert found.stage == "wrong of launch 2" and "B[0] is 8.0, not 4.0 (64 of 64 elements differ)" in found.message
    assert found.statement.startswith(__file__)


def test_launches_that_are_not_those_of_the_kernel_are_found():
    func = twice()
    names, parts = zip(*split_launches(func).functions.items())
    exchanged = IRModule({names[k]: part.with_attr("ascend.launch", 1 - k) for k, part in enumerate(parts)})
    found = validate([("tile_ir", func), ("split_launches", exchanged)], arguments()).finding
    assert found.stage == "split_launches" and "never computed" in found.message
    doubled = IRModule({names[0]: parts[0], names[1]: parts[1].with_body(Double()(parts[1].body))})
    found = validate([("tile_ir", func), ("split_launches", doubled)], arguments()).finding
    assert found.stage == "split_launches" and "B[0] is 8.0, not 4.0" in found.message


def test_outputs_without_contents_get_them_launch_by_launch():
    @T.prim_func
    def kernel(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32"), C: T.Tensor((64,), "float32")):
        with T.Kernel(1):
            s = T.alloc_shared((32,), "float32")
            T.copy(A[0:32], s)
            T.copy(s, B[0:32])
        with T.Kernel(1):
            s = T.alloc_shared((64,), "float32")
            T.copy(B, s)
            T.copy(s, C)

    stages = [("tile_ir", kernel), ("split_launches", split_launches(kernel))]
    args = [arguments()[0], np.full(64, 5, np.float32), np.full(64, 5, np.float32)]
    found = validate(stages, args, fresh=frozenset("BC"))
    assert found.finding is None
    for name in "BC":
        assert found.last.tensors[name].defined.tolist() == [True] * 32 + [False] * 32


def test_every_stage_of_a_kernel_with_both_kinds_of_core_agrees():
    @T.prim_func
    def kernel(A: T.Tensor((48, 64), "float16"), B: T.Tensor((64, 32), "float16"), C: T.Tensor((48, 32), "float16")):
        with T.Kernel(3) as bx:
            a, b = T.alloc_shared((16, 32), "float16"), T.alloc_shared((32, 32), "float16")
            c, r = T.alloc_fragment((16, 32), "float32"), T.alloc_fragment((16,), "float32")
            T.clear(c)
            for k in T.Pipelined(2, num_stages=2):
                T.copy(A[bx * 16, k * 32], a)
                T.copy(B[k * 32, 0], b)
                T.gemm(a, b, c)
            T.reduce_max(c, r, dim=1)
            for i, j in T.Parallel(16, 32):
                c[i, j] = T.exp(c[i, j] - r[i])
            T.copy(c, C[bx * 16, 0])

    artifact = tilelang.compile(kernel).artifact
    rng = np.random.default_rng(0)
    args = [rng.normal(size=s).astype(np.float16) for s in ((48, 64), (64, 32))] + [np.zeros((48, 32), np.float16)]
    found = validate([("tile_ir", kernel), *lower_stages(artifact)], args)
    assert found.finding is None and not found.skipped
    assert {"place_buffers", "map_grid", "split_rows", "version_buffers", "fold_clears"} <= set(found.stages)


def test_iterations_that_depend_on_each_other_run_one_after_the_other():
    @T.prim_func
    def kernel(A: T.Tensor((8, 8), "int32"), S: T.Tensor((8,), "int32"), R: T.Tensor((8, 8), "int32")):
        with T.Kernel(1):
            s = T.alloc_shared((8,), "int32")
            T.fill(s, 0)
            for i, j in T.Parallel(8, 8):
                s[i] = s[i] + A[i, j]
                R[i, j] = s[i]
            T.copy(s, S)

    a = np.arange(64, dtype=np.int32).reshape(8, 8)
    s, r = np.zeros(8, np.int32), np.zeros((8, 8), np.int32)
    execute(kernel, [a, s, r])
    assert (s == a.sum(1)).all() and (r == a.cumsum(1)).all()


def test_loops_inside_a_nest_end_for_each_iteration_on_its_own():
    @T.prim_func
    def kernel(N: T.Tensor((16,), "int32"), C: T.Tensor((16,), "int32")):
        with T.Kernel(1):
            for i in T.Parallel(16):
                total = T.alloc_var("int32")
                total = 0
                for k in T.serial(N[i]):
                    if k == 5:
                        break
                    if k % 2 == 1:
                        continue
                    total = total + k
                while total > 4:
                    total = total - 3
                C[i] = total

    def expected(n):
        total = sum(k for k in range(min(n, 5)) if k % 2 == 0)
        while total > 4:
            total -= 3
        return total

    n, c = np.arange(16, dtype=np.int32), np.zeros(16, np.int32)
    execute(kernel, [n, c])
    assert c.tolist() == [expected(k) for k in range(16)]


def test_decisions_by_undefined_values_are_noticed():
    @T.prim_func
    def kernel(C: T.Tensor((4,), "int32")):
        with T.Kernel(1):
            s = T.alloc_shared((4,), "int32")
            C[0] = 1
            if s[0] > 0:
                C[1] = 1

    result = execute(kernel, [np.zeros(4, np.int32)])
    assert [span.line for span in result.undefined] == [line_of(kernel, "if s[0] > 0:")]


def test_errors_have_the_line_and_work_is_limited():
    @T.prim_func
    def kernel(C: T.Tensor((4,), "int32")):
        with T.Kernel(1):
            for i in T.serial(5):
                C[i] = 1

    line = line_of(kernel, "            for i in T.serial(5):") + 1
    with pytest.raises(InterpreterError, match=rf"test_validate.py:{line}: C\[4\] is outside its shape"):
        execute(kernel, [np.zeros(4, np.int32)])
    with pytest.raises(TooMuchWork):
        execute(scale(), arguments(), budget=10)
    assert validate([("tile_ir", scale())], arguments(), budget=10).skipped


class Scaled(StmtMutator):
    """What is stored to `name` times `factor`."""

    def __init__(self, name, factor):
        self.name, self.factor = name, factor

    def visit_BufferStore(self, s: BufferStore):
        if s.buffer.name != self.name:
            return s
        return BufferStore(s.buffer, s.value * imm(self.factor, "float32"), list(s.indices), span=s.span)


@pytest.mark.parametrize("dtype, factor, agree", [("float16", 2**-20, True), ("float16", 2**-8, False), ("float32", 2**-15, False)])
def test_a_last_place_of_float32_may_decide_one_of_float16(dtype, factor, agree):
    """The sum 1 + 2^-11 is half-way between two float16: what another order of its terms adds decides."""

    @T.prim_func
    def kernel(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
        with T.Kernel(1):
            total = T.alloc_fragment((64,), "float32")
            narrow = T.alloc_shared((64,), dtype)
            T.copy(A, total)
            for i in T.Parallel(64):
                total[i] = total[i] + 1
            T.copy(total, narrow)
            for i in T.Parallel(64):
                B[i] = narrow[i] + T.float32(0)

    arrays = [np.full(64, 2**-11, np.float32), np.zeros(64, np.float32)]
    other = kernel.with_body(Scaled("total", 1 + factor)(kernel.body))
    found = validate([("tile_ir", kernel), ("other", other)], arrays).finding
    assert (found is None) is agree


@pytest.mark.parametrize("dtype, codes", [("float8_e4m3fn", (1, 0x70)), ("float8_e5m2", (0x20, 0x70)), ("float8_e8m0fnu", (0x78, 0xA0))])
def test_8_bit_floats_are_alike_if_they_are_neighbours(dtype, codes):
    dtype = np.dtype(getattr(ml_dtypes, dtype))
    numbers = np.arange(*codes, dtype=np.uint8).view(dtype)
    assert close(numbers, numbers).all()
    assert close(numbers[1:], numbers[:-1]).all() and close(numbers[:-1], numbers[1:]).all()
    for k in range(8, len(numbers) - 4):
        few = numbers[k : k + 1]
        assert not close(few, numbers[k + 4 : k + 5]).any() and not close(few, numbers[k - 4 : k - 3]).any()


def test_kernels_that_do_nothing():
    """Lowered, they have no instruction either; scalars stand before tensors there."""

    @T.prim_func
    def kernel(A: T.Tensor((64,), "float32"), n: T.int32):
        with T.Kernel(1):
            unread = T.alloc_shared((64,), "float32")
            T.copy(A, unread)

    found = validate([("tile_ir", kernel), *lower_stages(tilelang.compile(kernel).artifact)], [np.zeros(64, np.float32), 3])
    assert found.finding is None and found.last is not None
