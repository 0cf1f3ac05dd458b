"""Names scripts take from the TVM that is part of tilelang, and helpers for 8-bit floats."""

import torch
from tvm import DataType as TvmDataType
from tvm import tirx

import tilelang
import tilelang.language as T
from tilelang import DataType, tvm
from tilelang.autotuner import AutoTuner
from tilelang.language.fp8 import determine_fp8_type, determine_torch_fp8_type


def to_int8(nbit: int, val: tirx.PrimExpr, pos: tirx.PrimExpr, dtype: str):
    assert dtype == T.int8 and val.dtype == T.uint8
    mask = tirx.const((1 << nbit) - 1, T.uint8)
    code = (val >> (pos.astype(T.uint8) * tirx.const(nbit, T.uint8))) & mask
    return tirx.reinterpret(T.int8, code << tirx.const(4, T.uint8)) >> tirx.const(4, T.int8)


def to_bfloat16(nbit: int, val: tvm.tirx.PrimExpr, pos: tirx.PrimExpr, dtype: str):
    mask = tirx.const((1 << nbit) - 1, T.uint16)
    code = (val >> (pos.astype(T.uint16) * tirx.const(nbit, T.uint16))) & mask
    sign, exponent, mantissa = (
        code >> tirx.const(3, T.uint16),
        (code & tirx.const(6, T.uint16)) >> tirx.const(1, T.uint16),
        code & tirx.const(1, T.uint16),
    )
    bits = ((exponent + tirx.const(126, T.uint16) | (sign << tirx.const(8, T.uint16))) << tirx.const(7, T.uint16)) | (
        mantissa << tirx.const(6, T.uint16)
    )
    return tirx.reinterpret("bfloat16", bits)


@tilelang.jit(out_idx=[1, 2], target="cuda -arch=sm_90")
def convert(N, K):
    assert DataType(T.int8).bits == TvmDataType("int8").bits == 8

    @T.prim_func
    def main(B: T.Tensor((N, K // 2), T.uint8), C: T.Tensor((N, K), T.int8), D: T.Tensor((N, K), T.bfloat16)):
        with T.Kernel(N // 16, threads=128) as bx:
            b = T.alloc_fragment((16, K // 2), T.uint8)
            c = T.alloc_fragment((16, K), T.int8)
            d = T.alloc_fragment((16, K), T.bfloat16)
            T.copy(B[bx * 16, 0], b)
            for i, j in T.Parallel(16, K):
                c[i, j] = to_int8(4, b[i, j // 2], j % 2, T.int8)
                d[i, j] = to_bfloat16(4, b[i, j // 2].astype(T.uint16), j % 2, T.bfloat16)
            T.copy(c, C[bx * 16, 0])
            T.copy(d, D[bx * 16, 0])

    return main


@tvm.testing.requires_package("bitblas")
def test_of_a_library_that_is_not_there():
    raise AssertionError("skipped")


def main():
    packed = torch.randint(0, 256, (32, 64), dtype=torch.uint8, device="cuda")
    c, d = convert(32, 128)(packed)
    codes = torch.stack((packed & 15, packed >> 4), -1).reshape(32, 128).to(torch.int32)
    torch.testing.assert_close(c, ((codes ^ 8) - 8).to(torch.int8))
    sizes = torch.tensor([0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0])
    torch.testing.assert_close(d, (sizes[codes & 7] * (1 - 2 * (codes >> 3))).to(torch.bfloat16))

    assert determine_fp8_type() == T.float8_e4m3fn and determine_fp8_type("e5m2") == "float8_e5m2"
    assert determine_torch_fp8_type() is torch.float8_e4m3fn
    assert tvm.target.Target("cuda -arch=sm_90").kind.name == "cuda"
    assert tvm.target.Target({"kind": "llvm"}).kind.name == tvm.target.Target("llvm").kind.name == "llvm"
    AutoTuner.from_kernel(kernel=convert, configs=[]).set_profile_args(backend="cupti")
    print("all checks passed")


if __name__ == "__main__":
    main()
