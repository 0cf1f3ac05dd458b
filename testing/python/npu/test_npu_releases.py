"""The text by the release of CANN: chosen by target or pass config, the same stream either way, built by the script of the exported folder."""

import ctypes
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from npu_kernels import compiled, product, scale, two_launches
from stand_in_cann import use

from tilelang_ascend.codegen import emit
from tilelang_ascend.errors import DeviceCompileError, TargetError
from tilelang_ascend.isa import TABLE
from tilelang_ascend.runtime.npu.build import options
from tilelang_ascend.sim import twin
from tilelang_ascend.sim.streams import first_difference
from tilelang_ascend.tools.cli import main

sys.path.insert(0, str(Path(__file__).parents[1] / "kernels"))
import strict

KERNELS = {
    "vector": (scale, [np.ones(300, np.float32), np.zeros(300, np.float32)]),
    "cube": (product, [np.ones((32, 32), np.float16), np.ones((32, 32), np.float16), np.zeros((32, 32), np.float32)]),
    "both": (lambda: product(activation=True), [np.ones((32, 32), np.float16)] * 2 + [np.zeros((32, 32), np.float32)]),
    "launches": (two_launches, [np.ones(256, np.float32), np.zeros(256, np.float32)]),
}


@pytest.mark.parametrize(
    "choice",
    [
        {"target": "ascend -cann=9"},
        {"target": {"kind": "ascend", "cann": 9, "chip": "Ascend910B1"}},
        {"pass_configs": {"tl.cann": 9}},
        {"pass_configs": {"cann": 9}, "target": "Ascend910B1"},
        {"pass_configs": {"tl.cann": 9}, "target": "ascend -cann=9"},
    ],
)
def test_target_or_pass_config_choose_the_form(choice):
    text = compiled(scale(), backend="sim", **choice).get_kernel_source()
    assert 'extern "C" __global__ __vector__ void scale_kernel(' in text and "TPipe" not in text
    assert text.index("AscendC::InitSocState();") < text.index("AscendC::LocalTensor<float> ")
    assert "PipeBarrier<PIPE_ALL>();\n}" in text  # the last statement
    before = compiled(scale(), backend="sim").get_kernel_source()
    assert "__aicore__" in before and "GetWithOffset" in before


@pytest.mark.parametrize("major", [8, 9])
def test_scalars_of_a_device_are_those_of_the_twin(major):
    """Without these options `a + b < a` is `b < 0`, and `a * b + c` is rounded once."""
    arithmetic = {"-fwrapv", "-ffp-contract=off"}
    assert arithmetic <= set(twin.FLAGS) & set(options(major, "c220", ["mix_1_2"]))


def test_what_is_no_release_is_refused():
    with pytest.raises(TargetError, match="target option cann is '7'"):
        compiled(scale(), backend="sim", target="ascend -cann=7")
    with pytest.raises(ValueError, match=r"pass_configs\['tl.cann'\] is 10, it takes 8 or 9"):
        compiled(scale(), backend="sim", pass_configs={"tl.cann": 10})
    with pytest.raises(TargetError, match="the target says cann=9, pass_configs say cann=8"):
        compiled(scale(), backend="sim", target="ascend -cann=9", pass_configs={"cann": 8})
    kernel = compiled(scale(), backend="sim", pass_configs={"cann": 8}).retarget("ascend -cann=9")
    assert "__vector__" in kernel.get_kernel_source() and kernel.artifact.options == {"cann": 9}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", KERNELS)
def test_both_forms_issue_the_stream_of_the_program(name):
    make, arrays = KERNELS[name]
    kernel = compiled(make(), out_idx=None, backend="sim", pass_configs={"cann": 9})
    named = {p.name: a.copy() for p, a in zip(kernel.params, arrays)}
    eight, nine = (strict.launch(kernel.artifact, entries(kernel.artifact, cann), named, {})[1] for cann in (8, 9))
    assert not nine.hazards and first_difference(eight.streams, nine.streams) is None
    strict.run(kernel, named)  # the text of the artifact beside the program


