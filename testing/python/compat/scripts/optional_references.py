"""References from libraries that are not there, in all the places a script can mention them."""

from __future__ import annotations

import sys

import flash_attn
import torch
import triton
import triton.language as tl
import vllm._custom_ops as ops
from einops import rearrange, repeat
from fla.ops.common import chunk as fla_chunk

try:
    import cupy
except ImportError:
    cupy = None

try:
    from transformer_engine import pytorch as te

    HAS_TE = True
except Exception:
    HAS_TE = False

assert cupy is None and not HAS_TE

CONFIGS = [triton.Config({"BLOCK": 64}, num_warps=w) for w in (4, 8)]


def pruned():
    return [triton.Config({"BLOCK": 32})]


@triton.autotune(configs=CONFIGS, key=["n"])
@triton.heuristics({"EVEN": lambda args: args["n"] % 64 == 0})
@triton.jit
def triton_kernel(x_ptr, n, BLOCK: tl.constexpr = tl.constexpr(64)):
    tl.store(x_ptr, 0)


@triton.autotune(configs=pruned(), key=["n"])
@triton.jit
def other_kernel(x_ptr, n):
    pass


class Module(fla_chunk.Base):
    pass


def reference(q, k, v) -> tl.tensor | None:
    return flash_attn.flash_attn_func(q, k, v)


def main(what):
    x = torch.ones(2, 3, device="cuda")
    assert not isinstance(x, flash_attn.Tensor)
    if what == "call":
        reference(x, x, x)
    if what == "index":
        triton_kernel[(1,)](x, 2)
    if what == "operand":
        torch.add(x, ops.scale)
    if what == "plain":
        rearrange(x, "a b -> b a")
    if what == "condition":
        assert not repeat
    if what == "class":
        Module()
    if what == "version":
        print(triton.__version__)
    print("all checks passed")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "")
