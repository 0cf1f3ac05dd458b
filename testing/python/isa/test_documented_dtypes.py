"""Where the documentation of 3510 leaves dtypes out of an arithmetic function, the table, and with it the twin, does so, too."""

import pytest

from tilelang_ascend.isa.table import TABLE

ABSENT = {
    "mul": ("int8", "uint8"),
    "muls": ("int8", "uint8", "uint16", "uint32"),
    "adds": ("uint16", "uint32"),
    "maxs": ("uint16", "uint32"),
    "mins": ("uint16", "uint32"),
}


@pytest.mark.parametrize("form", ("", "_mask"))
@pytest.mark.parametrize("name", ABSENT)
def test_absent_dtypes(name, form):
    record = TABLE[name + form]
    accepted = {dtype for row in record.signatures["3510"] for dtype in row}
    assert accepted.isdisjoint(ABSENT[name])
    assert {"int16", "int32", "float16", "float32"} <= accepted
