"""The same program from Ascend IR and from the text: equal values bit for bit, equal streams, no hazards, and the values NumPy expects."""

import ctypes

import numpy as np
import pytest
from ascend_ir_samples import SAMPLES
from ir_and_text import compiled, execute, kernel_type, run_ir, run_text

from tilelang_ascend.sim.machine import SimOptions
from tilelang_ascend.sim.streams import first_difference


@pytest.mark.one_in(3)
@pytest.mark.parametrize("cann", [8, 9])
@pytest.mark.parametrize("name", SAMPLES)
def test_both_roads_agree_with_numpy(name, cann):
    sample = SAMPLES[name]()
    from_ir, ir = run_ir(sample)
    from_text, text = run_text(sample, cann=cann)
    assert not ir.hazards, "\n".join(h.text() for h in ir.hazards)
    assert not text.hazards, "\n".join(h.text() for h in text.hazards)
    assert first_difference(ir.streams, text.streams) is None
    for a, b in zip(from_ir, from_text):
        assert a.tobytes() == b.tobytes()
    for index, wanted in sample.expected.items():
        assert from_ir[index].dtype == wanted.dtype
        np.testing.assert_allclose(from_ir[index].astype(np.float64), wanted.astype(np.float64), rtol=1e-6)


@pytest.mark.parametrize("n", [1, 7, 511, 512, 513, 1536, 1537])
def test_tails_of_a_vector_kernel(n):
    sample = SAMPLES["vector_add"](n)
    from_ir, ir = run_ir(sample)
    from_text, text = run_text(sample)
    assert not ir.hazards and first_difference(ir.streams, text.streams) is None
    np.testing.assert_array_equal(from_ir[2], sample.expected[2])
    np.testing.assert_array_equal(from_text[2], sample.expected[2])


@pytest.mark.parametrize("seed", range(3))
def test_the_order_of_blocks_does_not_matter(seed):
    sample = SAMPLES["matmul_exp"]()
    arrays, result = run_text(sample, SimOptions(seed=seed))
    assert not result.hazards
    np.testing.assert_allclose(arrays[2], sample.expected[2], rtol=1e-6)


@pytest.mark.parametrize("name", ["vector_add", "matmul_exp", "scalars"])
def test_the_launcher_passes_its_arguments_on(name):
    sample = SAMPLES[name]()
    program = compiled(sample)
    arrays = [a.copy() for a in sample.arrays]
    spaces = [np.zeros(program.workspace_bytes(sample.block_dim), np.uint8)] if sample.workspace else []
    seen = []

    def launch(kernel, blocks, words):
        seen.append((kernel, blocks))
        pointers = words[len(sample.scalars) :]
        assert pointers[: len(arrays)] == [a.ctypes.data for a in arrays]
        result = execute(sample, program.entries, arrays, block_dim=blocks)
        return len(result.hazards)

    arguments = [ctypes.c_void_p(a.ctypes.data) for a in arrays]
    kinds = {
        "vector_add": [ctypes.c_int32],
        "matmul_exp": [],
        "scalars": [ctypes.c_int32, ctypes.c_float, ctypes.c_int64],
    }[name]
    arguments += [kind(value) for kind, value in zip(kinds, sample.scalars)]
    arguments += [ctypes.c_void_p(w.ctypes.data) for w in spaces]
    assert program.call(launch, *arguments, ctypes.c_uint32(sample.block_dim), None) == 0
    assert seen == [(f"{name}_kernel", sample.block_dim)]
    for index, wanted in sample.expected.items():
        np.testing.assert_allclose(arrays[index], wanted, rtol=1e-6)


def test_a_program_of_one_side_runs_on_that_side_only():
    assert set(compiled(SAMPLES["gemm_float16"]()).entries) == {"aic"}
    assert set(compiled(SAMPLES["vector_add"]()).entries) == {"aiv"}
    assert kernel_type(SAMPLES["matmul_exp"]()) == "mix_1_2"
