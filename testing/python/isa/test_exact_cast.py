"""Scalars whose type the API deduces a template parameter from."""

import pytest

from tilelang_ascend.isa.text import exact_cast


@pytest.mark.parametrize(
    "text, ctype",
    [("static_cast<int64_t>(a) + 9223372036854775807LL", "int64_t"), ("static_cast<int16_t>(a) + b", "int16_t"), ("a", "int64_t")],
)
def test_what_is_no_cast_as_a_whole_gets_one(text, ctype):
    assert exact_cast(text, ctype) == f"static_cast<{ctype}>({text})"


@pytest.mark.parametrize("text", ["static_cast<int64_t>(a + (b))", "static_cast<int64_t>(9223372036854775807LL)"])
def test_a_cast_stays(text):
    assert exact_cast(text, "int64_t") == text
