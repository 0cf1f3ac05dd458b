"""Several steps of an attention loop are taken at a time where that leaves the same, and nowhere else."""

import merging
import ml_dtypes
import numpy as np
import pytest
import strict

import tilelang_ascend as tilelang
import tilelang_ascend.language as T

RNG = np.random.default_rng(0)
EPS = {"float16": 2**-11, "bfloat16": 2**-8}
NARROW = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16}


def merged(compiled) -> bool:
    return any("steps of a loop are worked on together" in note for note in compiled.artifact.notes)


def tensors(keys=merging.KEYS, dtype="float16", rows=merging.M, block=merging.N, n=None):
    dim, narrow = merging.DIM, NARROW[dtype]
    return {
        "Q": RNG.standard_normal((rows, dim)).astype(narrow),
        "K": RNG.standard_normal((keys, dim)).astype(narrow),
        "V": RNG.standard_normal((keys, dim)).astype(narrow),
        "W": RNG.uniform(0, 2, (rows, keys)).astype(np.float32),
        "S": RNG.uniform(0.5, 1.5, keys // block).astype(np.float32),
        "O": np.zeros((rows, dim), np.float32),
        "L": np.zeros(rows, np.float32),
        "X": np.zeros(rows, np.float32),
        "P": np.zeros((rows, keys), np.float32),
        "n": keys if n is None else n,
    }


def run(compiled, given: dict, text=False) -> dict:
    scalars = {name: x for name, x in given.items() if np.isscalar(x)}
    return strict.run(compiled, {name: x for name, x in given.items() if name not in scalars}, scalars, text=text)


def check(compiled, given: dict, variant: str, dtype="float16", text=False) -> None:
    got, expected = run(compiled, given, text), merging.reference(given, variant)
    np.testing.assert_allclose(got["X"], expected["X"], rtol=1e-5, atol=1e-5)
    # 16 bits round the weights, float32 every sum.
    assert (abs(got["L"] - expected["L"]) <= 1e-5 * expected["L"] + 1e-6).all()
    assert (abs(got["O"] - expected["O"]) <= (EPS[dtype] + 2**-16) * expected["size"] + 1e-6).all()


SAME = ["", "tiles of a step", "natural", "scaled", "bias", "factor", "selected", "two outputs", "masked"]


@pytest.mark.one_in(6)
@pytest.mark.parametrize("variant", SAME)
def test_running_sums_are_merged(variant):
    compiled = tilelang.compile(merging.forward(variant))
    assert merged(compiled)
    check(compiled, tensors(), variant, text=variant == "")


def test_bfloat16():
    compiled = tilelang.compile(merging.forward(dtype="bfloat16"))
    assert merged(compiled)
    check(compiled, tensors(dtype="bfloat16"), "", "bfloat16")


@pytest.mark.one_in(2)
@pytest.mark.parametrize("steps", [17, 19, 31])
def test_steps_are_left_over(steps):
    keys = steps * merging.N
    compiled = tilelang.compile(merging.forward("masked", keys))
    assert merged(compiled)
    check(compiled, tensors(keys), "masked")


def test_lengths_of_run_time():
    """Also none at all, and numbers of steps that are no multiple."""
    compiled = tilelang.compile(merging.forward("lengths"))
    assert merged(compiled)
    for n in (0, 1, 16, 63, 64, 65, 100, 200, 256):
        check(compiled, tensors(n=n), "lengths")


def test_nothing_is_read_behind_the_last_step():
    """What lies behind a length of run time may be anything."""
    compiled, given = tilelang.compile(merging.forward("lengths")), tensors(n=80)
    expected = run(compiled, given)
    for name in "KV":
        given[name][80:] = np.nan
    got = run(compiled, given)
    assert all((got[name] == expected[name]).all() for name in "OLX")


@pytest.mark.parametrize("variant", SAME)
@pytest.mark.one_in(6)
def test_the_last_step_has_fewer_keys(variant):
    """Nobody sees what is behind them: not even its NaN, in what is combined for all keys, nor in what has an element for each."""
    variant = f"numbers {variant}"
    compiled = tilelang.compile(merging.forward(variant))
    assert merged(compiled)
    for n in (16, 80, 240):
        given = tensors(n=n)
        for name in "KVW":
            given[name][(slice(None),) * (name == "W") + (slice(n, None),)] = np.nan
        check(compiled, given, variant, text=n == 80)


def test_negative_lengths_are_no_steps():
    compiled = tilelang.compile(merging.forward("lengths"))
    got = run(compiled, tensors(n=-40))
    assert (got["L"] == 0).all() and (got["X"] == -np.inf).all()


@pytest.mark.parametrize("keys", [merging.KEYS, merging.KEYS + merging.N])
def test_keys_along_rows(keys):
    compiled = tilelang.compile(merging.transposed(keys))
    assert merged(compiled)
    given = {name: x for name, x in tensors(keys).items() if name in "QKVL"} | {"O": np.zeros((merging.DIM, merging.M), np.float32)}
    got, expected = run(compiled, given), merging.reference(given | {"W": given["Q"]}, "")
    assert (abs(got["L"] - expected["L"]) <= 1e-5 * expected["L"]).all()
    assert (abs(got["O"].T - expected["O"]) <= (EPS["float16"] + 2**-16) * expected["size"]).all()


@pytest.mark.parametrize("keys", [merging.KEYS, merging.KEYS + merging.N])
def test_sums_without_a_maximum(keys):
    compiled = tilelang.compile(merging.plain_sum(keys))
    assert merged(compiled)
    given = {name: x for name, x in tensors(keys).items() if name in "QKVO"}
    got = run(compiled, given)["O"]
    q, k, v = (given[name].astype(np.float64) for name in "QKV")
    weights = np.tril(np.ones((merging.M * 8, keys)))[::8] * (q @ k.T) ** 2 / 64
    assert (abs(got - weights @ v) <= (EPS["float16"] + 2**-16) * (abs(weights) @ abs(v)) + 1e-6).all()


OTHERS = [
    "other base", "other factor", "negative", "not scaled", "least", "forgetting", "carried guard", "bias behind the maximum", "older maximum",
    "columns of a step", "step's bias", "step's factor", "stored", "left behind", "weights of before", "divided", "changes",
    "second not scaled", "last factor", "of one step", "leaves", "guarded scores", "integers",
]  # fmt: skip


@pytest.mark.one_in(6)
@pytest.mark.parametrize("variant", OTHERS)
def test_anything_else_stays(variant):
    compiled = tilelang.compile(merging.forward(variant))
    assert not merged(compiled)


def test_switched_off():
    compiled = tilelang.compile(merging.forward(), pass_configs={"tl.merge_steps": False})
    assert not merged(compiled)
    check(compiled, tensors(), "")


def test_few_steps_stay():
    assert not merged(tilelang.compile(merging.forward(keys=4 * merging.N)))


def quantised(keys=merging.KEYS):
    """Keys and values of 8 bits, scaled by row: what is behind the last key is no zero when it is converted."""
    M, N, DIM = merging.M, merging.N, merging.DIM

    @T.prim_func
    def kernel(
        Q: T.Tensor((M, DIM), "float16"),
        K: T.Tensor((keys, DIM), "int8"),
        V: T.Tensor((keys, DIM), "int8"),
        O: T.Tensor((M, DIM), "float32"),
        n: T.int32,
    ):
        with T.Kernel(1, threads=128) as _:
            q, k8, v8 = T.alloc_shared((M, DIM), "float16"), T.alloc_shared((N, DIM), "int8"), T.alloc_shared((N, DIM), "int8")
            k_s, v_s = T.alloc_shared((N, DIM), "float16"), T.alloc_shared((N, DIM), "float16")
            s, p = T.alloc_fragment((M, N), "float32"), T.alloc_fragment((M, N), "float16")
            o, m, before = T.alloc_fragment((M, DIM), "float32"), T.alloc_fragment((M,), "float32"), T.alloc_fragment((M,), "float32")
            total, length = T.alloc_fragment((M,), "float32"), T.alloc_fragment((M,), "float32")
            T.copy(Q, q)
            T.clear(o)
            T.clear(length)
            T.fill(m, -T.infinity("float32"))
            for k in T.Pipelined(T.ceildiv(n, N), num_stages=2):
                T.copy(K[k * N, 0], k8)
                for i, j in T.Parallel(N, DIM):
                    k_s[i, j] = T.cast(k8[i, j], "float16") / 64 + 1
                T.gemm(q, k_s, s, transpose_B=True, clear_accum=True)
                T.copy(m, before)
                T.reduce_max(s, m, dim=1, clear=False)
                for i, j in T.Parallel(M, N):
                    s[i, j] = T.exp2(s[i, j] * 0.25 - m[i] * 0.25)
                T.reduce_sum(s, total, dim=1)
                for i in T.Parallel(M):
                    length[i] = length[i] * T.exp2(before[i] * 0.25 - m[i] * 0.25) + total[i]
                T.copy(s, p)
                for i, j in T.Parallel(M, DIM):
                    o[i, j] *= T.exp2(before[i] * 0.25 - m[i] * 0.25)
                T.copy(V[k * N, 0], v8)
                for i, j in T.Parallel(N, DIM):
                    v_s[i, j] = T.if_then_else(v8[i, j] == 0, T.infinity("float16"), T.cast(v8[i, j], "float16") / 64)
                T.gemm(p, v_s, o)
            for i, j in T.Parallel(M, DIM):
                o[i, j] /= length[i]
            T.copy(o, O)

    return kernel


def test_operands_that_are_computed():
    """A zero that is loaded may become an infinity."""
    compiled = tilelang.compile(quantised())
    assert merged(compiled)
    for n in (16, 144, 256):
        q = RNG.standard_normal((merging.M, merging.DIM)).astype(np.float16)
        k, v = (RNG.integers(1, 100, (merging.KEYS, merging.DIM)).astype(np.int8) for _ in range(2))
        got = strict.run(compiled, {"Q": q, "K": k, "V": v, "O": np.zeros((merging.M, merging.DIM), np.float32)}, {"n": n}, text=False)["O"]
        keys, values = (x[:n].astype(np.float64) / 64 for x in (k, v))
        scores = q.astype(np.float64) @ (keys + 1).T * 0.25
        weights = np.exp2(scores - scores.max(1, keepdims=True))
        np.testing.assert_allclose(got, weights @ values / weights.sum(1, keepdims=True), rtol=4e-3, atol=4e-3)
