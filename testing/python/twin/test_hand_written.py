"""Hand-written Ascend C on the machine: queues work as documented, and misuse is found while the kernel runs."""

import numpy as np
import pytest

from tilelang_ascend.arch import get_chip
from tilelang_ascend.sim import machine, twin

CHIP = get_chip("Ascend910B1")
TILE, TILES = 128, 4

ADD_WITH_QUEUES = """
#include "kernel_operator.h"

class Add {
 public:
  __aicore__ inline void Init(GM_ADDR x, GM_ADDR y, GM_ADDR z) {
    const uint32_t first = AscendC::GetBlockIdx() * TILE * TILES;
    xGm.SetGlobalBuffer((__gm__ half*)x + first, TILE * TILES);
    yGm.SetGlobalBuffer((__gm__ half*)y + first, TILE * TILES);
    zGm.SetGlobalBuffer((__gm__ half*)z + first, TILE * TILES);
    pipe.InitBuffer(inX, 2, TILE * sizeof(half));
    pipe.InitBuffer(inY, 2, TILE * sizeof(half));
    pipe.InitBuffer(outZ, 2, TILE * sizeof(half));
  }
  __aicore__ inline void Process() {
    for (int32_t i = 0; i < TILES; i++) {
      CopyIn(i);
      Compute();
      CopyOut(i);
    }
  }

 private:
  __aicore__ inline void CopyIn(int32_t i) {
    AscendC::LocalTensor<half> x = inX.AllocTensor<half>();
    AscendC::LocalTensor<half> y = inY.AllocTensor<half>();
    AscendC::DataCopy(x, xGm[i * TILE], TILE);
    AscendC::DataCopy(y, yGm[i * TILE], TILE);
    inX.EnQue(x);
    inY.EnQue(y);
  }
  __aicore__ inline void Compute() {
    AscendC::LocalTensor<half> x = inX.DeQue<half>();
    AscendC::LocalTensor<half> y = inY.DeQue<half>();
    AscendC::LocalTensor<half> z = outZ.AllocTensor<half>();
    AscendC::Add(z, x, y, TILE);
    outZ.EnQue<half>(z);
    inX.FreeTensor(x);
    inY.FreeTensor(y);
  }
  __aicore__ inline void CopyOut(int32_t i) {
    AscendC::LocalTensor<half> z = outZ.DeQue<half>();
    AscendC::DataCopy(zGm[i * TILE], z, TILE);
    outZ.FreeTensor(z);
  }

  static constexpr uint32_t TILE = 128;
  static constexpr int32_t TILES = 4;
  AscendC::TPipe pipe;
  AscendC::TQue<AscendC::TPosition::VECIN, 2> inX, inY;
  AscendC::TQue<AscendC::TPosition::VECOUT, 2> outZ;
  AscendC::GlobalTensor<half> xGm, yGm, zGm;
};

extern "C" __global__ __aicore__ void add(GM_ADDR x, GM_ADDR y, GM_ADDR z) {
  KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIV_ONLY);
  Add op;
  op.Init(x, y, z);
  op.Process();
}
"""


def run(text: str, arrays, kernel="add", kernel_type="aiv_only", blocks=1):
    program = twin.compile_text(text, kernel, CHIP, kernel_type)
    tensors = [machine.Tensor(a.ctypes.data, a.nbytes, f"t{i}") for i, a in enumerate(arrays)]
    words = [a.ctypes.data for a in arrays]
    return machine.run(CHIP, kernel_type, blocks, program.entries, words, tensors)


def vectors(blocks=1):
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal(TILE * TILES * blocks).astype(np.float16) for _ in range(2))
    return [x, y, np.zeros_like(x)]


def test_a_kernel_with_queues():
    arrays = vectors(blocks=3)
    result = run(ADD_WITH_QUEUES, arrays, blocks=3)
    assert not result.hazards, [h.text() for h in result.hazards]
    np.testing.assert_array_equal(arrays[2], arrays[0] + arrays[1])


# The sum goes from Compute to CopyOut without the queue, so no flag orders the two.
RACY = (
    ADD_WITH_QUEUES.replace("    outZ.EnQue<half>(z);\n", "    kept = z;\n")
    .replace("outZ.DeQue<half>()", "kept")
    .replace("  AscendC::TPipe pipe;", "  AscendC::LocalTensor<half> kept;\n  AscendC::TPipe pipe;")
)


def test_a_forgotten_queue_step_is_found_with_the_line_of_the_text():
    races = [h for h in run(RACY, vectors()).hazards if h.check == "racecheck"]
    line = next(i for i, text in enumerate(RACY.splitlines(), 1) if "DataCopy(zGm" in text)
    assert line in {h.first.line for h in races}


