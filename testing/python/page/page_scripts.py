"""Scripts that are profiled."""

ADD = """
import torch
import tilelang_ascend as tilelang
import tilelang_ascend.language as T

@tilelang.jit
def make(N):
    @T.prim_func
    def add_one(A: T.Tensor((N,), "float32")):
        with T.Kernel(T.ceildiv(N, 128), threads=128) as bx:
            for i in T.Parallel(128):
                A[bx * 128 + i] = A[bx * 128 + i] + 1.0
            {inside}
    return add_one

{rest}
"""

ATTENTION = '''
"""Scores times values: both kinds of cores. </script><script>alert("no")</script> <b>'quotes'</b> &amp; <!-- """
import torch
import tilelang_ascend as tilelang
import tilelang_ascend.language as T

@tilelang.jit(out_idx=[3])
def make(N, D):
    @T.prim_func
    def attend(Q: T.Tensor((N, D), "float16"), K: T.Tensor((N, D), "float16"), V: T.Tensor((N, D), "float16"), O: T.Tensor((N, D), "float16")):
        with T.Kernel(T.ceildiv(N, 64), threads=128) as bx:
            q = T.alloc_shared((64, D), "float16")
            k = T.alloc_shared((64, D), "float16")
            v = T.alloc_shared((64, D), "float16")
            s = T.alloc_fragment((64, 64), "float32")
            p = T.alloc_fragment((64, 64), "float16")
            o = T.alloc_fragment((64, D), "float32")
            T.copy(Q[bx * 64, 0], q)
            T.clear(o)
            for i in T.Pipelined(T.ceildiv(N, 64), num_stages=2):
                T.copy(K[i * 64, 0], k)
                T.gemm(q, k, s, transpose_B=True, clear_accum=True)
                for a, b in T.Parallel(64, 64):
                    p[a, b] = T.max(s[a, b], 0.0)  # "</script>" stays text
                T.copy(V[i * 64, 0], v)
                T.gemm(p, v, o)
            T.copy(o, O[bx * 64, 0])
    return attend

torch.manual_seed(0)
q, k, v = (torch.randn(256, 64).half() for _ in range(3))
out = make(256, 64)(q, k, v)
torch.testing.assert_close(out.float(), torch.relu(q.float() @ k.float().T).half().float() @ v.float(), rtol=2e-2, atol=2e-1)
'''
