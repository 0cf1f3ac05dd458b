"""The table as a whole: order, lookups, consistency of every record."""

import dataclasses
import re
import subprocess
import sys

import pytest

from tilelang_ascend import isa
from tilelang_ascend.arch import chips
from tilelang_ascend.isa import TABLE, Arg, Operand, Pipe, Space, gen_cpp, semantics
from tilelang_ascend.isa.sync import AIC_EVENTS, AIV_EVENTS


def test_opcodes_are_positions_in_the_table():
    assert [isa.opcode(name) for name in TABLE] == list(range(len(TABLE)))
    assert isa.lookup("ascend.mmad") is TABLE["mmad"]


def test_unknown_names_suggest_close_ones():
    with pytest.raises(KeyError, match="copy_gm_to_ub"):
        isa.lookup("copy_gm_to_ubuf")


@pytest.mark.parametrize("record", TABLE.values(), ids=TABLE)
def test_record_is_complete(record):
    assert record.doc and record.reference and record.api
    assert record.signatures, "a record needs at least one generation"
    assert semantics.lookup(record.name) is not None
    assert len(record.attrs) + len(record.arg_names) == record.num_stream_args <= 24, "tla_issue_<n> goes up to 24"
    for generation in record.signatures:
        assert any(record.cost_class in chip.prices for chip in chips().values() if chip.generation == generation)


@pytest.mark.parametrize("record", [r for r in TABLE.values() if r.pipe is Pipe.V], ids=lambda r: r.name)
def test_every_vector_width_of_the_table_is_priced(record):
    for chip in chips().values():
        rates = chip.prices[record.cost_class].rates
        for row in record.signatures.get(chip.generation, ()):
            widest = max(isa.ITEMSIZE[d] for d in row)
            assert "bytes" in rates or f"b{8 * widest}" in rates, f"{chip.name}: {record.name} on {row}"


def test_records_refuse_double_names_and_bad_signatures():
    base = TABLE["add"]
    with pytest.raises(AssertionError, match="repeat"):
        dataclasses.replace(base, args=(*base.args, Arg("count", "int")))
    with pytest.raises(AssertionError, match="wrong length"):
        dataclasses.replace(base, signatures={"c220": (("float32",),)})
    with pytest.raises(AssertionError, match="unknown dtype"):
        dataclasses.replace(base, signatures={"c220": (("float32", "half", "float32"),)})
    with pytest.raises(AssertionError):
        Operand("d", "both", (Space.UB,))


def test_no_bf16_vector_arithmetic_on_c220():
    for name in ("add", "mul", "exp", "adds", "max", "relu", "whole_reduce_sum"):
        assert "bfloat16" not in TABLE[name].dtypes("c220")
    assert "bfloat16" in TABLE["add"].dtypes("3510")
    assert "bfloat16" in TABLE["duplicate"].dtypes("c220")


def test_generations_have_their_own_loads():
    assert TABLE["load_l0a"].runs_on("c220") and not TABLE["load_l0a"].runs_on("3510")
    assert TABLE["load_l0a_v2"].runs_on("3510") and not TABLE["load_l0a_v2"].runs_on("c220")


def test_events_belong_to_the_pipes_of_a_core():
    for core, events in (("aic", AIC_EVENTS), ("aiv", AIV_EVENTS)):
        for event in events:
            assert set(isa.split_event(event)) <= {*isa.CORE_PIPES[core]}, event


def test_header_has_every_opcode_and_changes_with_the_table(tmp_path):
    text = gen_cpp.generate()
    for index, name in enumerate(TABLE):
        assert f"OP_{name} = {index}," in text
    assert re.search(r"kTableHash = 0x[0-9a-f]{16}ULL", text)
    out = tmp_path / "isa_table.h"
    subprocess.run([sys.executable, gen_cpp.__file__, str(out)], check=True)
    assert out.read_text() == text, "run as a plain script it must write the same header"


def test_hash_sees_a_renamed_argument(monkeypatch):
    from tilelang_ascend.isa import table

    before = table.table_hash()
    changed = dataclasses.replace(TABLE["add"], args=(Arg("number", "int"),))
    monkeypatch.setitem(table.TABLE, "add", changed)
    assert table.table_hash() != before


def test_the_table_needs_neither_tvm_nor_numpy():
    code = (
        "import sys; sys.modules['numpy'] = None; sys.modules['tvm'] = None; "
        f"sys.path.insert(0, {str(__import__('pathlib').Path(isa.__file__).parents[1])!r}); import isa; "
        f"print(len(isa.TABLE))"
    )
    out = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert int(out.stdout) == len(TABLE)
