"""What comes in front of an indexer, in one launch: queries of 8-bit products, keys of 16-bit ones, both rotated, multiplied by one matrix and quantised."""

import attention_cases as cases
import numpy as np
import pytest
import strict
import torch

import tilelang_ascend as tilelang
import tilelang_ascend.language as T

F32, BF16, I8, I32 = "float32", "bfloat16", "int8", "int32"


def prolog(tokens, rank, heads, dim, hidden, rope, bT=16, bK=64):
    """Blocks of a head each make queries, those behind them keys."""
    half = rope // 2

    @T.prim_func
    def main(
        Qn: T.Tensor((tokens, rank), I8), Wq: T.Tensor((rank, heads * dim), I8), Qs: T.Tensor((tokens,), F32), Ws: T.Tensor((heads * dim,), F32),
        X: T.Tensor((tokens, hidden), BF16), Wk: T.Tensor((hidden, dim), BF16), Cos: T.Tensor((tokens, rope), F32), Sin: T.Tensor((tokens, rope), F32),
        H: T.Tensor((dim, dim), BF16), Q: T.Tensor((tokens, heads, dim), I8), Q_scale: T.Tensor((tokens, heads), F32),
        K: T.Tensor((tokens, dim), I8), K_scale: T.Tensor((tokens,), F32),
    ):  # fmt: skip
        with T.Kernel(T.ceildiv(tokens, bT), heads + 1, threads=128) as (bt, bh):
            a_bytes, b_bytes = T.alloc_shared((bT, bK), I8), T.alloc_shared((bK, dim), I8)
            a, b, h = T.alloc_shared((bT, bK), BF16), T.alloc_shared((bK, dim), BF16), T.alloc_shared((dim, dim), BF16)
            whole, acc = T.alloc_fragment((bT, dim), I32), T.alloc_fragment((bT, dim), F32)
            y, turned, z = T.alloc_fragment((bT, dim), F32), T.alloc_fragment((bT, dim), F32), T.alloc_fragment((bT, dim), F32)
            narrow, codes = T.alloc_fragment((bT, dim), BF16), T.alloc_fragment((bT, dim), I8)
            most, mean, var = T.alloc_fragment((bT,), F32), T.alloc_fragment((bT,), F32), T.alloc_fragment((bT,), F32)
            T.copy(H, h)
            if bh < heads:
                T.clear(whole)
                for k in T.Pipelined(T.ceildiv(rank, bK), num_stages=2):
                    T.copy(Qn[bt * bT, k * bK], a_bytes)
                    T.copy(Wq[k * bK, bh * dim], b_bytes)
                    T.gemm(a_bytes, b_bytes, whole)
                for i, j in T.Parallel(bT, dim):
                    y[i, j] = T.cast(whole[i, j], F32) * Qs[bt * bT + i] * Ws[bh * dim + j]
            else:
                T.clear(acc)
                for k in T.Pipelined(T.ceildiv(hidden, bK), num_stages=2):
                    T.copy(X[bt * bT, k * bK], a)
                    T.copy(Wk[k * bK, 0], b)
                    T.gemm(a, b, acc)
                T.reduce_sum(acc, mean, dim=1)
                for i, j in T.Parallel(bT, dim):
                    y[i, j] = acc[i, j] - mean[i] / dim
                for i, j in T.Parallel(bT, dim):
                    z[i, j] = y[i, j] * y[i, j]
                T.reduce_sum(z, var, dim=1)
                for i, j in T.Parallel(bT, dim):
                    y[i, j] = y[i, j] * T.rsqrt(var[i] / dim + 1e-6)
            for i, j in T.Parallel(bT, dim):
                first = y[i, j] * Cos[bt * bT + i, j % rope] - y[i, (j + half) % dim] * Sin[bt * bT + i, j % rope]
                second = y[i, j] * Cos[bt * bT + i, j % rope] + y[i, (j + dim - half) % dim] * Sin[bt * bT + i, j % rope]
                turned[i, j] = T.if_then_else(j < half, first, T.if_then_else(j < rope, second, y[i, j]))
            T.copy(turned, narrow)
            T.clear(z)
            T.gemm(narrow, h, z)
            T.reduce_absmax(z, most, dim=1)
            for i, j in T.Parallel(bT, dim):
                codes[i, j] = T.cast(T.round(z[i, j] * (127.0 / T.max(most[i], 1e-12))), I8)
            if bh < heads:
                T.copy(codes, Q[bt * bT : (bt + 1) * bT, bh, :])
                for i in T.Parallel(bT):
                    Q_scale[bt * bT + i, bh] = most[i] / 127.0
            else:
                T.copy(codes, K[bt * bT, 0])
                for i in T.Parallel(bT):
                    K_scale[bt * bT + i] = most[i] / 127.0

    return main


