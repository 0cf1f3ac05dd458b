"""K01, K02, K06-K09, K24-K27, K37-K39, K44, K47: element-wise kernels of any length."""

import kernels_elementwise as k
import numpy as np
import pytest
import references as ref
from checks import check, small_and_large, untouched

import tilelang_ascend.language as T

SIZES = small_and_large((1, 2047, 8192), (131_072,))
DTYPES = ["int8", "int16", "int32", "int64", "uint8", "float16", "bfloat16", "float32"]


def uniform(low, high, *shape, dtype="float32", seed=0):
    rng = np.random.default_rng([seed, *shape])
    return (rng.random(shape, dtype=np.float32) * (high - low) + low).astype(ref.numpy_dtype(dtype))


def unary(op, reference, dtype, n, rtol, atol=0.0, **options):
    x = uniform(-4, 4, n, dtype=dtype)
    out = untouched(n, options.get("out_dtype") or dtype)
    check(k.unary(op, dtype=dtype, **options), {"X": x, "Y": out}, {"Y": reference(x)}, rtol, atol, {"N": n}, text=n < 9000)


@pytest.mark.parametrize("n", SIZES)
def test_k06_abs(n):
    unary(lambda x: T.abs(x), np.abs, "float16", n, 0)


@pytest.mark.parametrize("compute", [None, "float32"])
@pytest.mark.parametrize("n", SIZES)
def test_k07_gelu_erf(n, compute):
    unary(k.gelu_erf, ref.gelu_erf, "float16", n, 5e-3, 5e-3 if compute is None else 1e-3, compute=compute)


@pytest.mark.parametrize("n", SIZES)
def test_k08_gelu_tanh(n):
    unary(k.gelu_tanh, ref.gelu_tanh, "float32", n, 1e-4, 1e-6)


@pytest.mark.parametrize("n", SIZES)
def test_k09_leaky_relu(n):
    unary(k.leaky_relu, ref.leaky_relu, "float16", n, 1e-3, 1e-5)


@pytest.mark.parametrize("kernel", ["one buffer", "two buffers"])
def test_k01_k02_add_with_a_fixed_share_per_block(kernel):
    x, y = uniform(0, 1, 2, 16384)
    program = k.add_tiled(stages=1 if kernel == "one buffer" else 2)
    check(program, {"X": x, "Y": y, "Z": untouched(16384, "float32")}, {"Z": x + y})


@pytest.mark.parametrize("dtype", ["float32", "float16", "int16", "int32"])
@pytest.mark.parametrize("n", [1, 7, 31, 32, 33, 127, 128, 129, 1000, 2047, 2048, 2049, 9999])
@pytest.mark.one_in(18)
def test_k24_add_of_any_length_with_one_binary(n, dtype):
    x, y = uniform(-99, 99, 2, n, dtype=dtype)
    check(k.binary(lambda a, b: a + b, dtype=dtype), {"X": x, "Y": y, "Z": untouched(n, dtype)}, {"Z": x + y}, scalars={"N": n})


@pytest.mark.one_in(2)
@pytest.mark.parametrize("dtype", ["float32", "float16", "int16", "int32"])
def test_k24_add_of_matrices(dtype):
    x, y = uniform(-99, 99, 2, 153, 834, dtype=dtype)
    program = k.binary_2d(lambda a, b: a + b, 153, 834, dtype=dtype)
    check(program, {"X": x, "Y": y, "Z": untouched(x.shape, dtype)}, {"Z": x + y})


@pytest.mark.parametrize("n", [1, 4096, 8192])
def test_k25_add_of_a_number(n):
    x = uniform(0, 1, n)
    check(k.unary(lambda v: v + 2.0, dtype="float32"), {"X": x, "Y": untouched(n, "float32")}, {"Y": x + 2}, scalars={"N": n})


@pytest.mark.parametrize("n", [1, 4096, 8191, 8192])
def test_k25_scale_add_with_runtime_scalars(n):
    x, z = uniform(0, 1, 2, n)
    want = 1.5 * ref.wide(x) - 2.5 * ref.wide(z)
    check(k.scale_add(), {"X": x, "Z": z, "Y": untouched(n, "float32")}, {"Y": want}, 1e-6, 1e-6, {"a": 1.5, "b": -2.5, "N": n})


@pytest.mark.parametrize("n", [1, 4096, 8191, 8192])
def test_k25_mul_add(n):
    a, b, c = uniform(0, 1, 3, n)
    want = ref.wide(a) * b + c
    check(k.mul_add(), {"A": a, "B": b, "C": c, "Y": untouched(n, "float32")}, {"Y": want}, 1e-6, scalars={"N": n})


@pytest.mark.parametrize("n", [1, 8192])
def test_k26_add_of_a_scalar_from_memory(n):
    x, y = uniform(0, 1, n), uniform(0, 1, 1, seed=1)
    check(k.add_first(), {"X": x, "Y": y, "Z": untouched(n, "float32")}, {"Z": x + y[0]}, scalars={"N": n})


