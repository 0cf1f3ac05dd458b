"""Read the TOML files of this folder into `ChipSpec`s."""

from __future__ import annotations

import functools
from pathlib import Path
from types import MappingProxyType

from ..isa.base import Space
from .spec import ON_CHIP, ChipSpec, MemorySpec, Price, Quantity

try:
    import tomllib
except ModuleNotFoundError:  # Python 3.10
    import tomli as tomllib  # type: ignore[no-redef]  # the same module, by its older name

FAMILIES = ("a2", "a3", "a5")
_NUMBER_SECTIONS = ("memory", "ub_banks", "sync", "time")
_HERE = Path(__file__).parent


def merge(base: dict, update: dict) -> dict:
    """`base` with the tables of `update` laid over it; a number replaces a number."""
    out = dict(base)
    for key, value in update.items():
        out[key] = merge(out[key], value) if isinstance(value, dict) and isinstance(out.get(key), dict) else value
    return out


@functools.lru_cache(maxsize=None)
def family_table(family: str) -> dict:
    """The parsed file of a family; ``inherits`` pulls in everything of another one except its SKUs."""
    table = tomllib.loads((_HERE / f"{family}.toml").read_text(encoding="utf-8"))
    if "inherits" not in table:
        return table
    base = {key: value for key, value in family_table(table["inherits"]).items() if key not in ("sku", "aliases")}
    return merge(base, table)


def _quantity(entry) -> Quantity:
    assert isinstance(entry, list) and len(entry) == 2, f"write [value, source], not {entry!r}"
    return Quantity(entry[0], entry[1])


def _prices(table: dict, quantities: dict[str, Quantity]) -> dict[str, Price]:
    prices = {}
    for name, entries in table.items():
        values = {}
        for key, entry in entries.items():
            quantities[f"{name}_{key}"] = _quantity(entry)
            values[key] = quantities[f"{name}_{key}"].value
        fixed = {k: values.pop(k) for k in ("interval_cycles", "latency_cycles", "burst_cycles") if k in values}
        prices[name] = Price(cost_class=name, rates=MappingProxyType({_rate_key(k): v for k, v in values.items()}), **fixed)
    return prices


def _rate_key(key: str) -> str:
    """``bytes_per_cycle`` -> ``bytes``, ``hbm_bytes_per_cycle`` -> ``hbm_bytes``, ``per_cycle_b16`` -> ``b16``, ``fractals_per_cycle_int8`` -> ``int8``."""
    if key.endswith("bytes_per_cycle"):
        return key.removesuffix("_per_cycle")
    head, _, tail = key.partition("per_cycle_")
    assert tail and head in ("", "fractals_"), f"unknown price {key}"
    return tail


def _memory(space: Space, quantities: dict[str, Quantity]) -> MemorySpec:
    value = {part: int(quantities[f"{space.name.lower()}_{part}_bytes"].value) for part in ("capacity", "reserved", "alignment")}
    return MemorySpec(space, value["capacity"], value["reserved"], value["alignment"])


@functools.lru_cache(maxsize=None)
def chips() -> dict[str, ChipSpec]:
    """All SKUs by name."""
    found: dict[str, ChipSpec] = {}
    for family in FAMILIES:
        table = family_table(family)
        for sku, numbers in table["sku"].items():
            found[sku] = build(sku, table, numbers)
    return found


def build(sku: str, table: dict, numbers: dict) -> ChipSpec:
    """The `ChipSpec` of one SKU: the numbers of its family with those of the SKU laid over them."""
    quantities: dict[str, Quantity] = {}
    for section in _NUMBER_SECTIONS:
        quantities.update((key, _quantity(entry)) for key, entry in table[section].items())
    quantities.update((key, _quantity(entry)) for key, entry in numbers.items())
    prices = _prices(table["price"], quantities)
    return ChipSpec(
        name=sku,
        family=table["family"],
        generation=table["generation"],
        l0a_layout=table["l0a_layout"],
        paths=frozenset(table["paths"]),
        quantities=MappingProxyType(quantities),
        memories=MappingProxyType({space: _memory(space, quantities) for space in ON_CHIP}),
        prices=MappingProxyType(prices),
        aliases=(table["family"],) if table["default_sku"] == sku else (),
    )
