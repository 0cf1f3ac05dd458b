"""A kernel measured in every way there is: profiler, free function, events."""

import torch

import tilelang
import tilelang.language as T
from tilelang.profiler import do_bench


def add(N, block):
    @T.prim_func
    def kernel(A: T.Tensor((N,), "float32"), B: T.Tensor((N,), "float32"), C: T.Tensor((N,), "float32")):
        with T.Kernel(T.ceildiv(N, block), threads=256) as bx:
            for i in T.Parallel(block):
                C[bx * block + i] = A[bx * block + i] + B[bx * block + i]

    return kernel


def time_with_events(fn, n=2):
    starts = [torch.cuda.Event(enable_timing=True) for _ in range(n)]
    ends = [torch.cuda.Event(enable_timing=True) for _ in range(n)]
    flush = torch.empty(1024, dtype=torch.int, device="cuda")
    for start, end in zip(starts, ends):
        flush.zero_()
        start.record()
        fn()
        end.record()
    torch.cuda.synchronize()
    return torch.tensor([s.elapsed_time(e) for s, e in zip(starts, ends)], dtype=torch.float).median().item()


kernel = tilelang.compile(
    add(5000, 1024),
    out_idx=-1,
    target="cuda",
    execution_backend="cython",
    verbose=True,
    pass_configs={tilelang.PassConfigKey.TL_DISABLE_TMA_LOWER: True, "tl.ptxas_register_usage_level": 10},
)
generator = torch.Generator(device="cuda").manual_seed(0)
a, b = torch.randn(5000, device="cuda", generator=generator), torch.randn(5000, device="cuda:0")
c = kernel(a, b)
torch.testing.assert_close(c, a + b)
assert c.is_cuda and c.device == a.device and c.device.type == "cuda"

profiler = kernel.get_profiler(tilelang.TensorSupplyType.Randn)
for backend in ("event", "cupti", "cudagraph"):
    latency = profiler.do_bench(warmup=1, rep=2, backend=backend)
    assert profiler.do_bench(warmup=1, rep=2, backend=backend, quantiles=[0.5, 0.2, 0.8]) == [latency] * 3
    for mode in ("min", "max", "mean", "median"):
        assert profiler.do_bench(n_warmup=1, n_repeat=2, return_mode=mode, backend=backend) == latency
    assert abs(do_bench(lambda: kernel(a, b), warmup=1, rep=2, backend=backend) - latency) < 0.1 * latency
assert profiler.do_bench(lambda x, y: x + y, warmup=1, rep=2) > 0 and do_bench(lambda: a + b, warmup=1, rep=1) > 0
assert time_with_events(lambda: kernel(a, b)) > 0
profiler.assert_allclose(lambda x, y: x + y, rtol=1e-5, atol=1e-5)
profiler.assert_consistent(repeat=2)
with torch.cuda.stream(torch.cuda.Stream()), torch.inference_mode(), torch.autocast("cuda", dtype=torch.float16):
    assert kernel(a, b).dtype == torch.float32
print("all checks passed")
