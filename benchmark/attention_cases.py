"""Attention-class kernels of examples/ at sizes of models, each with its bound (attention_bounds.py). GPU source, unchanged."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from functools import lru_cache, reduce
from operator import add
from pathlib import Path
from typing import Any, Callable, Sequence

import attention_bounds as bounds
import torch

import tilelang_ascend as tilelang
import tilelang_ascend.language as T
from tilelang_ascend import compat

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
F32, I32, U8 = torch.float32, torch.int32, torch.uint8


@dataclass(frozen=True)
class Case:
    """One launch. `goal`: the share of the bound it should reach, or `goal_us`."""

    name: str
    kernel: Callable[[], Any]
    """Makes Tile IR."""
    arguments: Callable[[], Sequence[torch.Tensor]]
    """Inputs; of all but tables and lengths only shapes count."""
    out: list[int] | None
    work: bounds.Work
    tasks: int | None = None
    goal: float = 0.6
    goal_us: float | None = None
    by_hand: Callable[[], float] | None = None
    """Simulated time, in us without launch overhead, of the same work written by hand."""


@lru_cache
def example(path: str):
    """A script of examples/, as a module."""
    spec = importlib.util.spec_from_file_location(Path(path).stem, EXAMPLES / f"{path}.py")
    module = importlib.util.module_from_spec(spec)
    with compat.session():
        spec.loader.exec_module(module)
    return module


def case(name: str, path: str, kernel: str, sizes: dict, arguments: Callable, out: list[int] | None, work: bounds.Work, **how) -> Case:
    """A case from `kernel` of the example `path`, called with `sizes`."""
    return Case(name, lambda: getattr(example(path), kernel).get_tir(**sizes), arguments, out, work, **how)


def zeros(*shape: int, dtype=torch.float16) -> torch.Tensor:
    """Memory nobody touches: simulated time does not depend on it."""
    return torch.zeros(shape, dtype=dtype)


def forward(long: bool):
    """Flash attention: sixteen heads of 1024 keys, three of more, or twelve of 32768. Blocks of less than 128 queries may be joined, if their keys are the
    same."""
    rows = [
        (16, 1024, 128, 64, 64, False),
        (16, 1024, 128, 128, 128, True),
        (3, 2048, 64, 64, 64, False),
        (3, 4096, 64, 128, 128, False),
        (3, 4096, 128, 64, 128, False),
        (3, 4096, 128, 128, 128, False),
        (3, 4096, 128, 64, 64, True),
        (3, 4096, 128, 128, 128, True),
    ]
    if long:
        rows = [(12, 32768, 128, tile, tile, causal) for causal in (False, True) for tile in (64, 128)]
    for heads, seq, dim, m, n, causal in rows:
        yield case(
            f"forward {seq}, {heads} heads, d {dim}, {m}x{n}{', causal' if causal else ''}",
            "flash_attention/forward",
            "flash_attention",
            dict(batch=1, heads=heads, kv_heads=heads, seq=seq, dim=dim, causal=causal, block_M=m, block_N=n),
            lambda seq=seq, dim=dim: [zeros(1, heads, seq, dim)] * 3,
            [3],
            bounds.forward(heads, seq, dim, m, n, causal, sharing=None if causal else max(m, 128)),
            goal=0.8,
            by_hand=(lambda seq=seq: _by_hand(heads, seq)) if (heads, dim, m, n, causal) == (3, 128, 128, 128, False) else None,
        )


def _by_hand(heads: int, seq: int) -> float:
    from handwritten import flash_attention

    result = flash_attention.timed(flash_attention.Size(heads, seq, 24))
    return result.simulated_us - result.launch_us


def ragged():
    """Forwards of sequences one below the other, whose lengths are data: what a server has to prefill. The bound knows the lengths."""
    heads, dim = 4, 128
    mixed = (1000, 3000, 500, 2000, 1692)
    for name, lengths, size, causal in (
        ("2 x 4096", (4096, 4096), 128, False),
        ("2 x 4096", (4096, 4096), 128, True),
        ("500 to 3000", mixed, 128, True),
        ("500 to 3000", mixed, 64, True),
    ):
        total = sum(lengths)
        ends = torch.tensor([0, *lengths]).cumsum(0).to(I32)
        yield case(
            f"ragged forward, {name}, {heads} heads, d {dim}, {size}x{size}{', causal' if causal else ''}",
            "flash_attention/varlen",
            "flash_attention_varlen",
            dict(
                batch=len(lengths), heads=heads, dim=dim, total_q=total, total_kv=total, max_q=max(lengths), causal=causal, bM=size, bN=size
            ),
            lambda total=total, ends=ends: [*[zeros(total, heads, dim)] * 3, ends, ends],
            [5],
            reduce(add, (bounds.forward(heads, n, dim, size, size, causal) for n in lengths)),
        )


def decoding():
    """One token a sequence, 8192 keys: heads in groups, pages, latent keys, chosen keys."""
    batch, heads, groups, keys, dim, page = 32, 64, 8, 8192, 128, 128
    for split in (1, 3):
        yield case(
            f"decode 8K keys, {split} part{'s' if split > 1 else ''} and combine",
            "flash_decoding/split_kv",
            "flashattn",
            dict(batch=batch, heads=heads, groups=groups, seq_kv=keys, dim=dim, num_split=split, bN=128),
            lambda split=split: [
                zeros(batch, heads, dim),
                *[zeros(batch, keys, groups, dim)] * 2,
                zeros(batch, keys, groups, dtype=U8),
                zeros(batch, heads, split),
                zeros(batch, heads, split, dim),
            ],
            [6],
            bounds.decode(batch, heads, groups, keys, dim),
            goal=0.85,
        )
    pages = batch * keys // page
    yield case(
        "decode 8K keys, pages of 128",
        "flash_decoding/paged",
        "paged_attention",
        dict(batch=batch, heads=heads, groups=groups, pages=pages, page=page, dim=dim, max_pages=keys // page, bN=128),
        lambda: [
            zeros(batch, heads, dim),
            *[zeros(pages, page, groups, dim)] * 2,
            torch.randperm(pages, generator=torch.Generator().manual_seed(0)).to(I32).view(batch, -1),
            torch.full((batch,), keys, dtype=I32),
        ],
        [5],
        bounds.decode(batch, heads, groups, keys, dim),
        goal=0.85,
    )
    for rows in (64, 128):
        yield case(
            f"MLA decode 8K keys, {rows} heads a block",
            "mla/decode",
            "mla_decode",
            dict(batch=24, heads=128, seq_kv=keys, bN=64, bH=rows),
            lambda: [zeros(24, 128, 512), zeros(24, 128, 64), zeros(24, keys, 1, 512), zeros(24, keys, 1, 64)],
            [4],
            bounds.mla(24, 128, keys, rows=rows),
            goal=0.85,
        )
    page = 64
    yield case(
        f"MLA decode 8K keys, pages of {page}",
        "mla/paged",
        "mla_paged",
        dict(batch=24, heads=128, pages=24 * keys // page, page=page, max_pages=keys // page, bN=64, bH=64),
        lambda page=page: [
            zeros(24, 128, 512),
            zeros(24, 128, 64),
            zeros(24 * keys, 1, 512),
            zeros(24 * keys, 1, 64),
            torch.randperm(24 * keys // page, generator=torch.Generator().manual_seed(0)).to(I32).view(24, -1),
            torch.full((24,), keys, dtype=I32),
        ],
        [6],
        bounds.mla(24, 128, keys, rows=64),
        goal=0.85,
    )
    for rows in (16, 64):
        chosen = torch.randperm(1 << 16, generator=torch.Generator().manual_seed(0))[:2048].to(I32)
        yield case(
            f"sparse MLA, 2048 of 64K keys, {rows} heads a block",
            "sparse_attention/gathered",
            "sparse_mla",
            dict(batch=1, seq=1, seq_kv=1 << 16, heads=128, dim=512, tail=64, topk=2048, BI=64, block_H=rows),
            lambda: [zeros(1, 1, 128, 576), zeros(1, 1 << 16, 1, 576), chosen.view(1, 1, 1, -1)],
            [3, 4],
            bounds.sparse_mla(1, 128, 2048, rows=rows),
            tasks=128 // rows,
            goal_us=99,
        )


def backward():
    """Gradients of flash attention, 3 heads of queries."""
    for dim, m, n, groups, causal in (
        (128, 64, 64, 1, False),
        (128, 64, 128, 1, False),
        (128, 128, 32, 3, False),
        (64, 128, 128, 1, False),
        (128, 64, 64, 1, True),
    ):
        kv, sums = 3 // groups, {} if groups == 1 else {"dtype": F32}
        yield case(
            f"backward 4096, d {dim}, {m}x{n}{', one head of keys' if groups > 1 else ''}{', causal' if causal else ''}",
            "flash_attention/backward",
            "backward",
            dict(batch=1, heads=3, seq=4096, dim=dim, bM=m, bN=n, groups=groups, causal=causal),
            lambda dim=dim, kv=kv, sums=sums: [
                zeros(1, 3, 4096, dim),
                *[zeros(1, kv, 4096, dim)] * 2,
                zeros(1, 3, 4096, dim),
                *[zeros(1, 3, 4096, dtype=F32)] * 2,
                zeros(1, 3, 4096, dim, dtype=F32),
                zeros(1, kv, 4096, dim, **sums),
                zeros(1, kv, 4096, dim, **sums),
            ],
            None,
            bounds.backward(3, 4096, dim, causal=causal),
            goal=0.7,
        )


def recurrences():
    """Chunks of linear attention, gated delta rule and Mamba2."""
    seq, heads, dim, chunk = 2048, 48, 128, 64
    chunks = seq // chunk * heads
    tokens, gates = (1, seq, heads, dim), (1, seq, heads)
    sizes = dict(batch=1, seq=seq, heads=heads, BS=chunk)
    wide = dict(sizes, dim_k=dim, dim_v=dim, bV=128)
    folder, rule = "linear_attention/", "linear_attention/gated_delta_rule"
    yield case(
        "linear attention",
        folder + "chunks",
        "linear_attention",
        dict(batch=1, seq=seq, heads=heads, dim_k=dim, dim_v=dim, chunk=chunk, bK=dim, bV=dim),
        lambda: [*[zeros(*tokens)] * 3, zeros(*tokens, dtype=F32), zeros(1, heads, dim, dim, dtype=F32)],
        None,
        bounds.linear_attention(heads, seq, chunk, dim, dim),
        tasks=heads,
    )
    yield case(
        "delta rule: K K^T",
        rule,
        "delta_kkt",
        dict(sizes, dim=dim, bK=128),
        lambda: [zeros(*tokens), zeros(*gates), zeros(*gates, dtype=F32)],
        [3],
        bounds.delta_kkt(chunks, chunk, dim),
    )
    yield case(
        "delta rule: inverse",
        rule,
        "delta_inverse",
        sizes,
        lambda: [zeros(*gates, chunk, dtype=F32)],
        [1],
        bounds.delta_inverse(chunks, chunk),
    )
    yield case(
        "delta rule: W and U",
        rule,
        "delta_wy",
        dict(wide, bK=128),
        lambda: [*[zeros(*tokens)] * 2, zeros(*gates), zeros(*gates, dtype=F32), zeros(*gates, chunk)],
        [5, 6],
        bounds.delta_wy(chunks, chunk, dim, dim),
    )
    yield case(
        "delta rule: states",
        rule,
        "delta_states",
        wide,
        lambda: [*[zeros(*tokens)] * 3, zeros(*gates, dtype=F32), zeros(1, heads, dim, dim)],
        [5, 6, 7],
        bounds.delta_states(heads, seq, chunk, dim, dim),
        tasks=heads,
    )
    yield case(
        "delta rule: outputs",
        rule,
        "delta_output",
        dict(wide, bK=128),
        lambda: [*[zeros(*tokens)] * 3, zeros(1, seq // chunk, heads, dim, dim), zeros(*gates, dtype=F32)],
        [5],
        bounds.delta_output(chunks, chunk, dim, dim),
    )
    batch, heads, dim, state, chunk = 8, 80, 64, 128, 256
    n = seq // chunk
    sizes = dict(batch=batch, seq=seq, chunk=chunk, groups=1, heads=heads, dim=dim, dstate=state, bM=64, bK=64)
    x, steps, by_group = (batch, seq, heads, dim), (batch, heads, n, chunk), (batch, seq, 1, state)
    yield case(
        "Mamba2: states of chunks",
        "mamba/chunk_scan",
        "chunk_state",
        dict(sizes, bN=state),
        lambda: [zeros(*by_group), zeros(*x), *[zeros(*steps)] * 2],
        [4],
        bounds.mamba_state(batch * heads * n, chunk, dim, state, heads),
    )
    yield case(
        "Mamba2: outputs",
        "mamba/chunk_scan",
        "chunk_scan",
        dict(sizes, bN=dim),
        lambda: [
            zeros(batch, n, 1, chunk, chunk),
            zeros(*x),
            *[zeros(*steps)] * 2,
            zeros(*by_group),
            zeros(batch, n, heads, dim, state),
            zeros(heads),
        ],
        [7],
        bounds.mamba_scan(batch * heads * n, chunk, dim, state, heads),
    )


@tilelang.jit(out_idx=[2])
def gemm_softmax(m, n, k, bM, bK, dtype="float16"):
    """Softmax of the rows of A @ B, one tile a row."""

    @T.prim_func
    def main(A: T.Tensor((m, k), dtype), B: T.Tensor((k, n), dtype), C: T.Tensor((m, n), dtype)):
        with T.Kernel(T.ceildiv(m, bM), threads=128) as bx:
            A_shared = T.alloc_shared((bM, bK), dtype)
            B_shared = T.alloc_shared((bK, n), dtype)
            acc = T.alloc_fragment((bM, n), "float32")
            greatest = T.alloc_fragment((bM,), "float32")
            total = T.alloc_fragment((bM,), "float32")
            T.clear(acc)
            for kk in T.Pipelined(T.ceildiv(k, bK), num_stages=2):
                T.copy(A[bx * bM, kk * bK], A_shared)
                T.copy(B[kk * bK, 0], B_shared)
                T.gemm(A_shared, B_shared, acc)
            T.reduce_max(acc, greatest, dim=1)
            for i, j in T.Parallel(bM, n):
                acc[i, j] = T.exp(acc[i, j] - greatest[i])
            T.reduce_sum(acc, total, dim=1)
            for i, j in T.Parallel(bM, n):
                acc[i, j] /= total[i]
            T.copy(acc, C[bx * bM, 0])

    return main


def products():
    """Chains of products, a product and softmax of its rows, fused experts."""
    m, n, k, p = 6144, 4096, 128, 128
    yield case(
        "chained gemm",
        "matmul/chained",
        "chained",
        dict(m=m, n=n, k=k, p=p, bM=128, bN=128, bK=128),
        lambda: [zeros(m, k), zeros(k, n), zeros(n, p)],
        [3],
        bounds.chained_gemm(m, n, k, p, 128),
    )
    yield Case(
        "gemm and softmax of rows",
        lambda: gemm_softmax.get_tir(24576, 256, 1024, 128, 128),
        lambda: [zeros(24576, 1024), zeros(1024, 256)],
        [2],
        bounds.gemm_softmax(24576, 256, 1024, 128),
    )
    tokens, hidden, width, experts, tile = 4096, 2048, 1408, 8, 128
    each = tokens // experts
    sizes = torch.full((experts,), each, dtype=I32)
    offsets = torch.arange(experts, dtype=I32) * each
    tables = [sizes, offsets, offsets, torch.arange(experts, dtype=I32).repeat_interleave(each // tile)]
    how = dict(tokens=tokens, d_hidden=hidden, d_expert=width, experts=experts, blocks=tokens // tile, bM=tile, bN=128, bK=128)
    yield case(
        "fused experts: gate and up",
        "moe/fused",
        "expert_up",
        how,
        lambda: [zeros(tokens, hidden), *[zeros(experts, width, hidden)] * 2, *tables],
        [7],
        bounds.experts_up(tokens, hidden, width, experts, tile, 128),
    )
    yield case(
        "fused experts: down",
        "moe/fused",
        "expert_down",
        how,
        lambda: [zeros(tokens, width), zeros(experts, hidden, width), zeros(tokens), *tables],
        [7],
        bounds.experts_down(tokens, hidden, width, experts, tile, 256),
    )


def all_cases(long: bool = False):
    """Every case, in the order of docs/performance.md; `long`: forward of 32768 keys, too."""
    yield from forward(False)
    if long:
        yield from forward(True)
    for group in (ragged, decoding, backward, recurrences, products):
        yield from group()
