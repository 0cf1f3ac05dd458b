"""What the twin's functions take, the public ones take."""

import json
import re
import subprocess
from pathlib import Path

import pytest
from signatures import accepts, functions

from tilelang_ascend.isa import GENERATIONS
from tilelang_ascend.sim import twin

PUBLIC = json.loads((Path(__file__).parent / "public_signatures.json").read_text())
del PUBLIC[""]

NARROWER = {
    "InitBuffer": "a TQue is one of the classes its T stands for",
    "InitConstValue": "U is the element type of the tensor",
    "Fill": "U is the element type of the tensor",
}


def plain(types: list[str]) -> list[str]:
    """Without what the twin's macros make empty; `PrimType` is the class's own T."""
    return [re.sub(r"\b__\w+__ ", "", re.sub(r"\bPrimType\b", "T", t)).replace("const char", "char").strip() for t in types]


@pytest.fixture(scope="module", params=GENERATIONS)
def declared(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("headers")
    for name, text in twin._generated_headers(request.param).items():
        (folder / name).write_text(text)
    (folder / "unit.cpp").write_text('#include "kernel_operator.h"\n')
    root = twin.header_root()
    command = [twin.find_compiler(), "-std=c++17", "-E", "-P", f"-I{root / 'twin' / 'include'}", f"-I{root}", f"-I{folder}", str(folder / "unit.cpp")]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return functions(text[text.index("namespace AscendC") :], PUBLIC)


def more_permissive(declared: dict) -> list[str]:
    out = []
    for name, ours in declared.items():
        public = [plain(p) for rows in PUBLIC[name].values() for p in rows]
        out += [f"{name}({', '.join(s)})" for s in ours if name not in NARROWER and not any(accepts(p, plain(s)) for p in public)]
    return out


def test_every_function_of_the_twin_is_a_public_one(declared):
    assert len(declared) > 80
    assert more_permissive(declared) == []


def test_another_signature_is_noticed():
    text = """
    namespace AscendC {
    template <typename T> inline void Exp(const LocalTensor<T>& dst, const LocalTensor<T>& src, const int32_t& count) {}
    template <typename T> inline void Ln(LocalTensor<T> dst, const LocalTensor<T>& src, const int32_t& count) {}
    template <typename T, typename S> inline void Sqrt(const LocalTensor<T>& dst, const LocalTensor<S>& src, const int32_t& count) {}
    inline void CrossCoreSetFlag(uint16_t flagId, bool late) {}
    """
    assert [s.split("(")[0] for s in more_permissive(functions(text, PUBLIC))] == ["Ln", "Sqrt", "CrossCoreSetFlag"]
