"""What a kernel accepts and refuses, and what it does to the caller's memory. No compiler involved."""

import ctypes
import math
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
import torch

from tilelang_ascend.errors import AliasingOutput, ArgumentTypeError, ArgumentValueError, Location
from tilelang_ascend.runtime.arguments import bind
from tilelang_ascend.runtime.params import Parameter, Signature, normalize_out_idx


def signature(*params, symbols=(), out_idx=()):
    return Signature(tuple(params), tuple((s, "int32") for s in symbols), out_idx)


def buf(name, *shape, dtype="float32", writes=False, strides=None):
    return Parameter(name, dtype, tuple(shape), strides, writes)


def memory(launch, name):
    """The elements an executor would see, as raw bytes."""
    b = launch.buffers[name]
    return ctypes.string_at(b.address, b.nbytes)


def fill(launch, name, byte):
    b = launch.buffers[name]
    ctypes.memset(b.address, byte, b.nbytes)


COPY = signature(buf("A", 4, 8), buf("B", 4, 8, writes=True))


@pytest.mark.parametrize("make", [
    lambda x: x, lambda x: torch.from_numpy(x), lambda x: np.asfortranarray(x),
    lambda x: torch.from_numpy(x.T.copy()).T, lambda x: np.flip(np.flip(x).copy()),
    lambda x: np.repeat(x, 2, 1)[:, ::2],
    lambda x: _unaligned(x), lambda x: _read_only(x),
], ids=["numpy", "torch", "fortran", "torch.T", "negative strides", "sliced", "unaligned", "read-only"])  # fmt: skip
def test_inputs_of_every_layout_arrive_dense(make):
    x = np.arange(32, dtype=np.float32).reshape(4, 8)
    launch = bind(COPY, "copy", (make(x), np.zeros((4, 8), np.float32)))
    assert memory(launch, "A") == x.tobytes()
    assert launch.buffers["A"].address % 4 == 0


def _unaligned(x):
    raw = np.empty(x.nbytes + 1, np.uint8)[1:].view(np.float32).reshape(x.shape)
    raw[...] = x
    return raw


def _read_only(x):
    x = x.copy()
    x.flags.writeable = False
    return x


@pytest.mark.parametrize("torch_like", [False, True])
def test_outputs_are_written_back_through_strides_only(torch_like):
    whole = np.full((8, 16), 7, np.float32)
    base = torch.from_numpy(whole) if torch_like else whole
    launch = bind(COPY, "copy", (np.ones((4, 8), np.float32), base[::2, ::2]))
    fill(launch, "B", 0)
    launch.write_back()
    assert (whole[::2, ::2] == 0).all()
    assert whole.sum() == 7 * (8 * 16 - 32), "an element between the strides changed"


def test_dense_tensors_are_used_in_place():
    a, b = torch.ones(4, 8), torch.zeros(4, 8)
    launch = bind(COPY, "copy", (a, b))
    assert launch.buffers["A"].address == a.data_ptr() and launch.buffers["B"].address == b.data_ptr()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float8_e4m3fn", "int8", "bool", "int64", "uint16"])
def test_dtypes_of_both_libraries(dtype):
    sig = signature(buf("A", 3, dtype=dtype))
    x = np.array([0, 1, 1]).astype(getattr(ml_dtypes, dtype) if dtype.startswith(("bf", "float8")) else dtype)
    t = torch.tensor([0, 1, 1]).to(getattr(torch, dtype))
    assert memory(bind(sig, "k", (x,)), "A") == memory(bind(sig, "k", (t,)), "A") == x.tobytes()
    strided = torch.stack([t, t], 1)[:, 0] if dtype != "float8_e4m3fn" else t
    assert memory(bind(sig, "k", (strided,)), "A") == x.tobytes()