@pytest.mark.parametrize("n", [32, 1001])
def test_k27_static_quantisation(n):
    x = uniform(0, 1, n, dtype="float16")
    want = np.rint(x * np.float16(2) + np.float16(0.9)).astype(np.int8)
    program = k.unary(lambda v: T.round(v * T.float16(2) + T.float16(0.9)), out_dtype="int8")
    check(program, {"X": x, "Y": untouched(n, "int8")}, {"Y": want}, scalars={"N": n})


def test_k27_a_float_literal_is_float32():
    """`v * 2.0` leaves float16, so the sum is rounded by `round` only; for this length that makes a difference."""
    x = uniform(0, 1, 1001, dtype="float16")
    want = np.rint(x.astype(np.float32) * 2 + np.float32(np.float16(0.9))).astype(np.int8)
    assert (want != np.rint(x * np.float16(2) + np.float16(0.9)).astype(np.int8)).any()
    program = k.unary(lambda v: T.round(v * 2.0 + T.float16(0.9)), out_dtype="int8")
    check(program, {"X": x, "Y": untouched(1001, "int8")}, {"Y": want}, scalars={"N": 1001})


@pytest.mark.one_in(2)
@pytest.mark.parametrize("shape", [(16, 2048), (7, 1001), (32, 4096)])
def test_k37_adam(shape):
    # A step of 0.1 instead of 0.001, so that the tolerance notices a missing update.
    w, m, v, g = uniform(0, 1, 4, *shape)
    want = dict(zip(("W", "Mo", "V"), ref.adam(w, m, v, g, 0.1, 0.9, 0.999, 1e-8, 1)))
    check(k.adam(*shape, lr=0.1), {"W": w, "Mo": m, "V": v, "G": g}, want, 1e-5, 1e-6, text=shape[0] < 20)


@pytest.mark.parametrize("shape", small_and_large(((16, 2048), (5, 333)), ((32, 4096),)))
def test_k38_dropout_mask(shape):
    x, mask = uniform(-1, 1, *shape, dtype="float16"), uniform(0, 2, *shape, dtype="uint8", seed=1)
    check(k.dropout(*shape), {"X": x, "Mask": mask, "Y": untouched(shape, "float16")}, {"Y": ref.wide(x) * mask * 2})


@pytest.mark.one_in(3)
@pytest.mark.parametrize("shape", [(32, 128), (33, 127)])
@pytest.mark.parametrize("name", ["silu", "gelu_tanh", "gelu_erf"])
def test_k39_gated_activations(name, shape):
    x, u = uniform(-1, 1, 2, *shape)
    want = getattr(ref, name)(x) * u
    program = k.gated(getattr(k, name), *shape)
    check(program, {"X": x, "U": u, "Y": untouched(shape, "float32")}, {"Y": want}, 1e-5, 1e-6)


@pytest.mark.parametrize("n", [32 * 128, 1001])
def test_k39_silu(n):
    x = uniform(-4, 4, n)
    check(k.unary(k.silu, dtype="float32"), {"X": x, "Y": untouched(n, "float32")}, {"Y": ref.silu(x)}, 1e-5, 1e-6, {"N": n})


@pytest.mark.parametrize("source", DTYPES)
@pytest.mark.parametrize("target", DTYPES)
@pytest.mark.one_in(12)
def test_k44_conversion_between_all_dtypes(source, target):
    if source == target:
        return
    program = k.unary(lambda v: T.cast(v, target), dtype=source, out_dtype=target)
    for n in (1001, 1024):
        x = uniform(0 if "uint8" in (source, target) else -100, 100, n).astype(ref.numpy_dtype(source))
        check(program, {"X": x, "Y": untouched(n, target)}, {"Y": ref.convert(x, target)}, scalars={"N": n}, text=False)


TERNARY = {
    "kl_div": (lambda p, q, _: p * (T.log(p) - q), lambda p, q, _: p * (np.log(p) - q)),
    "addcdiv": (lambda x, a, b: x + 0.5 * a / b, lambda x, a, b: x + 0.5 * a / b),
    "select": (lambda x, a, b: T.if_then_else(x > a, a, b), lambda x, a, b: np.where(x > a, a, b)),
    "select_both": (
        lambda x, a, b: T.if_then_else(T.And(x > a, T.Not(b < a)), a, b),
        lambda x, a, b: np.where((x > a) & (b >= a), a, b),
    ),
}


@pytest.mark.parametrize("shape", small_and_large(((37, 230), (8, 256)), ((2048, 2304),)))
@pytest.mark.parametrize("name", list(TERNARY))
@pytest.mark.one_in(4)
def test_k47_kl_div_addcdiv_select(name, shape):
    op, reference = TERNARY[name]
    a, b, c = uniform(0.1, 1, 3, *shape)
    want = reference(*(ref.wide(v) for v in (a, b, c)))
    arrays = {"A": a, "B": b, "C": c, "Y": untouched(shape, "float32")}
    check(k.ternary(op, *shape), arrays, {"Y": want}, 1e-5, 1e-6, text=shape[0] < 100)
