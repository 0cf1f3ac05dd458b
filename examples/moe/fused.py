"""Fused experts: tokens sorted by expert, gate and up projection with silu, weighted down projection."""

import argparse

import tilelang
import tilelang.language as T
import torch

LOG2E = 1.44269504
F32 = "float32"


@tilelang.jit(out_idx=[7])
def expert_up(tokens, d_hidden, d_expert, experts, blocks, *, dtype="float16", bM=32, bN=32, bK=32, stages=1):

    @T.prim_func
    def main(
        input: T.Tensor((tokens, d_hidden), dtype),
        W_gate: T.Tensor((experts, d_expert, d_hidden), dtype),
        W_up: T.Tensor((experts, d_expert, d_hidden), dtype),
        group_sizes: T.Tensor((experts,), "int32"),
        group_offsets: T.Tensor((experts,), "int32"),
        group_padded_offsets: T.Tensor((experts,), "int32"),
        group_idx_for_bx: T.Tensor((blocks,), "int32"),
        up_logits: T.Tensor((tokens, d_expert), dtype),
    ):
        with T.Kernel(blocks, T.ceildiv(d_expert, bN), threads=128) as (bx, by):
            input_shared = T.alloc_fragment((bM, bK), dtype=dtype)
            W_gate_shared = T.alloc_shared((bN, bK), dtype=dtype)
            W_up_shared = T.alloc_shared((bN, bK), dtype=dtype)
            gate_logits_local = T.alloc_fragment((bM, bN), dtype=F32)
            up_logits_local = T.alloc_fragment((bM, bN), dtype=F32)

            T.use_swizzle(10, enable=True)
            m_start_padded = bx * bM
            cur_group_idx = group_idx_for_bx[bx]
            cur_group_size = group_sizes[cur_group_idx]
            m_start = m_start_padded - group_padded_offsets[cur_group_idx] + group_offsets[cur_group_idx]
            actual_rows = T.max(0, T.min(bM, cur_group_size - (m_start_padded - group_padded_offsets[cur_group_idx])))
            T.clear(gate_logits_local)
            T.clear(up_logits_local)
            for k in T.Pipelined(T.ceildiv(d_hidden, bK), num_stages=stages):
                T.copy(
                    input[m_start : m_start + bM, k * bK : (k + 1) * bK],
                    input_shared,
                    coalesced_width=8,
                )
                T.copy(W_gate[cur_group_idx, by * bN : (by + 1) * bN, k * bK : (k + 1) * bK], W_gate_shared)
                T.gemm(input_shared, W_gate_shared, gate_logits_local, transpose_B=True)
                T.copy(W_up[cur_group_idx, by * bN : (by + 1) * bN, k * bK : (k + 1) * bK], W_up_shared)
                T.gemm(input_shared, W_up_shared, up_logits_local, transpose_B=True)
            for i, j in T.Parallel(bM, bN):
                gate_logits_local[i, j] = gate_logits_local[i, j] * (1.0 / (1.0 + T.exp2(-gate_logits_local[i, j] * LOG2E)))
                up_logits_local[i, j] = up_logits_local[i, j] * gate_logits_local[i, j]
            for i, j in T.Parallel(bM, bN):
                if i < actual_rows:
                    up_logits[m_start + i, by * bN + j] = up_logits_local[i, j]

    return main


@tilelang.jit(out_idx=[7])
def expert_down(tokens, d_hidden, d_expert, experts, blocks, *, dtype="float16", bM=32, bN=32, bK=32, stages=1):

    @T.prim_func
    def main(
        up_logits: T.Tensor((tokens, d_expert), dtype),
        W_down: T.Tensor((experts, d_hidden, d_expert), dtype),
        weights: T.Tensor((tokens,), dtype),
        group_sizes: T.Tensor((experts,), "int32"),
        group_offsets: T.Tensor((experts,), "int32"),
        group_padded_offsets: T.Tensor((experts,), "int32"),
        group_idx_for_bx: T.Tensor((blocks,), "int32"),
        output: T.Tensor((tokens, d_hidden), dtype),
    ):
        with T.Kernel(blocks, T.ceildiv(d_hidden, bN), threads=128) as (bx, by):
            up_logits_shared = T.alloc_fragment((bM, bK), dtype=dtype)
            W_down_shared = T.alloc_shared((bN, bK), dtype=dtype)
            output_local = T.alloc_fragment((bM, bN), dtype=F32)
            m_start_padded = bx * bM
            cur_group_idx = group_idx_for_bx[bx]
            cur_group_size = group_sizes[cur_group_idx]
            m_start = m_start_padded - group_padded_offsets[cur_group_idx] + group_offsets[cur_group_idx]
            actual_rows = T.max(0, T.min(bM, cur_group_size - (m_start_padded - group_padded_offsets[cur_group_idx])))
            T.clear(output_local)
            for k in T.Pipelined(T.ceildiv(d_expert, bK), num_stages=stages):
                T.copy(up_logits[m_start : m_start + bM, k * bK : (k + 1) * bK], up_logits_shared, coalesced_width=8)
                T.copy(W_down[cur_group_idx, by * bN : (by + 1) * bN, k * bK : (k + 1) * bK], W_down_shared)
                T.gemm(up_logits_shared, W_down_shared, output_local, transpose_B=True)
            for i, j in T.Parallel(bM, bN):
                if i < actual_rows:
                    output[m_start + i, by * bN + j] = output_local[i, j] * weights[m_start + i]

    return main


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=[100, 0, 33, 64])
    parser.add_argument("--hidden", type=int, default=128)
    parser.add_argument("--width", type=int, default=192)
    args = parser.parse_args()

    experts, hidden, width, tokens = len(args.sizes), args.hidden, args.width, sum(args.sizes)
    blocks = [-(-n // 32) for n in args.sizes]
    sizes = torch.tensor(args.sizes, device="cuda", dtype=torch.int32)
    counts = torch.tensor(blocks, device="cuda", dtype=torch.int32)
    offsets = (sizes.cumsum(0) - sizes).to(torch.int32)
    padded = ((counts.cumsum(0) - counts) * 32).to(torch.int32)
    group = torch.arange(experts, device="cuda", dtype=torch.int32).repeat_interleave(counts)
    tables = (sizes, offsets, padded, group)

    x = torch.randn(tokens, hidden, device="cuda", dtype=torch.float16)
    gate, up = (torch.randn(experts, width, hidden, device="cuda", dtype=torch.float16) * hidden**-0.5 for _ in range(2))
    down = torch.randn(experts, hidden, width, device="cuda", dtype=torch.float16) * width**-0.5
    weights = torch.rand(tokens, device="cuda", dtype=torch.float16)
    inner = expert_up(tokens, hidden, width, experts, sum(blocks))(x, gate, up, *tables)
    out = expert_down(tokens, hidden, width, experts, sum(blocks))(inner, down, weights, *tables)
    expected = []
    for i, part in enumerate(x.float().split(args.sizes)):
        middle = torch.nn.functional.silu(part @ gate[i].float().T) * (part @ up[i].float().T)
        expected.append(middle @ down[i].float().T)
    torch.testing.assert_close(out.float(), torch.cat(expected) * weights.float()[:, None], rtol=1e-2, atol=1e-2)
    print(f"{tokens} tokens, {experts} experts: matches torch")


if __name__ == "__main__":
    main()