def entries(artifact, cann: int, change=lambda text: text) -> list:
    source = emit(artifact.ascend_ir, cann)
    return [twin.compile_text(change(source.text), s.kernel, artifact.chip, s.kind).entries for s in source.signatures]


VECTOR = {r.api for r in TABLE.values() if r.pipe.name == "V"} - {r.api for r in TABLE.values() if r.pipe.name != "V"}


@pytest.mark.parametrize("name, cann", [("both", 8), ("vector", 9)])
def test_the_text_is_right_with_the_barriers_the_compiler_adds(name, cann):
    """bisheng puts barriers between vector instructions unless it is told not to."""
    inserted = []

    def automatic(text):
        text, n = re.subn(rf"^(\s*)(AscendC::(?:{'|'.join(VECTOR)})[<(])", r"\1AscendC::PipeBarrier<PIPE_V>();\n\1\2", text, flags=re.M)
        inserted.append(n)
        return text

    make, arrays = KERNELS[name]
    arrays = [np.random.default_rng(0).standard_normal(a.shape).astype(a.dtype) for a in arrays]
    kernel = compiled(make(), out_idx=None, backend="sim")
    named = {p.name: a.copy() for p, a in zip(kernel.params, arrays)}
    plain, _ = strict.launch(kernel.artifact, entries(kernel.artifact, cann), named, {})
    out, result = strict.launch(kernel.artifact, entries(kernel.artifact, cann, automatic), named, {})
    assert inserted[0] >= 1 and not result.hazards
    assert all(out[name].tobytes() == plain[name].tobytes() for name in out)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("form", [8, 9])
@pytest.mark.parametrize("name", KERNELS)
def test_what_a_board_runs(homes, monkeypatch, name, form):
    make, arrays = KERNELS[name]
    home = use(homes[9], monkeypatch)
    kernel = compiled(make(), pass_configs={"cann": form})
    wanted = compiled(make(), backend="sim")(*arrays[:-1])
    np.testing.assert_array_equal(kernel(*arrays[:-1]), wanted)
    if form == 9:
        use(homes[8], monkeypatch)
        with pytest.raises(DeviceCompileError, match="is in the form of CANN 9, this is CANN 8.1.RC1"):
            kernel(*arrays[:-1])


SCRIPT = """
import torch
from npu_kernels import compiled, scale
compiled(scale(), backend="sim", pass_configs={"cann": FORM})(torch.ones(300))
"""


@pytest.mark.parametrize("form", [8, 9])
def test_the_exported_folder_builds(homes, tmp_path, monkeypatch, form):
    script = tmp_path / "s.py"
    script.write_text(SCRIPT.replace("FORM", str(form)))
    done = CliRunner().invoke(main, ["compile", "-o", str(tmp_path / "out"), str(script)])
    assert done.exit_code == 0, done.output
    folder = tmp_path / "out" / "scale"
    text = (folder / "build.sh").read_text()
    assert "bisheng -xasc --npu-arch=dav-2201" in text
    assert ("bisheng -xcce --cce-aicore-arch=dav-c220-vec" in text) == (form == 8)
    for major, home in homes.items():
        (folder / "kernel.so").unlink(missing_ok=True)
        environment = {"PATH": f"{home.path}/bin:/usr/bin:/bin", "ASCEND_HOME_PATH": str(home.path)}
        built = subprocess.run(["sh", str(folder / "build.sh"), str(major)], env=environment, capture_output=True, text=True)
        if major < form:
            assert built.returncode == 1 and "in the form of CANN 9" in built.stderr
        else:
            assert built.returncode == 0, built.stderr
            assert ctypes.CDLL(str(folder / "kernel.so")).call
    assert subprocess.run(["sh", str(folder / "build.sh")], capture_output=True).returncode == 1