def test_bfloat16_output_is_written_back_as_bits():
    sig = signature(buf("A", 2, 2, dtype="bfloat16", writes=True))
    x = torch.zeros(2, 4, dtype=torch.bfloat16)
    launch = bind(sig, "k", (x[:, ::2],))
    fill(launch, "A", 0x3F)
    launch.write_back()
    assert (x[:, ::2].contiguous().view(torch.int16) == 0x3F3F).all() and (x[:, 1::2] == 0).all()


@pytest.mark.parametrize("value, text", [
    (torch.zeros(4, 8, dtype=torch.float16),
     "Buffer dtype mismatch for parameter A: expected torch.float32, got torch.float16"),
    (np.zeros((4, 8)), "Buffer dtype mismatch for parameter A: expected float32, got float64"),
    (np.zeros((4, 8), ">f4"), "Buffer dtype mismatch for parameter A: expected float32, got >f4"),
    (torch.zeros(4, 9), "Static shape mismatch for parameter A: expected 8 at index 1, got 9"),
    (torch.zeros(4, 8, 1), "Buffer rank mismatch for parameter A: expected 2 dimensions, got 3"),
    (torch.zeros(4, 8, device="meta"), "Buffer device mismatch for parameter A: expected cpu, got meta"),
    (torch.zeros(4, 8).to_sparse(),
     "Buffer layout mismatch for parameter A: expected torch.strided, got torch.sparse_coo"),
])  # fmt: skip
def test_wrong_tensors_are_refused_in_one_sentence(value, text):
    with pytest.raises(ArgumentValueError) as caught:
        bind(COPY, "copy", (value, torch.zeros(4, 8)))
    assert caught.value.message.startswith(text)


@pytest.mark.parametrize("value", [1.0, None, [[0.0] * 8] * 4, "x"])
def test_non_tensors_are_refused(value):
    with pytest.raises(ArgumentTypeError, match="Expected a tensor for parameter A, got"):
        bind(COPY, "copy", (value, torch.zeros(4, 8)))


def test_an_error_points_at_the_declaration(tmp_path):
    file = tmp_path / "k.py"
    file.write_text("x = 1\nA: T.Tensor((4,), 'float32')\n")
    sig = signature(Parameter("A", "float32", (4,), None, False, Location(str(file), 2, 1)))
    with pytest.raises(ArgumentValueError) as caught:
        bind(sig, "k", (np.zeros(5, np.float32),))
    assert str(caught.value).startswith(f"{file}:2:1: error: Static shape mismatch")
    assert "A: T.Tensor((4,), 'float32')" in str(caught.value)


@pytest.mark.parametrize("args, kwargs, text", [
    ((), {}, r"copy expects 2 arguments \(A, B\), got 0"),
    ((1, 2, 3), {}, r"copy expects 2 arguments \(A, B\), got 3"),
    ((1,), {"C": 2}, "copy has no parameter C to pass; its parameters are A, B"),
    ((1,), {"A": 2}, "copy got two values for parameter A"),
    ((), {"A": 2}, "copy misses an argument for parameter B"),
])  # fmt: skip
def test_argument_count(args, kwargs, text):
    with pytest.raises(ArgumentValueError, match=text):
        bind(COPY, "copy", args, kwargs)


def test_arguments_may_be_named():
    launch = bind(COPY, "copy", (torch.ones(4, 8),), {"B": torch.zeros(4, 8)})
    assert set(launch.buffers) == {"A", "B"}


def test_allocated_outputs_are_named_in_a_count_error():
    with pytest.raises(ArgumentValueError, match="B is allocated by the call"):
        bind(signature(buf("A", 4), buf("B", 4), out_idx=(1,)), "k", (torch.ones(4), torch.ones(4)))


@pytest.mark.parametrize("first", [torch.ones(6, 8), np.ones((6, 8), np.float32)], ids=["torch", "numpy"])
def test_outputs_are_allocated_in_the_library_of_the_inputs(first):
    sig = signature(buf("A", "m", 8), buf("B", "m", "(m * 2)", dtype="bfloat16", writes=True), symbols="m", out_idx=(1,))
    launch = bind(sig, "k", (first,))
    assert type(launch.result) is type(first) and tuple(launch.result.shape) == (6, 12)
    assert str(launch.result.dtype).endswith("bfloat16")
    assert not launch.buffers["B"].initialized and launch.buffers["A"].initialized


