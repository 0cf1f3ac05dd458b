"""K20, K23, K30-K34, K40, K41: products, what follows them on the vector cores, and products of that."""

import kernels_products as k
import numpy as np
import pytest
import references as ref
from checks import assert_can_fail, check, compare, small_and_large, strict, untouched

import tilelang_ascend as tilelang

CHIPS = pytest.mark.parametrize("chip", ["a2", "a5"])


def uniform(low, high, *shape, dtype="float16", seed=0):
    rng = np.random.default_rng([seed, *shape])
    return (rng.random(shape, dtype=np.float32) * (high - low) + low).astype(ref.numpy_dtype(dtype))


def whole(*shape, low=-128, high=128, dtype="int8", seed=0):
    return np.random.default_rng([seed, *shape]).integers(low, high, shape).astype(dtype)


def sums(length):
    """Relative error of a sum of products in float32, of its magnitude."""
    return 2.0**-23 * (1 + length**0.5)


def compiled(program, chip):
    return tilelang.compile(program, target=chip)


def check_values(kernel, arrays, expected, tolerances, text=False):
    """`check` without wrong versions of the kernel: softmax and quantisation hide some of those."""
    out = strict.run(kernel, arrays, text=text)
    for name, want in expected.items():
        compare(out[name], want, *tolerances[name])
        assert_can_fail(want, arrays[name], *tolerances[name], name)


