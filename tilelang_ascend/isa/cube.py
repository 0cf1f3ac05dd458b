"""Matrix multiply-accumulate (pipe M)."""

from __future__ import annotations

from .base import Arg, Call, Intrinsic, Operand, Pipe, Space
from .footprints import is_nothing, scaled
from .units import FRACTAL_BYTES

FRACTAL_SIDE = 16


def k0_of(itemsize: int) -> int:
    """Elements along K of one fractal: 32 bytes."""
    return 32 // itemsize


def _ceil_div(value, unit: int):
    return None if value is None else -(-value // unit)


def fractals(call: Call) -> tuple:
    """(m, n, k) of an mmad in fractals; unknown sizes are None."""
    k0 = k0_of(call.itemsize(1))
    return _ceil_div(call["m"], FRACTAL_SIDE), _ceil_div(call["n"], FRACTAL_SIDE), _ceil_div(call["k"], k0)


def _mmad_footprint(call: Call):
    if is_nothing(call, "m", "n", "k"):
        return []
    m, n, k = fractals(call)
    c_direction = "out" if call["cmatrix_init"] == 1 else "inout"
    return [
        (0, c_direction, 0, scaled(m, n, FRACTAL_SIDE * FRACTAL_SIDE * 4)),
        (1, "in", 0, scaled(m, k, FRACTAL_BYTES)),
        (2, "in", 0, scaled(n, k, FRACTAL_BYTES)),
    ]


def _check_mmad(call: Call):
    if call.known("unit_flag") and call["unit_flag"] not in (0, 2, 3):
        return f"unit_flag={call['unit_flag']} is none of 0, 2, 3"
    if call.known("cmatrix_source") and call["cmatrix_source"] != 0:
        return "cmatrix_source=1 (C from the bias table) needs the form with a bias operand"
    if call.known("m") and call["m"] == 1:
        return "m=1 switches the unit to its vector mode, which reads A in another layout; use two rows or more"
    return None


MMAD = Intrinsic(
    name="mmad",
    pipe=Pipe.M,
    api="Mmad",
    cores=("aic",),
    operands=(
        Operand("d", "inout", (Space.L0C,)),
        Operand("a", "in", (Space.L0A,)),
        Operand("b", "in", (Space.L0B,)),
    ),
    args=(
        Arg("m", "int", 0, 4095, "uint16_t"),
        Arg("n", "int", 0, 4095, "uint16_t"),
        Arg("k", "int", 0, 4095, "uint16_t"),
        Arg("unit_flag", "int", 0, 3, "uint8_t"),
        Arg("cmatrix_source", "int", 0, 1, "bool"),
        Arg("cmatrix_init", "int", 0, 1, "bool"),
    ),
    signatures={
        "c220": (
            ("float32", "float16", "float16"),
            ("float32", "bfloat16", "bfloat16"),
            ("float32", "float32", "float32"),
            ("int32", "int8", "int8"),
        ),
        "3510": (
            ("float32", "float16", "float16"),
            ("float32", "bfloat16", "bfloat16"),
            ("float32", "float32", "float32"),
            ("int32", "int8", "int8"),
            *(("float32", a, b) for a in ("float8_e4m3fn", "float8_e5m2") for b in ("float8_e4m3fn", "float8_e5m2")),
        ),
    },
    text="AscendC::Mmad({d}, {a}, {b}, AscendC::MmadParams{{{m}, {n}, {k}, {unit_flag}, {cmatrix_source}, {cmatrix_init}}})",
    cost_class="mmad",
    work_fn=lambda call: scaled(*fractals(call)),
    check_fn=_check_mmad,
    anew_if="cmatrix_init",
    footprint_fn=_mmad_footprint,
    doc="d[m, n] = (cmatrix_init ? 0 : d) + a[m, k] * b[k, n]. d is NZ with 16x16 fractals in L0C, b is Zn; a is Zz "
    "on C220 and Nz on 3510. Work is in fractal products of 16 x 16 x 32 bytes. m = 1 is refused: it is the vector mode, which reads A in "
    "another layout.",
    reference="Mmad, MmadParams (hardware sections 2.1 and 4)",
)

RECORDS = (MMAD,)