def test_several_outputs_come_as_a_tuple_in_the_order_of_out_idx():
    sig = signature(buf("A", 1), buf("B", 2), buf("C", 3), out_idx=(2, 0))
    assert [tuple(t.shape) for t in bind(sig, "k", (torch.ones(2),)).result] == [(3,), (1,)]


@pytest.mark.parametrize("out_idx, expected", [(None, ()), (2, (2,)), (-1, (2,)), ([0, -1], (0, 2)), ((-3,), (0,))])
def test_out_idx_forms(out_idx, expected):
    assert normalize_out_idx(out_idx, 3) == expected


@pytest.mark.parametrize("out_idx", [3, -4, [0, -3]])
def test_bad_out_idx(out_idx):
    with pytest.raises(ValueError, match="out_idx"):
        normalize_out_idx(out_idx, 3)


DYNAMIC = signature(buf("A", "m", "n"), buf("B", "n", "(m + 1)"), symbols=("m", "n"))


def test_dynamic_extents_are_bound_and_checked():
    launch = bind(DYNAMIC, "k", (torch.ones(3, 5), torch.ones(5, 4)))
    assert launch.scalars == {"m": 3, "n": 5}
    with pytest.raises(ArgumentValueError, match=r"Dynamic shape mismatch for parameter B: expected n = 5 at index 0, got 6"):
        bind(DYNAMIC, "k", (torch.ones(3, 5), torch.ones(6, 4)))
    with pytest.raises(ArgumentValueError, match=r"parameter B: expected \(m \+ 1\) = 4 at index 1, got 5"):
        bind(DYNAMIC, "k", (torch.ones(3, 5), torch.ones(5, 5)))


def test_an_extent_no_argument_shows_is_refused():
    with pytest.raises(ArgumentValueError, match="Cannot tell the value of the dynamic extent m"):
        bind(signature(buf("A", "(m * 2)"), symbols="m"), "k", (torch.ones(4),))


def test_a_scalar_parameter_may_be_an_extent():
    sig = signature(Parameter("n", "int32"), buf("A", "n"))
    assert bind(sig, "k", (4, torch.ones(4))).scalars == {"n": 4}
    with pytest.raises(ArgumentValueError, match="expected n = 3 at index 0, got 4"):
        bind(sig, "k", (3, torch.ones(4)))


@pytest.mark.parametrize("dtype, value, expected", [
    ("int32", 3, 3), ("int32", np.int64(3), 3), ("int32", 3.0, 3), ("int32", torch.tensor(3), 3), ("bool", True, 1),
    ("float32", 0.1, float(np.float32(0.1))), ("float16", 0.1, float(np.float16(0.1))), ("float16", 1e6, float("inf")),
    ("bfloat16", 0.1, float(ml_dtypes.bfloat16(0.1))), ("float32", np.float64(2), 2.0),
])  # fmt: skip
def test_scalars(dtype, value, expected):
    assert bind(signature(Parameter("s", dtype)), "k", (value,)).scalars == {"s": expected}


@pytest.mark.parametrize("dtype, value, text", [
    ("int8", 128, "int8 holds -128..127, got 128"), ("uint8", -1, "got -1"), ("int32", 0.5, "got the float 0.5"),
    ("bool", 2, "bool holds 0..1, got 2"), ("int32", Fraction(3, 2), "got the Fraction 3/2"), ("int32", math.inf, "got the float inf"),
    ("int64", 10**400, "int64 holds"), ("float32", 10**400, "float32 does not hold 1000"),
    ("float32", "1", "Expected a number of dtype float32 for parameter s, got str"),
])  # fmt: skip
def test_bad_scalars(dtype, value, text):
    with pytest.raises((ArgumentValueError, ArgumentTypeError), match=text):
        bind(signature(Parameter("s", dtype)), "k", (value,))


