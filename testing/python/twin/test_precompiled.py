"""Units of one process share headers that were read once; nothing but the time it takes may depend on it."""

import subprocess

import pytest

from tilelang_ascend.sim import twin

TEXT = """
#include "kernel_operator.h"
extern "C" __global__ __aicore__ void k([[maybe_unused]] GM_ADDR x) {{
  AscendC::TPipe pipe;
  AscendC::TBuf<AscendC::TPosition::VECCALC> ub;
  pipe.InitBuffer(ub, 4096);
  {body}  // {number}
}}
"""
COPY = "AscendC::LocalTensor<{}> a = ub.Get<{}>(), b = ub.Get<{}>(); AscendC::Abs(a, b, 64);"


@pytest.fixture
def commands(tmp_path, monkeypatch):
    """The command lines of the compiler, in a process that has compiled nothing."""
    monkeypatch.setenv("TILELANG_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(twin, "_units", type(twin._units)())
    called, run = [], subprocess.run

    def record(command, **options):
        called.append(command)
        return run(command, **options)

    monkeypatch.setattr(subprocess, "run", record)
    return called


def build(ctype: str, number: int):
    return twin.build_object(TEXT.format(body=COPY.format(ctype, ctype, ctype), number=number), "k", "c220", "a chip")


def diagnostics(number: int) -> list[str]:
    """What the compiler says is wrong; a precompiled header is not followed by who included it."""
    with pytest.raises(twin.TwinCompileError) as caught:
        build("bool", number)
    return [line for line in str(caught.value).splitlines() if "error:" in line]


def test_later_units_are_compiled_with_what_was_read_before(commands):
    plain = diagnostics(0)
    assert plain and "does not support these data types" in plain[0]
    for number in range(1, twin._PATIENCE):
        build("half", number)
    precompiled = diagnostics(twin._PATIENCE)
    if "Free Software Foundation" not in subprocess.run([twin.find_compiler(), "--version"], capture_output=True, text=True).stdout:
        pytest.skip("only GCC has headers precompiled")
    assert plain == precompiled
    includes = [[part for part in command if part.startswith("-I")] for command in (commands[0], commands[-2])]
    assert len(includes[1]) == len(includes[0]) + 1
    shown = subprocess.run([*commands[-2][:-3], "-H", "-fsyntax-only", *includes[1], "-x", "c++", "-"], input='#include "kernel_operator.h"\n',
                           capture_output=True, text=True)  # fmt: skip
    # GCC marks a precompiled header it uses with "!", one it cannot use with "x".
    assert f"! {includes[1][0].removeprefix('-I')}/kernel_operator.h.gch" in shown.stderr
    assert build("half", twin._PATIENCE + 1).is_file()


def test_units_are_compiled_though_the_precompiled_header_is_gone(commands):
    for number in range(10, 11 + twin._PATIENCE):
        build("half", number)
    folder = twin._precompile(*next(iter(twin._units)))
    if folder is None:
        pytest.skip("only GCC has headers precompiled")
    kept = {path: path.read_bytes() for path in folder.iterdir()}
    try:
        (folder / "kernel_operator.h.gch").write_bytes(b"not what GCC wrote")
        assert build("half", 20).is_file()
        (folder / "kernel_operator.h.gch").unlink()
        assert build("half", 21).is_file()
        (folder / "kernel_operator.h").unlink()
        assert build("half", 22).is_file()
    finally:
        for path, content in kept.items():
            path.write_bytes(content)