@pytest.mark.parametrize("tokens", [8, 37])
@pytest.mark.parametrize("chip", ["a2", "a3", "a5"])
@pytest.mark.one_in(4)
def test_queries_and_keys_in_one_launch(chip, tokens):
    """Sums of 8-bit products beyond the whole numbers float32 holds: they are int32."""
    rank, heads, dim, hidden, rope = 2048, 2, 128, 192, 64
    rng = np.random.default_rng(tokens)
    torch.manual_seed(0)
    qn, wq = (rng.integers(low, 128, shape).astype(np.int8) for low, shape in ((64, (tokens, rank)), (64, (rank, heads * dim))))
    qs, ws = (rng.random(n).astype(np.float32) * 1e-4 for n in (tokens, heads * dim))
    x, wk, h = (
        torch.randn(tokens, hidden).bfloat16(),
        (torch.randn(hidden, dim) / hidden**0.5).bfloat16(),
        (torch.randn(dim, dim) / 11).bfloat16(),
    )
    angle = rng.random((tokens, rope)).astype(np.float32)
    arrays = {
        "Qn": qn, "Wq": wq, "Qs": qs, "Ws": ws, "X": cases.to_numpy(x).copy(), "Wk": cases.to_numpy(wk).copy(), "Cos": np.cos(angle), "Sin": np.sin(angle),
        "H": cases.to_numpy(h).copy(), "Q": np.zeros((tokens, heads, dim), np.int8), "Q_scale": np.zeros((tokens, heads), np.float32),
        "K": np.zeros((tokens, dim), np.int8), "K_scale": np.zeros(tokens, np.float32),
    }  # fmt: skip
    out = strict.run(tilelang.compile(prolog(tokens, rank, heads, dim, hidden, rope), target=chip), arrays, text=chip == "a2")

    def check(y, codes, scale):
        cos, sin, half = torch.tensor(np.cos(angle)), torch.tensor(np.sin(angle)), rope // 2
        turned = y.clone()
        turned[:, :half] = y[:, :half] * cos[:, :half] - y[:, half:rope] * sin[:, :half]
        turned[:, half:rope] = y[:, half:rope] * cos[:, half:] + y[:, :half] * sin[:, half:]
        z = turned.float().bfloat16().double() @ h.double()
        most = z.abs().max(1).values
        # A number that is rounded to bfloat16 the other way moves a sum by 2 ** -8 of one of its terms.
        assert abs(codes - torch.round(z * (127 / most[:, None])).numpy()).max() <= 1
        np.testing.assert_allclose(scale, most / 127, rtol=2.0**-8)

    exact = qn.astype(np.int64) @ wq.astype(np.int64)
    assert exact.max() > 1 << 24
    q = torch.tensor(exact).double() * torch.tensor(qs)[:, None] * torch.tensor(ws)
    k = x.double() @ wk.double()
    k -= k.mean(1, keepdim=True)
    for head in range(heads):
        check(q[:, head * dim : (head + 1) * dim], out["Q"][:, head], out["Q_scale"][:, head])
    check(k / torch.sqrt((k * k).mean(1, keepdim=True) + 1e-6), out["K"], out["K_scale"])
