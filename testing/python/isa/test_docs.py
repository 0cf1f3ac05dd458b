"""docs/isa.md is what the generator writes."""

from pathlib import Path

from tilelang_ascend.isa import TABLE, gen_docs

_PAGE = Path(__file__).resolve().parents[3] / "docs" / "isa.md"


def test_page_is_up_to_date():
    assert _PAGE.read_text(encoding="utf-8") == gen_docs.generate(), "run: python -m tilelang_ascend.isa.gen_docs docs/isa.md"


def test_page_shows_every_record():
    text = gen_docs.generate()
    assert all(f"### `{name}` — " in text for name in TABLE)
