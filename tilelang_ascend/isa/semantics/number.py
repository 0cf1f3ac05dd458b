"""Numbers: one rounding at the end, saturation, round modes. The C++ machine reproduces this bit for bit."""

from __future__ import annotations

import numpy as np

from .memory import np_dtype

FLOATS = ("float16", "bfloat16", "float32", "float64", "float8_e4m3fn", "float8_e5m2")
_FORMATS = {
    "float16": (11, -14), "bfloat16": (8, -126), "float32": (24, -126), "float8_e4m3fn": (4, -6),
    "float8_e5m2": (3, -14),
}  # fmt: skip
"""dtype -> (significand bits with the hidden one, smallest exponent of a normal number)."""


def is_float(dtype: str) -> bool:
    """True for floating-point dtypes."""
    return dtype in FLOATS


def widen(values: np.ndarray) -> np.ndarray:
    """Elements as float64, exactly."""
    return (
        values.astype(np.float32).astype(np.float64) if values.dtype.kind == "V" or values.dtype.itemsize < 4 else values.astype(np.float64)
    )


def integral(values: np.ndarray, mode: str) -> np.ndarray:
    """float64 values rounded to integers by a round mode (`none` = to nearest even)."""
    if mode in ("none", "rint"):
        return np.rint(values)
    if mode == "floor":
        return np.floor(values)
    if mode == "ceil":
        return np.ceil(values)
    if mode == "trunc":
        return np.trunc(values)
    if mode == "odd":
        down = np.trunc(values)
        return np.where((down != values) & (np.mod(down, 2) == 0), down + np.copysign(1, values), down)
    assert mode == "round", mode  # half away from zero
    whole = np.trunc(values)
    return np.where(np.abs(values - whole) >= 0.5, whole + np.copysign(1, values), whole)


def to_float(values: np.ndarray, dtype: str, mode: str = "rint") -> np.ndarray:
    """float64 values rounded once to a float dtype. Overflow becomes infinity (NaN where the format has none) in modes
    that
    round to nearest or away from zero; denormals are kept."""
    if mode in ("none", "rint") and dtype in ("float16", "float32", "float64"):
        with np.errstate(over="ignore"):
            return values.astype(np_dtype(dtype))
    bits, low = _FORMATS[dtype]
    with np.errstate(invalid="ignore", over="ignore"):
        exponent = np.maximum(np.frexp(values)[1] - 1, low)
        unit = np.ldexp(1.0, exponent - (bits - 1))
        rounded = np.where(np.isfinite(values), np.copysign(integral(values / unit, mode) * unit, values), values)
        rounded = _overflow(rounded, values, dtype, mode)
        return rounded.astype(np.float32).astype(np_dtype(dtype))


def _overflow(rounded: np.ndarray, exact: np.ndarray, dtype: str, mode: str) -> np.ndarray:
    import ml_dtypes

    largest = float(ml_dtypes.finfo(np_dtype(dtype)).max)
    beyond = np.isfinite(exact) & (np.abs(rounded) > largest)
    toward_zero = np.full(exact.shape, mode in ("trunc", "odd"))
    if mode in ("floor", "ceil"):
        toward_zero = (exact > 0) == (mode == "floor")
    return np.where(beyond, np.copysign(np.where(toward_zero, largest, np.inf), exact), rounded)


def to_int(values: np.ndarray, dtype: str, mode: str = "rint") -> np.ndarray:
    """float64 values rounded by `mode` to an integer dtype: saturating, NaN becomes 0."""
    info = np.iinfo(np_dtype(dtype))
    whole = integral(np.where(np.isnan(values), 0.0, values), mode)
    high = whole >= float(info.max)
    low = whole <= float(info.min)
    inside = np.where(high | low, 0.0, whole).astype(np.int64 if info.min < 0 else np.uint64).astype(np_dtype(dtype))
    return np.where(high, np_dtype(dtype).type(info.max), np.where(low, np_dtype(dtype).type(info.min), inside))


def convert(values: np.ndarray, source: str, destination: str, mode: str) -> np.ndarray:
    """`cast` of the table. float to the same float dtype rounds to an integral value and turns -0 into +0."""
    if is_float(source) and is_float(destination):
        exact = widen(values)
        if source == destination:
            return (integral(exact, mode) + 0.0).astype(np_dtype(destination))
        return to_float(exact, destination, mode)
    if is_float(source):
        return to_int(widen(values), destination, mode)
    if is_float(destination):
        return _int_to_float(values, destination, mode)
    info = np.iinfo(np_dtype(destination))
    wide = values.astype(object)
    return np.array([min(max(int(v), info.min), info.max) for v in wide], dtype=np_dtype(destination))


def _int_to_float(values: np.ndarray, dtype: str, mode: str) -> np.ndarray:
    """64-bit integers do not fit in a float64: split them so that the only rounding is the last one."""
    if values.dtype.itemsize < 8:
        return to_float(values.astype(np.float64), dtype, mode)
    bits = _FORMATS[dtype][0]
    out = []
    for value in values.tolist():
        shift = max(abs(value).bit_length() - 40, 0)
        kept, lost = divmod(abs(value), 1 << shift)
        sticky = kept | 1 if lost else kept  # 40 bits and a sticky bit round like all 64 while bits + 2 <= 40
        assert bits + 2 <= 40
        out.append(np.copysign(float(sticky) * float(1 << shift), value))
    return to_float(np.array(out, dtype=np.float64), dtype, mode)


def scalar_of(value, dtype: str):
    """A scalar argument in the compute type of a dtype: float64 for floats, the wrapped integer for integers."""
    if is_float(dtype):
        return np.float64(value)
    info = np.iinfo(np_dtype(dtype))
    span = int(info.max) - int(info.min) + 1
    return np_dtype(dtype).type((int(value) - int(info.min)) % span + int(info.min))
