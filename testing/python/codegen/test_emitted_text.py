"""The shape of the emitted text: kernel type, parameters, buffers, comments, launcher."""

import re

import pytest
from ascend_ir_samples import SAMPLES, Builder, at, gm, load, module

from tilelang_ascend.codegen import emit
from tilelang_ascend.ir import BufferStore, Var, if_then, intrin, loop, seq, tirx


@pytest.mark.parametrize(
    "name, kernel_type",
    [("vector_add", "AIV_ONLY"), ("gemm_float16", "AIC_ONLY"), ("matmul_exp", "MIX_AIC_1_2")],
)
def test_kernel_types(name, kernel_type):
    text = emit(SAMPLES[name]().module).kernel
    assert re.findall(r"KERNEL_TASK_TYPE_DEFAULT\(KERNEL_TYPE_(\w+)\)", text) == [kernel_type]
    assert text.count("__global__ __aicore__") == 1
    guards = {"AIV_ONLY": ["AIV"], "AIC_ONLY": ["AIC"]}.get(kernel_type, ["AIC", "AIV"])
    assert sorted(re.findall(r"if ASCEND_IS_(AI[CV]) {", text)) == guards


def test_only_mix_kernels_take_the_synchronisation_block():
    assert "ffts_addr" in emit(SAMPLES["matmul_exp"]().module).text
    assert "ffts" not in emit(SAMPLES["vector_add"]().module).text


def test_buffers_lie_at_their_planned_addresses():
    text = emit(SAMPLES["gemm_float16"]().module).kernel
    assert "AscendC::LocalTensor<half> B_shared = l1.GetWithOffset<half>(2 * B_shared_size, 4096);" in text
    assert "pipe.InitBuffer(l1, 12288);" in text and "pipe.Destroy();" in text


def test_a_kernel_without_buffers_initialises_the_core():
    text = emit(SAMPLES["scalars"]().module).kernel
    assert "AscendC::InitSocState();" in text and "TPipe" not in text


def test_statements_name_the_users_line(tmp_path):
    source = tmp_path / "user.py"
    source.write_text("first\n    C[i] = A[i] + B[i]\n")
    b = Builder(str(source))
    ub = b.alloc("ub", "float32", "ub", 64, 0)
    body = seq(
        intrin("adds", at(ub, 0, 0), at(ub, 0, 0), 1.0, 64, span=b.at(2)),
        intrin("muls", at(ub, 0, 0), at(ub, 0, 0), 2.0, 64, span=b.at(2)),
    )
    text = emit(module(b.function("k", "aiv", "aiv_only", [], body))).kernel
    assert text.count("// user.py:2  C[i] = A[i] + B[i]") == 1
    assert "AscendC::Adds(ub, ub, 1.0f, 64);" in text


def test_unused_parameters_are_marked():
    b = Builder()
    func = b.function("k", "aiv", "aiv_only", [Var("n", "int32"), gm("X", "float32", 8)], intrin("pipe_barrier", pipe="V"))
    assert "k_kernel([[maybe_unused]] int32_t n, [[maybe_unused]] GM_ADDR X_addr)" in emit(module(func)).kernel


def test_names_of_addresses_do_not_clash_with_scalars():
    b = Builder()
    x = gm("X", "int32", 8)
    clash = Var("X_addr", "int32")
    body = intrin("set_value", at(x, 0), clash)
    text = emit(module(b.function("k", "aiv", "aiv_only", [clash, x], body))).kernel
    assert "k_kernel(int32_t X_addr_1, GM_ADDR X_addr)" in text and "X.SetValue(0, X_addr_1)" in text


def test_loop_bounds_that_the_body_changes_are_read_once():
    b = Builder()
    n, i = b.var("n"), Var("i", "int32")
    body = loop(i, load(n), BufferStore(n, load(n) + 1, [0]))
    text = emit(module(b.function("k", "aiv", "aiv_only", [], body))).kernel
    assert "const int32_t i_end = n;" in text and "i < i_end" in text


def test_chains_of_branches():
    b = Builder()
    n = Var("n", "int32")
    barrier = [intrin("pipe_barrier", pipe=p) for p in ("V", "MTE2", "ALL")]
    body = if_then(n > 2, barrier[0], if_then(n > 1, barrier[1], barrier[2]))
    text = emit(module(b.function("k", "aiv", "aiv_only", [n], body))).kernel
    assert "  } else if (n > 1) {" in text and text.count("} else {") == 1


def test_the_launcher():
    host = emit(SAMPLES["matmul_exp"]().module).host
    assert 'extern "C" int call(void* A, void* B, void* D, void* workspace, uint32_t block_dim, void* stream)' in host
    assert "matmul_exp_kernel<<<block_dim, nullptr, stream>>>(" in host
    assert "ICPU_RUN_KF(matmul_exp_kernel, block_dim, " in host
    assert "return static_cast<uint64_t>(block_dim) * 4096;" in host


def test_what_is_not_ascend_ir_is_our_mistake():
    b = Builder()
    body = tirx.Evaluate(tirx.call_extern("int32", "printf"))
    with pytest.raises(AssertionError, match="no Ascend IR statement"):
        emit(module(b.function("k", "aiv", "aiv_only", [], body)))