def test_a_mask_is_not_ignored():
    with pytest.raises(ArgumentValueError, match="masked array"):
        bind(signature(buf("A", 8)), "k", (np.ma.masked_array(np.ones(8, np.float32), mask=True),))


def test_empty_and_scalar_shaped_tensors():
    sig = signature(buf("A", "m", 8), buf("B", writes=True), symbols="m")
    launch = bind(sig, "k", (torch.ones(0, 8), torch.zeros(())))
    assert launch.scalars == {"m": 0} and launch.buffers["A"].nbytes == 0 and launch.buffers["A"].address
    assert launch.buffers["B"].nbytes == 4


def test_an_output_must_not_share_elements_with_another_argument():
    x = torch.zeros(8, 8)
    sig = signature(buf("A", 4, 8), buf("B", 4, 8, writes=True))
    for a, b in ((x[:4], x[:4]), (x[:4], x[2:6]), (x[:4].numpy(), x[3:7])):
        with pytest.raises(AliasingOutput, match="output 'B' shares memory with argument 'A'"):
            bind(sig, "k", (a, b))
    bind(sig, "k", (x[:4], x[4:]))
    wide = torch.zeros(4, 16)
    bind(sig, "k", (wide[:, :8], wide[:, 8:]))


def test_an_input_may_be_passed_twice():
    sig = signature(buf("A", 4), buf("B", 4), buf("C", 4, writes=True))
    x = torch.arange(4.0)
    launch = bind(sig, "k", (x, x, torch.zeros(4)))
    assert memory(launch, "A") == memory(launch, "B") == x.numpy().tobytes()
    assert launch.buffers["A"].address != launch.buffers["B"].address


def test_a_written_parameter_needs_writable_memory_of_its_own():
    with pytest.raises(ArgumentValueError, match="read-only"):
        bind(COPY, "k", (np.zeros((4, 8), np.float32), _read_only(np.zeros((4, 8), np.float32))))
    with pytest.raises(ArgumentValueError, match="share memory"):
        bind(COPY, "k", (np.zeros((4, 8), np.float32), torch.zeros(1, 8).expand(4, 8)))


def test_nothing_shares_no_memory():
    """NumPy gives arrays without elements strides of 0."""
    sig = signature(buf("A", "n", 8), buf("B", "n", 8, writes=True), symbols=("n",))
    for empty in (np.zeros((0, 8), np.float32), torch.zeros(0, 8)):
        assert bind(sig, "k", (empty, empty)).scalars == {"n": 0}


def test_declared_strides_are_kept():
    sig = signature(buf("A", 4, "n", strides=("s", 1)), symbols=("n", "s"))
    whole = torch.arange(32.0).reshape(4, 8)
    launch = bind(sig, "k", (whole[:, :5],))
    assert launch.scalars == {"n": 5, "s": 8} and launch.buffers["A"].address == whole.data_ptr()
    assert launch.buffers["A"].nbytes == (3 * 8 + 5) * 4
    fixed = signature(buf("A", 2, 3, strides=(5, 1)))
    launch = bind(fixed, "k", (torch.arange(6.0).reshape(2, 3),))
    raw = np.frombuffer(memory(launch, "A"), np.float32)
    assert raw.size == 8 and raw[:3].tolist() == [0, 1, 2] and raw[5:].tolist() == [3, 4, 5]


def test_a_tensor_that_requires_grad_is_an_input_like_any_other():
    x = torch.ones(4, 8, requires_grad=True)
    assert memory(bind(COPY, "k", (x.T.contiguous().T, torch.zeros(4, 8))), "A") == x.detach().numpy().tobytes()


def test_a_signature_survives_json():
    assert Signature.from_json(DYNAMIC.to_json()) == DYNAMIC
    located = signature(Parameter("A", "int8", (1,), None, True, Location("f.py", 3)), out_idx=(0,))
    assert Signature.from_json(located.to_json()) == located
