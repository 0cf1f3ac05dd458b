"""Every guard of the twin's headers is shown to fail once."""

import pytest

from tilelang_ascend.sim.twin import TwinCompileError, build_object

BODY = """
#include "kernel_operator.h"
extern "C" __global__ __aicore__ void k([[maybe_unused]] GM_ADDR x) {{
  AscendC::TPipe pipe;
  AscendC::TBuf<AscendC::TPosition::VECCALC> ub;
  pipe.InitBuffer(ub, 4096);
  {body}
}}
"""


def build(body: str, generation: str = "c220"):
    return build_object(BODY.format(body=body), "k", generation, "a chip")


def local(ctype: str, count: int = 3) -> str:
    names = "abc"[:count]
    return " ".join(f"AscendC::LocalTensor<{ctype}> {n} = ub.Get<{ctype}>();" for n in names)


@pytest.mark.parametrize(
    "body, reason",
    [
        (local("bfloat16_t") + "AscendC::Add(a, b, c, 64);", "Add does not support these data types"),
        (local("int8_t") + "AscendC::Mul(a, b, c, 64);", "Mul does not support these data types"),
        (local("int32_t", 2) + "AscendC::Exp(a, b, 64);", "Exp does not support these data types"),
        (
            local("half", 2) + "AscendC::LocalTensor<int64_t> d = ub.Get<int64_t>(); "
            "AscendC::Cast(d, a, AscendC::RoundMode::CAST_RINT, 64);",
            "Cast does not support these data types",
        ),
        ("AscendC::PipeBarrier<PIPE_S>();", "PipeBarrier does not work on the scalar pipe"),
        ("AscendC::SetFlag<AscendC::HardEvent::M_V>(0);", "this pair of pipes has no flags"),
        ("AscendC::CrossCoreSetFlag<4, PIPE_MTE3>(0);", "modes of CrossCoreSetFlag"),
        ("AscendC::CrossCoreSetFlag<2, PIPE_S>(0);", "CrossCoreSetFlag"),
        ("AscendC::MrgSort4Info p{{32, 32, 32, 32}, false, 15, 1}; (void)p;", "no matching function"),
        ("AscendC::SetAtomicAdd<uint32_t>();", "atomic writes know"),
        (local("float", 2) + "AscendC::Adds(a, b, 1.0, 64);", "no matching function"),
        (
            local("float", 2) + "AscendC::Add(a, b, a, 64, 300, AscendC::BinaryRepeatParams{1, 1, 1, 8, 8, 8});",
            "overflow",
        ),
        ("int unused = 3;", "unused variable"),
    ],
)
def test_what_the_api_does_not_have_does_not_compile(body, reason):
    with pytest.raises(TwinCompileError, match=reason):
        build(body)


def test_the_other_generation_has_other_dtypes():
    body = local("bfloat16_t") + "AscendC::Add(a, b, c, 64);"
    assert build(body, "3510").exists()
    with pytest.raises(TwinCompileError, match="chip generation \\(c220\\)"):
        build(body)


def test_diagnostics_count_lines_of_the_text():
    with pytest.raises(TwinCompileError, match="kernel.cpp:7"):
        build("nonsense;")


def test_objects_are_kept_by_content():
    body = "AscendC::PipeBarrier<PIPE_ALL>();"
    first = build(body)
    stamp = first.stat().st_mtime_ns
    assert build(body) == first and first.stat().st_mtime_ns == stamp
    assert build(body, "3510") != first
