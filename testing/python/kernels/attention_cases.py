"""What attention-class kernels should compute: a case is (kernel, arguments, {output: (value, magnitude, roundings)}).

`magnitude`: sums of the absolute values of the terms of an output; `roundings`: how many times terms are rounded to 16 bits on the way.
"""

from __future__ import annotations

import math

import attention
import chunked
import ml_dtypes
import numpy as np
import torch
from example_kernels import kernel as kernel_of

LOG2E = 1.44269504
F16 = "float16"
EPS = {torch.float16: 2**-11, torch.bfloat16: 2**-8, torch.float32: 2**-24}
FLOAT32_SUMS = 2**-17
"""Relative error of sums of up to 128 terms in float32, one rounding a term."""


def randn(*shape, scale=1.0, dtype=F16):
    return (torch.randn(*shape) * scale).to(getattr(torch, dtype))


def zeros(*shape, dtype=F16):
    return torch.zeros(*shape, dtype=getattr(torch, dtype))


def rounded(x, dtype):
    return x.to(getattr(torch, dtype))


def to_numpy(x):
    if not isinstance(x, torch.Tensor):
        return np.asarray(x)
    return x.view(torch.int16).numpy().view(ml_dtypes.bfloat16) if x.dtype == torch.bfloat16 else x.contiguous().numpy()


def check(case, run) -> None:
    """`run(kernel, arrays)` gives what the case expects."""
    kernel, arguments, outputs = case
    got = run(kernel, {name: to_numpy(x).copy() for name, x in arguments.items()})
    narrow = next((EPS[x.dtype] for x in arguments.values() if isinstance(x, torch.Tensor) and x.dtype in EPS and x.dtype.itemsize == 2), 0)
    for name, (expected, magnitude, roundings) in outputs.items():
        expected = expected.float().numpy()
        m = np.broadcast_to(np.asarray(magnitude, np.float32), expected.shape)
        limit = EPS[arguments[name].dtype] * abs(expected) + (roundings * narrow + FLOAT32_SUMS) * m + 1e-7
        wrong = abs(got[name].astype(np.float32) - expected)
        assert (wrong <= limit).all(), f"{name}: {wrong.max()} off, {(wrong / limit).max()} times what is allowed"


def weights(scores, keep=None):
    return (scores if keep is None else scores.masked_fill(~keep, -math.inf)).softmax(-1)


def scores_of(q, k):
    return q.float() @ k.float().transpose(-1, -2) / math.sqrt(q.shape[-1])


# ---- attention -----------------------------------------------------------------------------------------------------


