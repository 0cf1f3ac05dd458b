"""Messages, word for word. Line numbers are counted from the first line of the case.

Set TILELANG_ASCEND_UPDATE_GOLDEN=1 to rewrite the expected texts, then read the difference.
"""

import os
import re
from pathlib import Path

import pytest

from errors.cases import CASES
from tilelang_ascend.errors import TilelangAscendError

GOLDEN = Path(__file__).parent / "golden"


def rendered(case) -> str:
    with pytest.raises(TilelangAscendError) as info:
        case()
    first = case.__code__.co_firstlineno
    text = str(info.value).replace(case.__code__.co_filename, "kernel.py")
    text = re.sub(r"kernel\.py:(\d+):", lambda m: f"kernel.py:{int(m[1]) - first}:", text)
    text = re.sub(r"at line (\d+)", lambda m: f"at line {int(m[1]) - first}", text)
    return re.sub(r"^( *)(\d+) \|", lambda m: f"{int(m[2]) - first:5d} |", text, flags=re.M) + "\n"


@pytest.mark.parametrize("name", sorted(CASES))
def test_message(name):
    text, path = rendered(CASES[name]), GOLDEN / f"{name}.txt"
    if os.environ.get("TILELANG_ASCEND_UPDATE_GOLDEN"):
        GOLDEN.mkdir(exist_ok=True)
        path.write_text(text)
    assert text == path.read_text()


@pytest.mark.parametrize("name", sorted(set(CASES) - {"call_outside_a_kernel"}))
def test_every_message_points_at_the_line_and_says_what_to_do(name):
    text = rendered(CASES[name])
    assert re.match(r"kernel\.py:\d+:\d+: error: ", text) and "^" in text, text


def test_no_golden_file_is_left_over():
    assert {p.stem for p in GOLDEN.glob("*.txt")} == set(CASES)