BODY = """
#include "kernel_operator.h"
extern "C" __global__ __aicore__ void k(GM_ADDR x) {{
  AscendC::TPipe pipe;
  AscendC::TBuf<AscendC::TPosition::VECCALC> ub;
  pipe.InitBuffer(ub, 4096);
  AscendC::LocalTensor<float> a = ub.GetWithOffset<float>(512, 0), b = ub.GetWithOffset<float>(512, 2048);
  AscendC::GlobalTensor<float> g;
  g.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(x));
  AscendC::Duplicate(a, 0.0f, 512);
  AscendC::Duplicate(b, 0.0f, 512);
  AscendC::PipeBarrier<PIPE_ALL>();
  {body}
  AscendC::PipeBarrier<PIPE_ALL>();
}}
"""


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    "body, reason",
    [
        (
            "AscendC::DataCopyPad(g, a, AscendC::DataCopyExtParams{5000, 4, 0, 0, 0});",
            "block_count=5000 is outside 0..4095",
        ),
        ("AscendC::SetFlag<AscendC::HardEvent::V_MTE3>(9);", "event_id=9 is outside 0..7"),
        ("AscendC::DataCopy(g, a, 3);", "not a multiple of 32 bytes"),
        ("a = ub.GetWithOffset<float>(513, 2048);", "beyond the end of the TBuf"),
        ("a = ub.GetWithOffset<float>(8, 4);", "not a multiple of 32 bytes"),
        ("AscendC::Duplicate(a[448], 1.0f, 128);", "writes UB bytes [1792, 2304) outside of its tile at UB bytes [0, 2048)"),
        ("AscendC::Duplicate(a[512], 1.0f, 64);", "outside of its tile at UB bytes [0, 2048)"),
        ("AscendC::Duplicate(a.ReinterpretCast<int32_t>()[504], 1, 16);", "outside of its tile at UB bytes [0, 2048)"),
        ("AscendC::Adds(b, a[8], 1.0f, 512);", "reads UB bytes [32, 2080) outside of its tile"),
        ("b[static_cast<uint32_t>(-1)].SetValue(0, 1.0f);", "writes UB bytes [2044, 2048) outside of its tile"),
        ("a.SetValue(600, 1.0f);", "writes UB bytes [2400, 2404) outside of its tile"),
        (
            "AscendC::LocalTensor<float> s(AscendC::TPosition::VECCALC, 64, 8); s.SetValue(8, 1.0f);",
            "outside of its tile at UB bytes [64, 96)",
        ),
        (
            "AscendC::TBuf<AscendC::TPosition::VECCALC> more; pipe.InitBuffer(more, 192512);",
            "InitBuffer: 196608 bytes are in use, the memory has 188416",
        ),
        ("AscendC::WholeReduceMax<float>(a, b, 64, 1, 1, 1, 8);", "only ORDER_ONLY_VALUE"),
        ("AscendC::CrossCoreWaitFlag(16);", "flag_id=16 is outside 0..15"),
        ("KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIC_ONLY);", "does not run on this kind of core"),
        (
            "AscendC::LocalTensor<uint8_t> m = a.ReinterpretCast<uint8_t>(); "
            "AscendC::LocalTensor<int32_t> i = b.ReinterpretCast<int32_t>(); "
            "AscendC::Compare(m, i, i, AscendC::CMPMODE::LT, 64);",
            "compared for equality",
        ),
    ],
)
def test_misuse_is_reported_while_the_kernel_runs(body, reason):
    result = run(BODY.format(body=body), [np.zeros(1024, np.float32)], kernel="k")
    assert any(reason in h.message for h in result.hazards), [h.text() for h in result.hazards]


def test_the_same_kernel_without_misuse_is_clean():
    assert not run(BODY.format(body=""), [np.zeros(1024, np.float32)], kernel="k").hazards


TRANSPOSED = """
#include "kernel_operator.h"

extern "C" __global__ __aicore__ void add(GM_ADDR x, GM_ADDR y) {
  KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIV_ONLY);
  AscendC::GlobalTensor<half> xGm, yGm;
  xGm.SetGlobalBuffer((__gm__ half*)x, 256);
  yGm.SetGlobalBuffer((__gm__ half*)y, 256);
  AscendC::TPipe pipe;
  AscendC::TBuf<AscendC::TPosition::VECCALC> ub;
  pipe.InitBuffer(ub, 4096);
  AscendC::LocalTensor<half> before = ub.GetWithOffset<half>(512, 0), a = ub.GetWithOffset<half>(256, 2048);
  AscendC::LocalTensor<half> b = ub.GetWithOffset<half>(256, 0);
  AscendC::Duplicate(before, static_cast<half>(0.0f), 512);
  AscendC::DataCopy(a, xGm, 256);
  AscendC::PipeBarrier<PIPE_ALL>();
  uint64_t to[16], from[16];
  for (uint64_t i = 0; i < 16; ++i) { to[i] = b.GetPhyAddr() + i * 32; from[i] = a.GetPhyAddr() + i * 32; }
  AscendC::TransDataTo5HD<half>(to, from, AscendC::TransDataTo5HDParams{false, false, 1, 0, 0});
  AscendC::PipeBarrier<PIPE_ALL>();
  AscendC::Muls(b, b, static_cast<half>(2.0f), 256);
  AscendC::PipeBarrier<PIPE_ALL>();
  AscendC::DataCopy(yGm, b, 256);
  AscendC::PipeBarrier<PIPE_ALL>();
}
"""


def test_addresses_belong_to_their_tile():
    """What a transpose writes by addresses in memory that another tile had is defined (seed 20128 of the fuzzer)."""
    x = np.arange(256, dtype=np.float16).reshape(16, 16)
    y = np.zeros_like(x)
    result = run(TRANSPOSED, [x, y])
    assert not result.hazards, result.hazards[0].text()
    np.testing.assert_array_equal(y, 2 * x.T)