@CHIPS
@pytest.mark.parametrize("parts", [2, 4, 8])
def test_k30_matmul_in_parts_of_k(parts, chip):
    a, b = uniform(0, 1, 64, 128), uniform(0, 1, 128, 256)
    program = compiled(k.matmul(64, 256, 128, 64, 256, 128 // parts), chip)
    check(program, {"A": a, "B": b, "C": untouched((64, 256), "float32")}, {"C": ref.wide(a) @ ref.wide(b)}, sums(128), text=parts == 4)


@CHIPS
@pytest.mark.parametrize("shape", small_and_large([(100, 40, 150)], [(480, 224, 1344)]))
def test_k30_matmul_in_blocks(shape, chip):
    (m, inner, n), bM = shape, 96 if shape[0] > 100 else 48
    a, b = uniform(0, 1, m, inner), uniform(0, 1, inner, n)
    program = compiled(k.matmul(m, n, inner, bM, 112 if n > 150 else 64, 32), chip)
    check(program, {"A": a, "B": b, "C": untouched((m, n), "float32")}, {"C": ref.wide(a) @ ref.wide(b)}, sums(inner), text=False)


@pytest.mark.one_in(3)
@CHIPS
@pytest.mark.parametrize("dtype, n", [("float32", 128), ("float16", 256), ("bfloat16", 256)])
def test_k31_matmul_relu_cast(dtype, n, chip):
    """Eighths, of which the sums are exact in float32: one rounding."""
    a, b = whole(64, 128, low=-40, high=41, dtype="float32") / 8, whole(128, n, low=-40, high=41, dtype="float32") / 8
    a, b = (x.astype(ref.numpy_dtype(dtype)) for x in (a, b))
    want = np.maximum(ref.wide(a) @ ref.wide(b), 0).astype(np.float16)
    program = compiled(k.matmul(64, n, 128, 64, 128, 64, dtype, "float16", relu=True), chip)
    check(program, {"A": a, "B": b, "C": untouched((64, n), "float16")}, {"C": want}, text=dtype == "float16")


@CHIPS
@pytest.mark.parametrize("dtype, m", [("float16", 32), ("bfloat16", 64)])
def test_k32_chained_matmul(dtype, m, chip):
    """Whole numbers: the first product is rounded to 16 bits, the second is exact."""
    a, b = (whole(rows, 64, low=-8, high=9, dtype="float32", seed=rows).astype(ref.numpy_dtype(dtype)) for rows in (m, 64))
    middle = (ref.wide(a) @ ref.wide(b)).astype(a.dtype)
    assert (ref.wide(middle) != ref.wide(a) @ ref.wide(b)).any() == (dtype == "bfloat16")
    program = compiled(k.chained(m, 64, dtype), chip)
    check(program, {"A": a, "B": b, "C": untouched((m, 64), "float32")}, {"C": ref.wide(middle) @ ref.wide(b)})


@CHIPS
@pytest.mark.parametrize("shape", small_and_large([(3, 70, 40, 33)], [(16, 256, 256, 256)]))
def test_k33_batched_matmul(shape, chip):
    batch, m, n, inner = shape
    a, b = uniform(0, 1, batch, m, inner), uniform(0, 1, batch, inner, n)
    want = np.matmul(ref.wide(a), ref.wide(b))
    check(compiled(k.batched(*shape), chip), {"A": a, "B": b, "C": untouched(want.shape, "float32")}, {"C": want}, sums(inner), text=False)


@CHIPS
@pytest.mark.parametrize("shape", small_and_large([(70, 50, 96)], [(256, 256, 256)]))
def test_k34_quantised_matmul(shape, chip):
    m, n, inner = shape
    a, b = whole(m, inner), whole(inner, n, seed=1)
    want = (a.astype(np.int32) @ b.astype(np.int32)) * 1e-4
    program = compiled(k.quantised(m, n, inner, 1e-2, 1e-2), chip)
    check(program, {"A": a, "B": b, "C": untouched((m, n), "float16")}, {"C": want}, 2**-11 + 2**-22, 2**-24, text=m == 70)


@CHIPS
@pytest.mark.parametrize("shape", small_and_large([(50, 200, 70)], [(1024, 1024, 512)]))
def test_k23_matmul_softmax(shape, chip):
    m, n, inner = shape
    a, b = uniform(-1, 1, m, inner), uniform(-1, 1, inner, n)
    product = ref.wide(a) @ ref.wide(b)
    # An error of a product is a relative error of its exponential.
    error = sums(inner) * (abs(ref.wide(a)) @ abs(ref.wide(b))).max() + 2**-20
    check(
        compiled(k.product_softmax(*shape), chip),
        {"A": a, "B": b, "D": untouched((m, n), "float32")},
        {"D": ref.softmax(product)},
        error,
        text=m == 50,
    )


@CHIPS
@pytest.mark.parametrize("tokens", small_and_large([37], [32]))
def test_k40_feed_forward(tokens, chip):
    x, w1, w3, w2 = (
        uniform(-1, 1, *shape, dtype="bfloat16", seed=i) for i, shape in enumerate([(tokens, 128), (128, 256), (128, 256), (256, 128)])
    )
    gate, up = (ref.wide(x) @ ref.wide(w) for w in (w1, w3))
    inner = ref.silu(gate) * up
    want, magnitude = inner @ ref.wide(w2), abs(inner) @ abs(ref.wide(w2))
    arrays = {"X": x, "W1": w1, "W3": w3, "W2": w2, "Y": untouched((tokens, 128), "bfloat16")}
    # Terms of the last product are rounded to bfloat16, and so is the result.
    check(compiled(k.ffn(tokens, 128, 256), chip), arrays, {"Y": want}, 2**-9, 2**-9 * magnitude.max() + 1e-3, text=False)


@CHIPS
@pytest.mark.parametrize("shape", small_and_large([(70, True)], [(70, False), (512, False), (512, True)]))
def test_k41_attention(shape, chip):
    seq, causal = shape
    import attention  # noqa: PLC0415 -- `checks` puts its folder on the path

    q, keys, v = (uniform(-1, 1, 1, 1, seq, 128, seed=i) for i in range(3))
    scores = ref.wide(q) @ ref.wide(keys).swapaxes(-1, -2) * 128**-0.5
    if causal:
        scores = np.where(np.tril(np.ones((seq, seq), bool)), scores, -1e9)
    weights = ref.softmax(scores)
    arrays = {
        "Q": q, "K": keys, "V": v, "Sinks": np.zeros(1, np.float16), "Output": untouched(q.shape, "float16"),
        "Lse": np.zeros((1, 1, seq), np.float32),
    }  # fmt: skip
    program = compiled(attention.forward(1, 1, seq, 128, causal=causal, bM=64 if seq > 100 else 32, bN=64 if seq > 100 else 32), chip)
    tolerance = 2**-11, 2**-11 * (weights @ abs(ref.wide(v))).max() + 1e-6
    check_values(program, arrays, {"Output": weights @ ref.wide(v)}, {"Output": tolerance})


def prolog_reference(x):
    """{output: value} in float32, rounded to bfloat16 where the kernel says so."""
    bf16 = lambda y: ref.wide(np.asarray(y, np.float32).astype(ref.bfloat16))
    tokens, heads, dim = x["Q"].shape
    rope = x["Cos"].shape[1]

    def rotated(y):
        """y[t, n, d]: the first elements of d turned."""
        return np.concatenate([bf16(ref.rope(y[..., :rope], x["Cos"], x["Sin"])), y[..., rope:]], -1)

    def quantised(y):
        largest = np.maximum(abs(y).max(-1, keepdims=True), 1e-12)
        return np.rint(y * (127 / largest)), (largest / 127)[..., 0]

    q = (x["Qn"].astype(np.int64) @ x["Wq"].astype(np.int64)) * ref.wide(x["Qs"])[:, None] * ref.wide(x["Wqs"])
    q8, q_scale = quantised(bf16(rotated(bf16(q).reshape(tokens, heads, dim)) @ ref.wide(x["Hq"])))
    keys = bf16(ref.layer_norm(ref.wide(x["X"]) @ ref.wide(x["Wk"]), x["Gain"], x["Bias"], 1e-6))
    k8, k_scale = quantised(bf16(rotated(keys[:, None])[:, 0] @ ref.wide(x["Hk"])))
    cache, cache_scale = ref.wide(x["Cache"]), ref.wide(x["Cache_scale"])
    cache[x["Slots"]], cache_scale[x["Slots"]] = k8, k_scale
    weights = bf16(ref.wide(x["X"]) @ ref.wide(x["Wp"])) * heads**-0.5 * dim**-0.5
    return {"Q": q8, "Q_scale": q_scale, "Cache": cache, "Cache_scale": cache_scale, "W": weights}


@CHIPS
@pytest.mark.parametrize("sizes", small_and_large([(8, 128, 2048, 1)], [(19, 64, 128, 2), (8, 7168, 1536, 64)]))
def test_k20_indexer_prolog(sizes, chip):
    """Sums of the products of bytes lie above what float32 counts: they are int32."""
    (tokens, hidden, rank, heads), dim, rope, rows = sizes, 128, 64, 64
    rng = np.random.default_rng(7)
    angle = uniform(0, 2 * np.pi, tokens, rope, dtype="float32")
    arrays = {
        "Qn": whole(tokens, rank), "Qs": uniform(0, 1e-3, tokens, dtype="float32"), "Wq": whole(rank, heads * dim),
        "Wqs": uniform(-1, 1, heads * dim, dtype="float32"), "X": uniform(-1, 1, tokens, hidden, dtype="bfloat16"),
        "Wk": uniform(-1, 1, hidden, dim, dtype="bfloat16"), "Gain": uniform(0.5, 1, dim, dtype="float32"),
        "Bias": uniform(-0.5, 0.5, dim, dtype="float32", seed=1), "Wp": uniform(-1, 1, hidden, heads, dtype="bfloat16"),
        "Cos": np.cos(angle).astype(ref.bfloat16), "Sin": np.sin(angle).astype(ref.bfloat16),
        "Hq": uniform(-1, 1, dim, dim, dtype="bfloat16"), "Hk": uniform(-1, 1, dim, dim, dtype="bfloat16", seed=1),
        "Slots": rng.permutation(rows)[:tokens].astype(np.int32), "Q": untouched((tokens, heads, dim), "int8"),
        "Q_scale": untouched((tokens, heads), "float16"), "Cache": whole(rows, dim, seed=2), "Cache_scale": uniform(0, 1, rows),
        "W": untouched((tokens, heads), "float16"),
    }  # fmt: skip
    if rank > 2000:
        arrays["Qn"][:], arrays["Wq"][:] = whole(tokens, rank, low=100), whole(rank, heads * dim, low=100)
    # A number that is rounded to bfloat16 the other way moves a code by one, and a scale by a rounding.
    tolerances = {"Q": (0, 1), "Cache": (0, 1), "Q_scale": (2**-8, 0), "Cache_scale": (2**-8, 0), "W": (2**-7, 0)}
    program = compiled(k.indexer_prolog(tokens, hidden, rank, heads, dim, rope, rows), chip)
    check_values(program, arrays, prolog_reference(arrays), tolerances, text=tokens == 19)