def forward(batch, heads, seq, dim, **how):
    dtype = how.get("dtype", F16)
    groups, keys, dim_v = how.get("groups", 1), how.get("seq_kv", seq), how.get("dim_v") or dim
    q, k = randn(batch, heads, seq, dim, dtype=dtype), randn(batch, heads // groups, keys, dim, dtype=dtype)
    v, sinks = randn(batch, heads // groups, keys, dim_v, dtype=dtype), randn(heads, dtype=dtype)
    row, column = torch.arange(seq)[:, None] + keys - seq, torch.arange(keys)[None]
    keep = torch.ones(seq, keys, dtype=torch.bool)
    if how.get("causal"):
        keep &= row >= column
    if how.get("window"):
        keep &= row < column + how["window"]
    s = scores_of(q, k.repeat_interleave(groups, 1)).masked_fill(~keep, -math.inf)
    if how.get("sinks"):
        s = torch.cat([s, sinks.float()[None, :, None, None].expand(batch, heads, seq, 1)], -1)
    p, values = s.softmax(-1)[..., :keys], v.float().repeat_interleave(groups, 1)

    def stored(x):
        return x.transpose(1, 2).contiguous() if how.get("bshd") else x

    arguments = {
        "Q": stored(q), "K": stored(k), "V": stored(v), "Sinks": sinks, "Output": rounded(torch.full_like(stored(p @ values), 7), dtype),
        "Lse": torch.zeros(batch, heads, seq),
    }  # fmt: skip
    outputs = {"Output": (stored(p @ values), stored(p @ values.abs()), 1)}
    if how.get("lse"):
        outputs["Lse"] = (torch.logsumexp(s, -1) * LOG2E, 10, 0)
    return attention.forward(batch, heads, seq, dim, **how), arguments, outputs


def ragged(queries, keys, heads, dim, groups=1, causal=False, dtype=F16, **tiles):
    cu_q, cu_kv = (np.cumsum([0, *n]).astype(np.int32) for n in (queries, keys))
    q = randn(cu_q[-1], heads, dim, dtype=dtype)
    k, v = (randn(cu_kv[-1], heads // groups, dim, dtype=dtype) for _ in range(2))
    expected, magnitude = torch.zeros(q.shape), torch.zeros(q.shape)
    for i, (n, m) in enumerate(zip(queries, keys)):
        rows, columns = slice(cu_q[i], cu_q[i + 1]), slice(cu_kv[i], cu_kv[i + 1])
        one = [
            x.transpose(0, 1).float() for x in (q[rows], k[columns].repeat_interleave(groups, 1), v[columns].repeat_interleave(groups, 1))
        ]
        keep = torch.arange(n)[:, None] + m - n >= torch.arange(m)[None] if causal else torch.ones(n, m, dtype=torch.bool)
        p = weights(scores_of(one[0], one[1]), keep)
        expected[rows], magnitude[rows] = (p @ one[2]).transpose(0, 1), (p @ one[2].abs()).transpose(0, 1)
    sizes = len(queries), heads, dim, len(q), len(k), max(queries)
    kernel = kernel_of("flash_attention/varlen.py", "flash_attention_varlen")(*sizes, groups=groups, causal=causal, dtype=dtype, **tiles)
    arguments = {"Q": q, "K": k, "V": v, "cu_q": cu_q, "cu_kv": cu_kv, "Output": torch.full_like(q, 7)}
    return kernel, arguments, {"Output": (expected, magnitude, 1)}


def _backward(batch, heads, seq, dim, groups, causal, dtype):
    q, do = (randn(batch, heads, seq, dim, dtype=dtype) for _ in range(2))
    k, v = (randn(batch, heads // groups, seq, dim, dtype=dtype) for _ in range(2))
    keys, values = (x.float().repeat_interleave(groups, 1) for x in (k, v))
    s = scores_of(q, keys)
    if causal:
        s = s.masked_fill(torch.ones(seq, seq, dtype=torch.bool).triu(1), -math.inf)
    p = s.softmax(-1)
    return q, k, v, do, keys, values, s, p, rounded(p @ values, dtype)


def backward_delta(batch, heads, seq, dim, dtype=F16, **tiles):
    *_, do, _, _, _, _, o = _backward(batch, heads, seq, dim, 1, False, dtype)
    products = o.float() * do.float()
    arguments = {"O": o, "dO": do, "Delta": torch.zeros(batch, heads, seq)}
    kernel = kernel_of("flash_attention/backward.py", "backward_delta")(batch, heads, seq, dim, dtype=dtype, **tiles)
    return kernel, arguments, {"Delta": (products.sum(-1), products.abs().sum(-1), 1)}


def backward(batch, heads, seq, dim, groups=1, causal=False, dtype=F16, **tiles):
    q, k, v, do, keys, values, s, p, o = _backward(batch, heads, seq, dim, groups, causal, dtype)
    d_o = do.float()
    delta = (o.float() * d_o).sum(-1)
    ds = p * (d_o @ values.transpose(-1, -2) - delta[..., None]) / math.sqrt(dim)

    def gathered(x):
        return x.reshape(batch, heads // groups, groups, seq, dim).sum(2)

    zero = zeros(k.shape, dtype=dtype if groups == 1 else "float32")
    arguments = {
        "Q": q, "K": k, "V": v, "dO": do, "lse": torch.logsumexp(s, -1) * LOG2E, "Delta": delta,
        "dQ": torch.zeros(q.shape), "dK": zero, "dV": zero,
    }  # fmt: skip
    outputs = {
        "dQ": (ds @ keys, ds.abs() @ keys.abs(), 1),
        "dK": (gathered(ds.transpose(-1, -2) @ q.float()), gathered(ds.abs().transpose(-1, -2) @ q.float().abs()), 1),
        "dV": (gathered(p.transpose(-1, -2) @ d_o), gathered(p.transpose(-1, -2) @ d_o.abs()), 1),
    }
    sizes, how = (batch, heads, seq, dim), {"groups": groups, "causal": causal, "dtype": dtype, **tiles}
    return kernel_of("flash_attention/backward.py", "backward")(*sizes, **how), arguments, outputs


def block_sparse(batch, heads, seq, dim, block=32, dtype=F16):
    q, k, v = (randn(batch, heads, seq, dim, dtype=dtype) for _ in range(3))
    n = seq // block
    mask = (torch.rand(batch, heads, n, n) < 0.5) | torch.eye(n, dtype=torch.bool)
    keep = mask.repeat_interleave(block, 2).repeat_interleave(block, 3) & torch.ones(seq, seq, dtype=torch.bool).tril()
    p = weights(scores_of(q, k), keep)
    arguments = {"Q": q, "K": k, "V": v, "BlockSparseMask": mask, "Output": torch.zeros_like(q)}
    kernel = attention.block_sparse(batch, heads, seq, dim, dtype=dtype, bM=block, bN=block)
    return kernel, arguments, {"Output": (p @ v.float(), p @ v.float().abs(), 1)}


def native_sparse(heads, seq, dim, selected, block=32, dtype=F16):
    q, k, v = (randn(1, seq, n, dim, dtype=dtype) for n in (heads, 1, 1))
    chosen, keep = torch.full((1, seq, 1, selected), -1, dtype=torch.int32), torch.zeros(seq, seq, dtype=torch.bool)
    for t in range(seq):
        blocks = torch.randperm(t // block + 1)[:selected]
        chosen[0, t, 0, : len(blocks)] = blocks
        for b in blocks.tolist():
            keep[t, b * block : min(t + 1, (b + 1) * block)] = True
    p = weights(scores_of(q.transpose(1, 2), k.transpose(1, 2)), keep)
    values = v.float().transpose(1, 2)
    arguments = {"Q": q, "K": k, "V": v, "BlockIndices": chosen, "Output": torch.zeros_like(q)}
    outputs = {"Output": ((p @ values).transpose(1, 2), (p @ values.abs()).transpose(1, 2), 1)}
    sizes = 1, heads, 1, seq, dim, selected
    return kernel_of("sparse_attention/native_sparse.py", "native_sparse")(*sizes, dtype=dtype, BS=block), arguments, outputs


def sparse_mla(seq, keys, heads, dim, tail, topk, dtype=F16, **tiles):
    q, kv = randn(1, seq, heads, dim + tail, dtype=dtype), randn(1, keys, 1, dim + tail, dtype=dtype)
    indices = torch.stack([torch.randperm(keys)[:topk] for _ in range(seq)]).int()
    indices[:, 0] = 0
    s = scores_of(q[0], kv[0, :, 0]).gather(2, indices.long()[:, None].expand(seq, heads, topk))
    s = s.masked_fill(indices[:, None] > torch.arange(seq)[:, None, None], -math.inf)
    p, values = s.softmax(-1), kv[0, :, 0, :dim].float()[indices.long()]
    arguments = {
        "Q": q, "KV": kv, "Indices": indices[None, :, None], "Output": zeros(1, seq, heads, dim, dtype=dtype),
        "Lse": torch.zeros(1, seq, heads),
    }  # fmt: skip
    outputs = {"Output": ((p @ values)[None], (p @ values.abs())[None], 1), "Lse": (torch.logsumexp(s, -1)[None] * LOG2E, 10, 0)}
    kernel = kernel_of("sparse_attention/gathered.py", "sparse_mla")(1, seq, keys, heads, dim, tail, topk, dtype=dtype, **tiles)
    return kernel, arguments, outputs


def gathered_backward(seq, keys, heads, dim, tail, topk, dtype=F16, **tiles):
    q, kv = randn(seq, heads, dim + tail, dtype=dtype), randn(keys, dim + tail, dtype=dtype)
    do = randn(seq, heads, dim, dtype=dtype)
    indices = torch.stack([torch.randperm(keys)[:topk] for _ in range(seq)]).int()
    indices[:, 0] = 0
    rows, scale = kv.float()[indices.long()], (dim + tail) ** -0.5
    s = (q.float() @ rows.transpose(1, 2) * scale).masked_fill(indices[:, None] > torch.arange(seq)[:, None, None], -math.inf)
    p, dp = s.softmax(-1), do.float() @ rows[..., :dim].transpose(1, 2)
    delta = (p * dp).sum(-1)
    ds = p * (dp - delta[..., None]) * scale
    # The size of what is rounded: products of dO and values are, before they nearly cancel.
    most = p * (abs(do.float()) @ abs(rows[..., :dim]).transpose(1, 2) + abs(delta)[..., None]) * scale
    dkv, size = torch.zeros(keys, dim + tail), torch.zeros(keys, dim + tail)
    at = indices.long().flatten()
    dkv.index_add_(0, at, (ds.transpose(1, 2) @ q.float()).flatten(0, 1))
    size.index_add_(0, at, (most.transpose(1, 2) @ abs(q.float())).flatten(0, 1))
    dkv[:, :dim].index_add_(0, at, (p.transpose(1, 2) @ do.float()).flatten(0, 1))
    size[:, :dim].index_add_(0, at, (p.transpose(1, 2) @ abs(do.float())).flatten(0, 1))
    arguments = {
        "Q": q, "KV": kv, "dO": do, "Indices": indices, "Lse": torch.logsumexp(s, -1), "Delta": delta, "dQ": torch.zeros_like(q),
        "dKV": torch.zeros(keys, dim + tail),
    }  # fmt: skip
    outputs = {"dQ": (ds @ rows, most @ abs(rows), 2), "dKV": (dkv, size, 2)}
    return attention.gathered_backward(seq, keys, heads, dim, tail, topk, dtype=dtype, **tiles), arguments, outputs


# ---- one new token -------------------------------------------------------------------------------------------------


def _split(batch, heads, groups, keys, dim, parts, dtype):
    q, k, v = (randn(*shape, dim, dtype=dtype) for shape in ((batch, heads), (batch, keys, groups), (batch, keys, groups)))
    mask = (torch.rand(batch, keys, groups) < 0.9).to(torch.uint8)
    mask[:, ::7] = 1
    every = heads // groups
    keys_, values, kept = (x.transpose(1, 2).repeat_interleave(every, 1).unflatten(2, (parts, keys // parts)) for x in (k, v, mask))
    s = scores_of(q[:, :, None, None], keys_)[..., 0, :].masked_fill(kept == 0, -math.inf)
    p = s.softmax(-1)[..., None, :]
    lse = torch.logsumexp(s, -1) * LOG2E
    return q, k, v, mask, lse, (p @ values.float())[..., 0, :], (p @ values.float().abs())[..., 0, :]


def split_kv(batch, heads, groups, keys, dim, parts, dtype=F16, **tiles):
    q, k, v, mask, lse, partial, magnitude = _split(batch, heads, groups, keys, dim, parts, dtype)
    weights_of_parts = (lse / LOG2E).softmax(-1)[..., None]
    arguments = {
        "Q": q, "K": k, "V": v, "mask": mask, "glse": zeros(lse.shape, dtype=dtype), "Output_partial": zeros(partial.shape, dtype=dtype),
        "Output": zeros(batch, heads, dim, dtype=dtype),
    }  # fmt: skip
    combined = [(weights_of_parts * x).sum(2) for x in (partial, magnitude)]
    # The weights are powers of two of `glse`, whose rounding to 16 bits moves them by ln 2 times the largest exponent.
    roundings = 2 + math.log(2) * float(lse.abs().max())
    kernel = kernel_of("flash_decoding/split_kv.py", "flashattn")(batch, heads, groups, keys, dim, parts, dtype=dtype, **tiles)
    return kernel, arguments, {"glse": (lse, 10, 0), "Output_partial": (partial, magnitude, 1), "Output": (*combined, roundings)}


def paged(lengths, heads, groups, page, dim, dtype=F16, **tiles):
    most = max((n + page - 1) // page for n in lengths)
    pages = len(lengths) * most + 3
    q, k, v = (randn(*shape, dim, dtype=dtype) for shape in ((len(lengths), heads), (pages, page, groups), (pages, page, groups)))
    table = torch.randperm(pages)[: pages - 3].reshape(len(lengths), most).int()
    expected, magnitude = torch.zeros(q.shape), torch.zeros(q.shape)
    for i, n in enumerate(lengths):
        keys, values = (x[table[i].long()].flatten(0, 1)[:n].transpose(0, 1).repeat_interleave(heads // groups, 0).float() for x in (k, v))
        p = scores_of(q[i][:, None], keys).softmax(-1)
        expected[i], magnitude[i] = (p @ values)[:, 0], (p @ values.abs())[:, 0]
    arguments = {
        "Q": q, "K": k, "V": v, "block_table": table, "cache_seqlens": np.array(lengths, np.int32), "Output": torch.zeros_like(q),
    }  # fmt: skip
    sizes = len(lengths), heads, groups, pages, page, dim, most
    kernel = kernel_of("flash_decoding/paged.py", "paged_attention")(*sizes, dtype=dtype, **tiles)
    return kernel, arguments, {"Output": (expected, magnitude, 1)}


def mla(batch, heads, keys, dim, tail, dtype=F16, **tiles):
    shapes = (batch, heads, dim), (batch, heads, tail), (batch, keys, 1, dim), (batch, keys, 1, tail)
    q, q_pe, kv, k_pe = (randn(*shape, dtype=dtype) for shape in shapes)
    values = kv[:, :, 0].float()
    p = scores_of(torch.cat([q, q_pe], -1), torch.cat([kv, k_pe], -1)[:, :, 0]).softmax(-1)
    arguments = {"Q": q, "Q_pe": q_pe, "KV": kv, "K_pe": k_pe, "Output": torch.zeros_like(q)}
    kernel = kernel_of("mla/decode.py", "mla_decode")(batch, heads, keys, dim, tail, dtype=dtype, **tiles)
    return kernel, arguments, {"Output": (p @ values, p @ values.abs(), 1)}


# ---- products in a row, states -------------------------------------------------------------------------------------


def three_products(m, n, k, p, dtype=F16, **tiles):
    a, b, c = (randn(*shape, scale=0.3, dtype=dtype) for shape in ((m, k), (k, n), (n, p)))
    middle = a.float() @ b.float()
    outputs = {"D": (middle @ c.float(), (a.float().abs() @ b.float().abs()) @ c.float().abs(), 1)}
    arguments = {"A": a, "B": b, "C": c, "D": zeros(m, p, dtype=dtype)}
    return kernel_of("matmul/chained.py", "chained")(m, n, k, p, dtype=dtype, **tiles), arguments, outputs


def product_softmax(m, n, k, dtype=F16, **tiles):
    a, b = randn(m, k, dtype=dtype), randn(k, n, dtype=dtype)
    y = (a.float() @ b.float()).softmax(-1)
    # An error of a score is a relative error of a weight.
    outputs = {"Y": (y, y * (a.float().abs() @ b.float().abs()), 0)}
    return chunked.product_softmax(m, n, k, dtype=dtype, **tiles), {"A": a, "B": b, "Y": zeros(m, n, dtype=dtype)}, outputs


def linear_attention(batch, seq, heads, dim_k, dim_v, dtype=F16, **tiles):
    q, k, v = (randn(batch, seq, heads, dim, dtype=dtype) for dim in (dim_k, dim_k, dim_v))
    scaled = rounded(q.float() * dim_k**-0.5, dtype).float()

    def output(q, k, v):
        return torch.einsum("bhij,bjhd->bihd", torch.einsum("bihd,bjhd->bhij", q, k).tril(), v)

    def state(k, v):
        return torch.einsum("bshk,bshv->bhkv", k, v)

    tensors = [scaled, k.float(), v.float()]
    sizes = [x.abs() for x in tensors]
    arguments = {
        "Q": q, "K": k, "V": v, "O": torch.zeros(batch, seq, heads, dim_v), "final_state": torch.zeros(batch, heads, dim_k, dim_v),
    }  # fmt: skip
    outputs = {"O": (output(*tensors), output(*sizes), 1), "final_state": (state(*tensors[1:]), state(*sizes[1:]), 0)}
    kernel = kernel_of("linear_attention/chunks.py", "linear_attention")(batch, seq, heads, dim_k, dim_v, dtype=dtype, **tiles)
    return kernel, arguments, outputs


def retention(batch, heads, seq, dim_qk, dim_v, dtype=F16, **tiles):
    q, k = (randn(batch, seq, heads, dim_qk, scale=0.3, dtype=dtype) for _ in range(2))
    v, steps = randn(batch, seq, heads, dim_v, dtype=dtype), torch.arange(seq)[:, None] - torch.arange(seq)[None]
    decay = 1 - torch.exp2(-5 - torch.arange(heads).float())
    mask = rounded(torch.where(steps >= 0, decay[:, None, None] ** steps.clamp(min=0), 0.0), dtype)
    s = torch.einsum("bihd,bjhd->bhij", q.float(), k.float()) * mask.float()
    s = s / s.abs().sum(-1, keepdim=True).clamp(min=1)
    arguments = {"Q": q, "K": k, "V": v, "mask": mask, "Output": zeros(batch, seq, heads, dim_v, dtype=dtype)}
    outputs = {"Output": tuple(torch.einsum("bhij,bjhd->bihd", x, y) for x, y in ((s, v.float()), (s.abs(), v.float().abs()))) + (1,)}
    return chunked.retention(batch, heads, seq, dim_qk, dim_v, dtype=dtype, **tiles), arguments, outputs


def _mamba(batch, heads, chunks, chunk, dtype):
    dt = rounded(torch.rand(batch, heads, chunks, chunk), dtype)
    return dt, rounded((-torch.rand(batch, heads, chunks, chunk)).cumsum(-1) * 0.2, dtype)


def chunk_state(batch, seq, chunk, groups, heads, dim, dstate, dtype=F16, **tiles):
    chunks = seq // chunk
    b, x = randn(batch, seq, groups, dstate, dtype=dtype), randn(batch, seq, heads, dim, dtype=dtype)
    dt, sums = _mamba(batch, heads, chunks, chunk, dtype)
    decay = torch.exp(sums[..., -1:].float() - sums.float()) * dt.float()

    def states(b, x):
        b = b.repeat_interleave(heads // groups, 2).view(batch, chunks, chunk, heads, dstate)
        return torch.einsum("bclhn,bhcl,bclhp->bchpn", b, decay, x.view(batch, chunks, chunk, heads, dim))

    arguments = {"B": b, "x": x, "dt": dt, "dA_cumsum": sums, "Output": zeros(batch, chunks, heads, dim, dstate, dtype=dtype)}
    outputs = {"Output": (states(b.float(), x.float()), states(b.float().abs(), x.float().abs()), 1)}
    sizes = batch, seq, chunk, groups, heads, dim, dstate
    return kernel_of("mamba/chunk_scan.py", "chunk_state")(*sizes, dtype=dtype, **tiles), arguments, outputs


def chunk_scan(batch, seq, chunk, groups, heads, dim, dstate, dtype=F16, **tiles):
    chunks = seq // chunk
    shapes = (batch, chunks, groups, chunk, chunk), (batch, seq, heads, dim), (batch, seq, groups, dstate)
    cb, x, c = (randn(*shape, dtype=dtype) for shape in shapes)
    previous, d = randn(batch, chunks, heads, dim, dstate, dtype=dtype), randn(heads, dtype=dtype)
    dt, sums = _mamba(batch, heads, chunks, chunk, dtype)
    decay = torch.exp((sums.float()[..., :, None] - sums.float()[..., None, :]).tril()).permute(0, 2, 1, 3, 4)

    def scan(cb, x, c, previous, d):
        w = (cb.repeat_interleave(heads // groups, 2) * decay * dt.float().transpose(1, 2)[..., None, :]).tril()
        inner = torch.einsum("bchls,bcshp->bclhp", w, x.view(batch, chunks, chunk, heads, dim))
        c = c.repeat_interleave(heads // groups, 2).view(batch, chunks, chunk, heads, dstate)
        outer = torch.einsum("bclhn,bchpn->bclhp", c, previous) * torch.exp(sums.float()).permute(0, 2, 3, 1)[..., None]
        return (inner + outer).reshape(batch, seq, heads, dim) + x * d[:, None]

    arguments = {
        "cb": cb, "x": x, "dt": dt, "dA_cumsum": sums, "C": c, "prev_states": previous, "D": d,
        "Output": zeros(batch, seq, heads, dim, dtype=dtype),
    }  # fmt: skip
    tensors = [t.float() for t in (cb, x, c, previous, d)]
    outputs = {"Output": (scan(*tensors), scan(*[t.abs() for t in tensors]), 2)}
    sizes = batch, seq, chunk, groups, heads, dim, dstate
    return kernel_of("mamba/chunk_scan.py", "chunk_scan")(*sizes, dtype=dtype, **tiles), arguments, outputs


class DeltaRule:
    """Everything the chunks of a gated delta rule need, in (batch, chunk, head, step, ...) as float32."""

    def __init__(self, batch, seq, heads, dim_k, dim_v, chunk=32, dtype=F16):
        self.sizes, self.chunk, self.count, self.dtype = (batch, seq, heads, dim_k, dim_v), chunk, seq // chunk, dtype
        self.k = rounded(torch.nn.functional.normalize(torch.randn(batch, seq, heads, dim_k), dim=-1), dtype)
        self.q, self.v = randn(batch, seq, heads, dim_k, dtype=dtype), randn(batch, seq, heads, dim_v, dtype=dtype)
        self.beta = rounded(torch.rand(batch, seq, heads), dtype)
        self.g = (-torch.rand(batch, self.count, chunk, heads) * 0.3).cumsum(2).reshape(batch, seq, heads)
        k, beta, g = self.chunks(self.k), self.chunks(self.beta[..., None]), self.chunks(self.g[..., None])
        self.decay = torch.exp((g - g.transpose(-1, -2)).tril()).tril()
        self.a = ((k * beta) @ k.transpose(-1, -2) * self.decay).tril(-1)
        self.inverse = torch.linalg.inv(torch.eye(chunk) + self.a)
        self.inverse_half = self.chunks(rounded(self.steps(self.inverse), dtype))
        self.gates = (k * beta * g.exp(), self.chunks(self.v) * beta)
        self.w, self.u = (rounded(self.steps(self.inverse_half @ x), dtype) for x in self.gates)

    def chunks(self, x):
        batch, _, heads, *_ = self.sizes
        return x.float().reshape(batch, self.count, self.chunk, heads, -1).transpose(2, 3)

    def steps(self, x):
        batch, seq, heads, *_ = self.sizes
        return x.transpose(2, 3).reshape(batch, seq, heads, -1).contiguous()


def delta_kkt(*sizes, chunk=32, dtype=F16, **tiles):
    d = DeltaRule(*sizes, chunk, dtype)
    k = d.chunks(d.k).abs()
    magnitude = d.steps((k * d.chunks(d.beta[..., None])) @ k.transpose(-1, -2) * d.decay)
    arguments = {"K": d.k, "Beta": d.beta, "G": d.g, "A": torch.zeros(*sizes[:3], d.chunk)}
    kernel = kernel_of("linear_attention/gated_delta_rule.py", "delta_kkt")(*sizes[:4], dtype=dtype, BS=chunk, **tiles)
    return kernel, arguments, {"A": (d.steps(d.a), magnitude, 1)}


def delta_inverse(*sizes, chunk=32, dtype=F16, **tiles):
    d = DeltaRule(*sizes, chunk, dtype)
    arguments = {"A": d.steps(d.a), "Ai": zeros(*sizes[:3], d.chunk, dtype=dtype)}
    kernel = kernel_of("linear_attention/gated_delta_rule.py", "delta_inverse")(*sizes[:3], dtype=dtype, BS=chunk, **tiles)
    return kernel, arguments, {"Ai": (d.steps(d.inverse), 1, 0)}


def delta_wy(*sizes, chunk=32, dtype=F16, **tiles):
    d = DeltaRule(*sizes, chunk, dtype)
    magnitudes = [d.steps(d.inverse_half.abs() @ x.abs()) for x in d.gates]
    expected = [d.steps(d.inverse_half @ x) for x in d.gates]
    arguments = {
        "K": d.k, "V": d.v, "Beta": d.beta, "G": d.g, "A": rounded(d.steps(d.inverse_half), dtype),
        "W": torch.zeros_like(d.w), "U": torch.zeros_like(d.u),
    }  # fmt: skip
    kernel = kernel_of("linear_attention/gated_delta_rule.py", "delta_wy")(*sizes, dtype=dtype, BS=chunk, **tiles)
    return kernel, arguments, {"W": (expected[0], magnitudes[0], 2), "U": (expected[1], magnitudes[1], 1)}


def _states(d, g, per_channel, initial):
    state, before, new = initial.float(), [], []
    largest = torch.zeros(())
    for c in range(d.count):
        k, w, u, gates = (d.chunks(x)[:, c] for x in (d.k, d.w, d.u, g if per_channel else g[..., None]))
        before.append(state)
        v = u - w @ state
        new.append(v)
        last = gates[:, :, -1:]
        if per_channel:
            state = state * torch.exp2(last).transpose(-1, -2)
        else:
            v, state = v * torch.exp(last - gates), state * torch.exp(last)
        state = state + k.transpose(-1, -2) @ v
        largest = torch.maximum(largest, torch.maximum((w.abs() @ before[-1].abs()).max(), (k.abs().transpose(-1, -2) @ v.abs()).max()))
    return torch.stack(before, 1), d.steps(torch.stack(new, 1)), state, float(largest)


def delta_states(*sizes, per_channel=False, chunk=32, dtype=F16, **tiles):
    d = DeltaRule(*sizes, chunk, dtype)
    batch, seq, heads, dim_k, dim_v = sizes
    initial = randn(batch, heads, dim_k, dim_v, scale=0.3, dtype=dtype)
    g = (-torch.rand(batch, d.count, d.chunk, heads, dim_k) * 0.1).cumsum(2).reshape(batch, seq, heads, dim_k) if per_channel else d.g
    h, v_new, final, largest = _states(d, g, per_channel, initial)
    arguments = {
        "K": d.k, "W": d.w, "U": d.u, "G": g, "initial_state": initial, "h": zeros(h.shape, dtype=dtype),
        "final_state": torch.zeros_like(final), "V_new": zeros(v_new.shape, dtype=dtype),
    }  # fmt: skip
    # The state and the new values are rounded once a chunk.
    outputs = {name: (x, largest, 2 * d.count) for name, x in (("h", h), ("final_state", final), ("V_new", v_new))}
    how = {"per_channel": per_channel, "dtype": dtype, "BS": chunk, **tiles}
    return kernel_of("linear_attention/gated_delta_rule.py", "delta_states")(*sizes, **how), arguments, outputs


def delta_output(*sizes, chunk=32, dtype=F16, **tiles):
    d = DeltaRule(*sizes, chunk, dtype)
    batch, seq, heads, dim_k, dim_v = sizes
    h = randn(batch, d.count, heads, dim_k, dim_v, dtype=dtype)

    def output(q, k, v, h):
        return d.steps((q @ h) * torch.exp(d.chunks(d.g[..., None])) + (q @ k.transpose(-1, -2) * d.decay) @ v) * dim_k**-0.5

    tensors = [*(d.chunks(x) for x in (d.q, d.k, d.v)), h.float()]
    arguments = {"Q": d.q, "K": d.k, "V": d.v, "HIDDEN": h, "G": d.g, "O": zeros(batch, seq, heads, dim_v, dtype=dtype)}
    kernel = kernel_of("linear_attention/gated_delta_rule.py", "delta_output")(*sizes, dtype=dtype, BS=chunk, **tiles)
    return kernel, arguments, {"O": (output(*tensors), output(*[t.abs() for t in tensors]), 1)}


def channel_decay(*sizes, chunk=32, dtype=F16, **tiles):
    d = DeltaRule(*sizes, sizes[-1], chunk, dtype)
    batch, seq, heads, dim = sizes
    g = (-torch.rand(batch, d.count, chunk, heads, dim) * 0.1).cumsum(2).reshape(batch, seq, heads, dim)
    gates, beta = d.chunks(g), d.chunks(d.beta[..., None])
    up, down = torch.exp2(gates - gates[..., :1, :]), torch.exp2(gates[..., :1, :] - gates)

    def products(q, k):
        aqk, akk = ((x * up) @ (k * down).transpose(-1, -2) for x in (q, k))
        return d.steps(aqk.tril() * dim**-0.5), d.steps((akk * beta).tril(-1))

    q, k = d.chunks(d.q), d.chunks(d.k)
    arguments = {
        "Q": d.q, "K": d.k, "G": g, "Beta": d.beta, "Aqk": zeros(*sizes[:3], chunk, dtype=dtype), "Akk": torch.zeros(*sizes[:3], chunk),
    }  # fmt: skip
    # Both operands of a product are rounded.
    outputs = {name: (x, m, 2) for name, x, m in zip(("Aqk", "Akk"), products(q, k), products(q.abs(), k.abs()))}
    return chunked.channel_decay(*sizes, dtype=dtype, chunk=chunk, **tiles), arguments, outputs


# ---- experts, scores -----------------------------------------------------------------------------------------------


def _experts(sizes, block):
    blocks = [(n + block - 1) // block for n in sizes]
    return {
        "group_sizes": np.array(sizes, np.int32),
        "group_offsets": (np.cumsum(sizes) - sizes).astype(np.int32),
        "group_padded_offsets": ((np.cumsum(blocks) - blocks) * block).astype(np.int32),
        "group_idx_for_bx": np.repeat(np.arange(len(sizes)), blocks).astype(np.int32),
    }, np.repeat(np.arange(len(sizes)), sizes)


def expert_up(sizes, hidden, width, block=32, dtype=F16, **tiles):
    n, tables, expert = sum(sizes), *_experts(sizes, block)
    x, gate, up = randn(n, hidden, dtype=dtype), *(randn(len(sizes), width, hidden, scale=hidden**-0.5, dtype=dtype) for _ in range(2))
    a, b = (torch.einsum("nd,ned->ne", x.float(), w.float()[expert]) for w in (gate, up))
    size_a, size_b = (torch.einsum("nd,ned->ne", x.float().abs(), w.float().abs()[expert]) for w in (gate, up))
    arguments = {"input": x, "W_gate": gate, "W_up": up, **tables, "up_logits": zeros(n, width, dtype=dtype)}
    # silu grows by at most 1.1 times what its argument grows.
    outputs = {"up_logits": (torch.nn.functional.silu(a) * b, 1.1 * size_a * size_b, 0)}
    sizes = n, hidden, width, len(sizes), len(tables["group_idx_for_bx"])
    return kernel_of("moe/fused.py", "expert_up")(*sizes, dtype=dtype, bM=block, **tiles), arguments, outputs


def expert_down(sizes, hidden, width, block=32, dtype=F16, **tiles):
    n, tables, expert = sum(sizes), *_experts(sizes, block)
    x, down = randn(n, width, dtype=dtype), randn(len(sizes), hidden, width, scale=width**-0.5, dtype=dtype)
    w = rounded(torch.rand(n), dtype)

    def output(x, down):
        return torch.einsum("ne,nde->nd", x, down[expert]) * w.float()[:, None]

    arguments = {"up_logits": x, "W_down": down, "weights": w, **tables, "output": zeros(n, hidden, dtype=dtype)}
    outputs = {"output": (output(x.float(), down.float()), output(x.float().abs(), down.float().abs()), 0)}
    sizes = n, hidden, width, len(sizes), len(tables["group_idx_for_bx"])
    return kernel_of("moe/fused.py", "expert_down")(*sizes, dtype=dtype, bM=block, **tiles), arguments, outputs


def indexer(seq, keys, heads, dim, viewed=False, dtype=F16, **tiles):
    q, k, w = randn(seq * heads, dim, dtype=dtype), randn(keys, dim, dtype=dtype), torch.rand(seq, heads)
    start, end = np.where(np.arange(seq) < seq // 2, 0, 10).astype(np.int32), np.minimum(np.arange(seq) + 30, keys).astype(np.int32)

    def logits(q, k):
        return (torch.relu(torch.einsum("shd,td->sht", q.float().view(seq, heads, dim), k.float())) * w[..., None]).sum(1)

    full, expected = logits(q, k), torch.full((seq, keys), 7.0)
    for i in range(0, seq, 2):
        columns = slice(start[i : i + 2].min(), end[i : i + 2].max())
        expected[i : i + 2, columns] = full[i : i + 2, columns]
    arguments = {"IndexQ": q, "IndexK": k, "Logits": torch.full((seq, keys), 7.0), "Weights": w, "CuSeqLenKS": start, "CuSeqLenKE": end}
    return (
        chunked.indexer(seq, keys, heads, dim, viewed=viewed, dtype=dtype, **tiles),
        arguments,
        {"Logits": (expected, logits(q.abs(), k.abs()), 0)},
    )
