"""Attention-class kernels as GPU users write them, against torch: cube and vector cores together, states, ragged data, gathers."""

import attention_cases as cases
import pytest
import strict
import torch

import tilelang_ascend as tilelang

QUICK = {
    "causal, groups, two heads": lambda: cases.forward(1, 4, 64, 64, groups=2, causal=True, lse=True),
    "fewer queries than keys": lambda: cases.forward(1, 1, 40, 64, seq_kv=136, causal=True),
    "window and sinks": lambda: cases.forward(1, 2, 96, 64, causal=True, window=40, sinks=True),
    "bfloat16, ragged tiles": lambda: cases.forward(1, 1, 100, 64, dtype="bfloat16"),
    "ragged, causal": lambda: cases.ragged([40, 1, 33], [60, 70, 33], 2, 64, groups=2, causal=True),
    "backward, groups, causal": lambda: cases.backward(1, 2, 64, 64, groups=2, causal=True),
    "block sparse": lambda: cases.block_sparse(1, 2, 96, 64),
    "gathered keys": lambda: cases.sparse_mla(9, 80, 16, 64, 32, 64),
    "gathered keys, long steps": lambda: cases.sparse_mla(5, 300, 16, 64, 32, 256),
    "gathered keys, backward": lambda: cases.gathered_backward(3, 40, 16, 64, 32, 32),
    "split over keys": lambda: cases.split_kv(1, 16, 1, 128, 64, 2),
    "pages": lambda: cases.paged([70, 33], 16, 2, 64, 64),
    "latent keys": lambda: cases.mla(1, 16, 64, 256, 64),
    "three products": lambda: cases.three_products(50, 70, 40, 33),
    "linear attention": lambda: cases.linear_attention(1, 64, 2, 64, 32),
    "mamba scan": lambda: cases.chunk_scan(1, 64, 64, 1, 2, 32, 32),
    "delta rule, states": lambda: cases.delta_states(1, 64, 2, 64, 32),
    "experts, up": lambda: cases.expert_up([40, 0, 7, 33], 64, 64),
}

SLOW = {
    "plain": lambda: cases.forward(1, 2, 128, 64, lse=True),
    "large tiles": lambda: cases.forward(1, 1, 256, 128, causal=True, bM=128, bN=128),
    "head size 128": lambda: cases.forward(1, 1, 96, 128, causal=True),
    "head sizes 192 and 128": lambda: cases.forward(1, 1, 64, 192, dim_v=128, causal=True),
    "head size 256": lambda: cases.forward(1, 1, 64, 256),
    "head size 512, bfloat16": lambda: cases.forward(1, 1, 72, 512, causal=True, dtype="bfloat16"),
    "other lengths": lambda: cases.forward(2, 1, 72, 64, seq_kv=136),
    "window": lambda: cases.forward(1, 2, 128, 64, causal=True, window=40),
    "ragged": lambda: cases.ragged([40, 7, 65], [40, 7, 65], 1, 64),
    "backward, delta": lambda: cases.backward_delta(1, 2, 64, 64),
    "backward": lambda: cases.backward(1, 2, 64, 64),
    "backward, causal": lambda: cases.backward(1, 1, 96, 64, causal=True),
    "backward, 128 keys a block": lambda: cases.backward(1, 1, 256, 128, bM=128, bN=32),
    "backward, 128 keys a block, groups, causal, bfloat16": lambda: cases.backward(
        1, 2, 256, 128, groups=2, causal=True, dtype="bfloat16", bM=128, bN=32
    ),
    "backward, 128 queries a step, causal": lambda: cases.backward(1, 1, 256, 128, causal=True, bM=64, bN=128),
    "backward, tiles of 128": lambda: cases.backward(1, 1, 384, 128, bM=128, bN=128),
    "native sparse": lambda: cases.native_sparse(16, 48, 64, 2),
    "gathered keys, long steps, 512": lambda: cases.sparse_mla(2, 1100, 64, 512, 64, 1024, BI=64),
    "gathered keys, backward, bfloat16": lambda: cases.gathered_backward(4, 80, 16, 128, 64, 64, dtype="bfloat16"),
    "gathered keys, backward, 512": lambda: cases.gathered_backward(2, 40, 16, 512, 64, 32),
    "gathered keys, backward, own tiles": lambda: cases.gathered_backward(3, 40, 32, 128, 32, 32, reused=False),
    "split over keys, groups": lambda: cases.split_kv(2, 16, 2, 192, 64, 2),
    "split over keys, three parts": lambda: cases.split_kv(1, 8, 2, 192, 64, 3),
    "latent keys, 512": lambda: cases.mla(2, 32, 96, 512, 64),
    "latent keys, 64 heads": lambda: cases.mla(1, 64, 192, 512, 64, bN=64, bH=64),
    "product and softmax": lambda: cases.product_softmax(50, 96, 64),
    "retention": lambda: cases.retention(1, 2, 96, 64, 64),
    "mamba state": lambda: cases.chunk_state(1, 128, 64, 1, 2, 64, 32),
    "mamba scan, chunks": lambda: cases.chunk_scan(1, 128, 64, 1, 2, 64, 32),
    "delta rule, products": lambda: cases.delta_kkt(1, 96, 2, 64, 64),
    "delta rule, inverse": lambda: cases.delta_inverse(1, 96, 2, 64, 64),
    "delta rule, w and u": lambda: cases.delta_wy(1, 96, 2, 64, 64),
    "delta rule, three chunks": lambda: cases.delta_states(1, 96, 2, 64, 64),
    "decay of channels": lambda: cases.delta_states(1, 96, 2, 64, 64, per_channel=True),
    "delta rule, output": lambda: cases.delta_output(1, 96, 2, 64, 64),
    "experts, down": lambda: cases.expert_down([40, 0, 7, 33], 64, 96),
    "scores of keys": lambda: cases.indexer(16, 70, 16, 64),
    "scores of keys, a view": lambda: cases.indexer(16, 70, 16, 64, viewed=True),
}


@pytest.mark.parametrize("name", [*QUICK, *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW)])
@pytest.mark.one_in(9)
def test_as_gpu_users_write_it(name):
    torch.manual_seed(0)
    cases.check((QUICK | SLOW)[name](), lambda kernel, arrays: strict.run(tilelang.compile(kernel), arrays))
