"""What the twin's functions take, the public ones take."""

import json
import re
import subprocess
from pathlib import Path

import pytest
from signatures import accepts, functions, structs, wider

from tilelang_ascend.isa import GENERATIONS, TABLE
from tilelang_ascend.sim import twin

PUBLIC = json.loads((Path(__file__).parent / "public_signatures.json").read_text())
del PUBLIC[""]
STRUCTS = json.loads((Path(__file__).parent / "public_structs.json").read_text())
del STRUCTS[""]

NOT_STATED = {"MrgSort4Info": "no source states its fields"}

WITHOUT_SIGNATURE = {"lane numbers": "no call: vector additions take its place", "Trap": "no header states it"}

NARROWER = {
    "InitBuffer": "a TQue is one of the classes its T stands for",
    "InitConstValue": "U is the element type of the tensor",
    "Fill": "U is the element type of the tensor",
}


def plain(types: list[str]) -> list[str]:
    """Without what the twin's macros make empty; `PrimType` is the class's own T."""
    return [re.sub(r"\b__\w+__ ", "", re.sub(r"\bPrimType\b", "T", t)).replace("const char", "char").strip() for t in types]


@pytest.fixture(scope="module", params=GENERATIONS)
def preprocessed(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("headers")
    for name, text in twin._generated_headers(request.param).items():
        (folder / name).write_text(text)
    (folder / "unit.cpp").write_text('#include "kernel_operator.h"\n')
    root = twin.header_root()
    command = [
        twin.find_compiler(),
        "-std=c++17",
        "-E",
        "-P",
        f"-I{root / 'twin' / 'include'}",
        f"-I{root}",
        f"-I{folder}",
        str(folder / "unit.cpp"),
    ]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return text[text.index("namespace AscendC") :]


@pytest.fixture
def declared(preprocessed):
    return functions(preprocessed, PUBLIC)


def more_permissive(declared: dict) -> list[str]:
    out = []
    for name, ours in declared.items():
        public = [plain(p) for rows in PUBLIC[name].values() for p in rows]
        out += [f"{name}({', '.join(s)})" for s in ours if name not in NARROWER and not any(accepts(p, plain(s)) for p in public)]
    return out


def test_every_function_of_the_twin_is_a_public_one(declared):
    assert len(declared) > 80
    assert more_permissive(declared) == []


def test_every_api_of_the_table_has_its_public_signatures():
    assert {record.api for record in TABLE.values()} - PUBLIC.keys() == WITHOUT_SIGNATURE.keys()


def test_another_signature_is_noticed():
    text = """
    namespace AscendC {
    template <typename T> inline void Exp(const LocalTensor<T>& dst, const LocalTensor<T>& src, const int32_t& count) {}
    template <typename T> inline void Ln(LocalTensor<T> dst, const LocalTensor<T>& src, const int32_t& count) {}
    template <typename T, typename S> inline void Sqrt(const LocalTensor<T>& dst, const LocalTensor<S>& src, const int32_t& count) {}
    inline void CrossCoreSetFlag(uint16_t flagId, bool late) {}
    """
    assert [s.split("(")[0] for s in more_permissive(functions(text, PUBLIC))] == ["Ln", "Sqrt", "CrossCoreSetFlag"]


def test_structs_have_the_public_fields_in_the_public_order(preprocessed):
    ours = structs(preprocessed)
    assert set(ours) - set(NOT_STATED) == set(STRUCTS)
    assert [fault for name in STRUCTS for fault in wider(name, ours[name], STRUCTS[name])] == []
    assert all(ours[name]["fields"] for name in STRUCTS)
    assert [name for name in STRUCTS if not ours[name]["constructors"]] == ["FixpipeParamsV220"]  # filled field by field


def test_another_struct_is_noticed():
    text = """
    struct BrcbRepeatParams {
      BrcbRepeatParams() = default;
      BrcbRepeatParams(uint16_t rep, uint8_t blk) : dstRepStride(rep), dstBlkStride(blk) {}
      uint16_t dstBlkStride = 1, dstRepStride = 4;
      bool quick = false;
    };
    struct MmadParams {
      MmadParams(uint16_t m_, uint16_t n_) : m(m_), n(n_) {}
      uint16_t m = 0, n = 0, k = 0;
    };
    """
    found = structs(text)
    assert wider("BrcbRepeatParams", found["BrcbRepeatParams"], STRUCTS["BrcbRepeatParams"]) == [
        "BrcbRepeatParams.quick is no public field",
        "BrcbRepeatParams.dstRepStride is 4 by default, not 8",
        "BrcbRepeatParams(dstRepStride, dstBlkStride) is no public constructor",
        "BrcbRepeatParams(dstRepStride, dstBlkStride): dstBlkStride is uint16_t, not uint8_t",
    ]
    assert wider("MmadParams", found["MmadParams"], STRUCTS["MmadParams"]) == ["MmadParams(m, n) is no public constructor"]
