"""Tiles that do not fit: the error names the declaration, shows the table, and the size it suggests does fit."""

import re

import programs
import pytest

from tilelang_ascend.errors import OutOfMemory

CASES = {
    "L0C": lambda size: programs.matmul(1024, 1024, 1024, size, size, 64),
    "UB": lambda size: programs.add_1d(1 << 20, size),
    "L1": lambda size: programs.minicv(256, 256, size, 128, 256),
}
TOO_LARGE = {"L0C": 256, "UB": 32768, "L1": 2048}


@pytest.mark.parametrize("memory", CASES)
def test_error_and_hint(memory):
    with pytest.raises(OutOfMemory) as caught:
        CASES[memory](TOO_LARGE[memory])
    error = caught.value
    text = str(error)
    assert error.message.startswith(f"{memory} overflow: ") and "available on Ascend910B1" in error.message
    assert "alloc_" in text.splitlines()[1] and "^" in text.splitlines()[2]
    assert "versions x bytes" in text and "takes" in text
    better = re.search(rf"(\d+) instead of {TOO_LARGE[memory]}", error.hint)
    assert better, error.hint
    size = int(better.group(1))
    assert size < TOO_LARGE[memory]
    CASES[memory](size)


def test_exactly_full_memory_is_no_error():
    assert programs.matmul(256, 256, 64, 128, 256, 64).artifact.kernel_type == "aic_only"
