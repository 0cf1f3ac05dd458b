"""Memory of a kernel: NumPy arrays with a dtype of the language and a record of which bytes were written."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import DtypeMismatch, InvalidArgument, UnsupportedConstruct
from ..frontend.annotations import DType
from ..runtime.dtypes import NIBBLES
from .halves import Halves
from .state import InterpretError, current, here
from .values import Fault, Scalar, binary, cast, compare, fit, is_scalar, numpy_dtype, power, scalar

_WORDS = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


class Tile:
    """A buffer: a tensor in GM or a tile on chip.

    Attributes:
        array: the elements.
        written: None if all are defined, else an array of words with all bits set where the element was written; `all_bits` is such a word.
        name, dtype, scope: as in the program; scope is "global" or "chip".
        dims: the shape as the program sees it (dimensions known at launch are scalars of the kernel).
        argument: the caller sees it, so it must not receive undefined elements.
        long: for each dimension whether an int32 cannot number its elements; None if it can all of them.
    """

    is_tile_like = True
    __slots__ = ("array", "written", "name", "_dtype", "scope", "dims", "argument", "reducer", "_shape", "source", "long", "__weakref__")
    __hash__ = object.__hash__

    def __init__(self, array, written, name: str, dtype: str, scope: str, dims=None, argument: bool = False):
        self.array, self.written, self.name, self._dtype, self.scope = array, written, name, dtype, scope
        self.dims = tuple(array.shape) if dims is None else tuple(dims)
        self.argument, self.reducer, self.source = argument, None, None
        self._shape = array.shape
        long = tuple(n >= 1 << 31 or type(d) is Scalar and d.dtype in ("int64", "uint64") for n, d in zip(self._shape, self.dims))
        self.long = long if any(long) else None
        if self.long is not None and current() is not None:
            current().long = True

    @property
    def shape(self):
        return self.dims

    @property
    def dtype(self):
        return DType(self._dtype)

    @property
    def data(self):
        """The storage, for `T.Tensor(shape, dtype, X.data)`."""
        return self

    @property
    def ndim(self):
        return len(self._shape)

    def __len__(self):
        return self._shape[0]

    def __repr__(self):
        shown = np.asarray(self.array) if self.written is None else np.ma.array(_printable(self.array), mask=~self.defined())
        return f"{self.name}: {self._dtype}{list(self._shape)} =\n{shown}"

    def __str__(self):
        return str(np.asarray(self.array) if self.written is None else np.ma.array(_printable(self.array), mask=~self.defined()))

    def __array__(self, dtype=None, copy=None):
        return np.asarray(self.array, dtype)

    def numpy(self) -> np.ndarray:
        """The elements; those nobody wrote hold anything."""
        return np.asarray(self.array)

    def describe(self) -> str:
        """`A (128x32 float16)`"""
        return f"{self.name} ({'x'.join(map(str, self._shape))} {self._dtype})"

    def defined(self) -> np.ndarray:
        """Where elements were written."""
        if self.written is None:
            return np.ones(self._shape, bool)
        return np.asarray(self.written) == self.all_bits

    @property
    def all_bits(self) -> np.unsignedinteger:
        """What is in `written` where an element was."""
        return np.uint8(15) if self._dtype in NIBBLES else _full(self.written)

    # -- elements and regions

    def __getitem__(self, index):
        place = self.place(index)
        if type(place) is Region:
            return place
        x = self.element(place)
        if x.fault is not None and self._is_clipped(place):
            return Scalar(fit(current().safe_values.get(id(self), 0), self._dtype), self._dtype, False, None, (self, place))
        return x

    def __setitem__(self, index, value) -> None:
        place = self.place(index)
        if type(place) is Region:
            if all(e == 1 for e in place.extents) and not is_tile_like_many(value):
                self.store(tuple(place.mins), value)
            else:
                assign_region(place, value)
        elif not self._is_clipped(place):
            self.store(place, value)

    def _is_clipped(self, place) -> bool:
        """What lies outside of a tensor in GM reads as zero, or as its safe value, and is not stored."""
        if self.scope != "global" or current() is None or type(place) is Fault:
            return False
        return any(not 0 <= i < n for i, n in zip(place, self._shape))

    def place(self, index):
        """Element index (a tuple of numbers, or a Fault) or Region for what is in the brackets."""
        items = index if type(index) is tuple else (index,)
        rank = len(self._shape)
        if len(items) == rank:
            out = []
            for k, i in enumerate(items):
                kind = type(i)
                if kind is Scalar:
                    if i.fault is not None:
                        return i.fault
                    if i.dtype.startswith(("int", "uint", "bool")):
                        if i.whole is not None and self.long is not None and self.long[k]:
                            out.append(i.whole)
                        else:
                            out.append(i.value + self._shape[k] if i.literal and i.value < 0 else int(i.value))
                        continue
                elif kind is int:
                    out.append(i + self._shape[k] if i < 0 else i)
                    continue
                elif i is Ellipsis or kind is slice:
                    return self._region(items)
                number = self._one_index(i, k)
                if type(number) is Fault:
                    return number
                out.append(number)
            return tuple(out)
        return self._region(items)

    def _region(self, items):
        rank = len(self._shape)
        items = list(items)
        at = next((k for k, i in enumerate(items) if i is Ellipsis), None)
        if at is not None:
            items[at : at + 1] = [slice(None)] * (rank - len(items) + 1)
        if len(items) > rank:
            raise InvalidArgument(
                f"{self.name} has {rank} dimension{'s' if rank != 1 else ''}, but {len(items)} indices are given",
                at=here(),
                hint=f"its shape is {self._shape}",
            )
        items += [slice(None)] * (rank - len(items))
        mins, extents, soft = [], [], []
        for k, (i, size) in enumerate(zip(items, self._shape)):
            if not isinstance(i, slice):
                number = self._one_index(i, k)
                if type(number) is Fault:
                    raise number.error()
                mins.append(number), extents.append(1), soft.append(False)
                continue
            if i.step is not None and int(scalar(i.step).get()) != 1:
                raise UnsupportedConstruct(
                    f"a slice of {self.name} with step {i.step}", at=here(), hint="index with i * step inside `for i in T.Parallel(n)`"
                )
            start = 0 if i.start is None else _checked(self._one_index(i.start, k))
            stop = size if i.stop is None else _checked(self._one_index(i.stop, k))
            known = all(v is None or isinstance(v, int) or (isinstance(v, Scalar) and v.literal) for v in (i.start, i.stop))
            if known and stop - start <= 0 and size:
                raise InvalidArgument(f"the slice {start}:{stop} of {self.name} is empty", at=here())
            mins.append(start), extents.append(max(0, _length(i, start, stop))), soft.append(not known)
        return Region(self, mins, extents, soft)

    def _one_index(self, i, k: int):
        """The index of dimension `k` as a Python integer; literals count from the end when negative."""
        x = scalar(i) if is_scalar(i) else scalar(i, "an index")
        if x.fault is not None:
            return x.fault
        if x.dtype.startswith(("float", "bfloat")):
            raise InvalidArgument(f"an index is {x.dtype}, integers are needed", at=here(), hint="convert it: T.cast(i, 'int32')")
        if x.literal and x.value < 0:
            return int(x.value) + self._shape[k]
        return int(x.number) if self.long is not None and self.long[k] else int(x.value)

    def element(self, index) -> Scalar:
        """The element at `index`, faulty if there is none."""
        if type(index) is Fault:
            return Scalar(0, self._dtype, fault=index.computed())
        for i, n in zip(index, self._shape):
            if not 0 <= i < n:
                return Scalar(0, self._dtype, fault=self._outside(index, "a read"), origin=(self, index))
        if self.written is not None and self.written[index] != self.all_bits:
            return Scalar(0, self._dtype, fault=self._undefined(index), origin=(self, index))
        value = self.array[index]
        value = value.item() if self.array.dtype.kind != "V" else float(value)
        return Scalar(value if type(value) in (int, float, bool) else float(value), self._dtype, False, None, (self, index))

    def _outside(self, index, what: str) -> Fault:
        return Fault(f"{what} of {self.name}{list(index)}, which is outside of its shape {list(self._shape)}")

    def _undefined(self, index) -> Fault:
        where = "" if self.scope == "global" else ", which is memory of this block that holds anything"
        return Fault(f"a read of {self.name}{list(index)}, which was never written{where}", undefined=True)

    def store(self, index, value) -> None:
        """``self[index] = value``, converted to the dtype of the tile."""
        x = cast(value if not is_tile_like_many(value) else _one_number(value), self._dtype)
        if type(index) is Fault:
            raise index.error()
        for i, n in zip(index, self._shape):
            if not 0 <= i < n:
                raise self._outside(index, "a store").error()
        if x.fault is not None:
            # Undefined elements may be moved around on chip, as a copy of a whole tile does.
            if not (x.fault.copied and x.fault.undefined) or self.argument:
                raise x.fault.error()
            if self.written is not None:
                self.written[index] = 0
            return
        self.array[index] = x.value
        if self.written is not None:
            self.written[index] = self.all_bits


_FULL = {1: 0xFF, 2: 0xFFFF, 4: 0xFFFF_FFFF, 8: 0xFFFF_FFFF_FFFF_FFFF}


def _full(words: np.ndarray):
    return words.dtype.type(_FULL[words.dtype.itemsize])


def _printable(array):
    return np.asarray(array) if array.dtype.kind in "fiub" else array.astype(np.float32)


def _checked(number):
    if type(number) is Fault:
        raise number.error()
    return number


def _length(i: slice, start: int, stop: int) -> int:
    """How many elements a slice has: a difference, which wraps, so that `c : c + 16` has 16 whatever c is."""
    ends = [Scalar(n, scalar(v).dtype) if is_scalar(v) and type(v) is not int else n for n, v in ((stop, i.stop), (start, i.start))]
    if all(type(n) is int for n in ends):
        return stop - start
    length = binary("-", *ends)
    return cast(length, length.dtype.removeprefix("u")).value


def is_tile_like_many(value) -> bool:
    """True for whole buffers and for slices."""
    return isinstance(value, (Tile, Region))


def _one_number(value):
    if isinstance(value, Region) and all(e == 1 for e in value.extents):
        return value.load_scalar("the stored value")
    raise DtypeMismatch(
        f"the stored value is a tile ({value.describe()}), a scalar is needed here",
        at=here(),
        hint="index one element of it inside `for i, j in T.Parallel(...)`",
    )


class Region:
    """A slice of a tile: `mins` and `extents` per dimension; `soft` where the extent was computed while the kernel runs."""

    is_tile_like = True
    __slots__ = ("tile", "mins", "extents", "soft", "kind")

    def __init__(self, tile: Tile, mins, extents, soft=None, kind: str = "slice"):
        self.tile, self.mins, self.extents, self.kind = tile, list(mins), list(extents), kind
        self.soft = [False] * len(self.mins) if soft is None else list(soft)

    @property
    def shape(self):
        return tuple(self.extents)

    @property
    def dtype(self):
        return self.tile.dtype

    def describe(self) -> str:
        """`A (16x32 float16)`"""
        return f"{self.tile.name} ({'x'.join(map(str, self.extents))} {self.tile._dtype})"

    def __repr__(self):
        return f"{self.tile.name}[{', '.join(f'{m}:{m + e}' for m, e in zip(self.mins, self.extents))}] =\n{self.read()[0]}"

    def __getitem__(self, index):
        raise UnsupportedConstruct(
            f"'{self.tile.name}[...]' is already one value and cannot be indexed again",
            at=here(),
            hint="write all indices at once: A[i, j]",
        )

    __setitem__ = None

    def load_scalar(self, what: str = "this value") -> Scalar:
        """The only element."""
        if any(e != 1 for e in self.extents):
            raise DtypeMismatch(
                f"{what} is a tile ({self.describe()}), a scalar is needed here",
                at=here(),
                hint="index one element of it inside `for i, j in T.Parallel(...)`",
            )
        return self.tile.element(tuple(self.mins))

    def _inside(self):
        """(slices of the tile, slices of the region) of what lies inside; parts of on-chip tiles outside are errors."""
        inner, outer = [], []
        for m, e, n in zip(self.mins, self.extents, self.tile._shape):
            low, high = max(m, 0), min(m + e, n)
            if self.tile.scope != "global" and e and (m < 0 or m + e > n):
                raise InterpretError(f"elements {m} to {m + e} of {self.tile.describe()} are used, which has {n} there", at=here())
            high = max(low, high)
            inner.append(slice(low, high)), outer.append(slice(low - m, high - m) if high > low else slice(0, 0))
        return tuple(inner), tuple(outer)

    def read(self):
        """(elements, where they are defined); elements outside of a tensor in GM are zero or its safe value."""
        inner, outer = self._inside()
        array = self.tile.array
        if all(s.stop - s.start == e for s, e in zip(inner, self.extents)):
            out = array[inner].copy()
            return out, None if self.tile.written is None else self._defined(inner)
        session = current()
        safe = session.safe_values.get(id(self.tile), 0) if session else 0
        out = np.full(tuple(self.extents), np.array(safe).astype(array.dtype) if safe else np.zeros((), array.dtype), array.dtype)
        out[outer] = array[inner]
        defined = None
        if self.tile.written is not None:
            defined = np.ones(tuple(self.extents), bool)
            defined[outer] = self._defined(inner)
        return out, defined

    def _defined(self, inner):
        return self.tile.written[inner] == self.tile.all_bits

    def values(self, what: str) -> np.ndarray:
        """The elements, all of which must be defined."""
        out, defined = self.read()
        if defined is not None and not defined.all():
            raise self.undefined(defined, what)
        return out

    def undefined(self, defined, what: str) -> InterpretError:
        """The error for the first element that was never written."""
        place = [int(i) for i in np.argwhere(~defined)[0]]
        index = [m + i for m, i in zip(self.mins, place)]
        count = int((~defined).sum())
        more = f" and {count - 1} other elements" if count > 1 else ""
        return InterpretError(f"{what} reads {self.tile.name}{index}{more}, never written", at=here())

    def write(self, values: np.ndarray, defined=None) -> None:
        """Store elements (already of the dtype); what lies outside of a tensor in GM is dropped."""
        inner, outer = self._inside()
        tile = self.tile
        values = np.broadcast_to(values, tuple(self.extents))
        if tile.argument and defined is not None and not defined[outer].all():
            place = [int(i) for i in np.argwhere(~defined[outer])[0]]
            index = [s.start + i for s, i in zip(inner, place)]
            raise InterpretError(f"an undefined element is stored to {tile.name}{index}", at=here())
        tile.array[inner] = values[outer]
        if tile.written is not None:
            full = tile.all_bits
            tile.written[inner] = full if defined is None else np.where(defined[outer], full, 0).astype(tile.written.dtype)


def assign_region(place: Region, value) -> None:
    """``A[0:16, :] = value``: a copy from a tile, a fill with a number."""
    from . import tileops

    if is_tile_like_many(value):
        tileops.copy(value, place)
    else:
        tileops.fill(place, value)


class Variable:
    """A mutable scalar made by `T.alloc_var`, or an element passed by reference."""

    __slots__ = ("tile", "index")

    def __init__(self, tile: Tile, index=(0,)):
        self.tile, self.index = tile, index

    @property
    def dtype(self):
        return self.tile.dtype

    def load_scalar(self, what: str = "") -> Scalar:
        return self.tile.element(self.index)

    load = load_scalar

    def store(self, value) -> None:
        """Assign, converting to the dtype of the variable."""
        self.tile.store(self.index, value)

    def __getitem__(self, index):
        return self.load()

    def __setitem__(self, index, value):
        self.store(value)

    def __bool__(self):
        return bool(self.load())

    def __index__(self):
        return self.load().__index__()

    def __int__(self):
        return int(self.load())

    def __float__(self):
        return float(self.load())

    def __hash__(self):
        return id(self)

    def __repr__(self):
        return repr(self.load())

    def __str__(self):
        return str(self.load())

    def __format__(self, spec):
        return format(self.load(), spec)

    def __neg__(self):
        return -self.load()

    def __abs__(self):
        return abs(self.load())

    def __invert__(self):
        return ~self.load()


def _variable_operator(op: str, reflected: bool, function):
    def method(self, other):
        x = self.load()
        return function(op, other, x) if reflected else function(op, x, other)

    return method


for _name, _op in (("add", "+"), ("sub", "-"), ("mul", "*"), ("truediv", "/"), ("floordiv", "//"), ("mod", "%"), ("lshift", "<<"),
                   ("rshift", ">>"), ("and", "&"), ("or", "|"), ("xor", "^")):  # fmt: skip
    setattr(Variable, f"__{_name}__", _variable_operator(_op, False, binary))
    setattr(Variable, f"__r{_name}__", _variable_operator(_op, True, binary))
    for _kind in (Region,):  # a slice of one element counts as a number
        setattr(_kind, f"__{_name}__", lambda self, other, op=_op: binary(op, self.load_scalar(f"an operand of '{op}'"), other))
        setattr(_kind, f"__r{_name}__", lambda self, other, op=_op: binary(op, other, self.load_scalar(f"an operand of '{op}'")))
for _name, _op in (("lt", "<"), ("le", "<="), ("gt", ">"), ("ge", ">="), ("eq", "=="), ("ne", "!=")):
    setattr(Variable, f"__{_name}__", _variable_operator(_op, False, compare))
Variable.__pow__ = lambda self, other: power(self.load(), other)
Variable.__rpow__ = lambda self, other: power(other, self.load())


def _whole_tile(op: str):
    def refuse(self, other):
        raise UnsupportedConstruct(
            f"'{op}' on a whole tile ({self.describe()})",
            at=here(),
            hint=f"write `for i, j in T.Parallel(M, N): C[i, j] = A[i, j] {op} B[i, j]`",
        )

    return refuse


for _name, _op in (("add", "+"), ("sub", "-"), ("mul", "*"), ("truediv", "/"), ("matmul", "@")):
    setattr(Tile, f"__{_name}__", _whole_tile(_op))
    setattr(Tile, f"__r{_name}__", _whole_tile(_op))


def allocate(shape, dtype: str, name: str, scope: str, dims=None, argument: bool = False) -> Tile:
    """Fresh memory: NaN, or a pattern of bits where there is none, and nothing written."""
    shape = tuple(shape)
    if dtype in NIBBLES:
        by_rows = scope == "global"
        size = (*shape[:-1], (shape[-1] + 1) // 2) if by_rows else ((int(np.prod(shape)) + 1) // 2,)
        raw, written = np.full(size, 0 if argument else 0x5A, np.uint8), np.zeros(size, np.uint8)
        return Tile(Halves(raw, shape, dtype, by_rows), Halves(written, shape, None, by_rows), name, dtype, scope, dims, argument)
    kind = numpy_dtype(dtype)
    raw = np.empty(shape, kind)
    raw.reshape(-1).view(np.uint8)[...] = 0xFF if kind.kind == "f" or dtype.startswith(("bfloat", "float8")) else 0x5A
    if dtype == "bool":
        raw.reshape(-1).view(np.uint8)[...] = 1
    return Tile(raw, np.zeros(shape, _WORDS[kind.itemsize]), name, dtype, scope, dims, argument)


def view(tile: Tile, shape, dtype: str, name: str) -> Tile:
    """The same memory in another shape, as another dtype."""
    _check_view(tile, shape, dtype)
    kind = numpy_dtype(dtype)
    array = _seen(tile, tile.array, shape, dtype, kind, dtype)
    written = None if tile.written is None else _seen(tile, tile.written, shape, dtype, _WORDS[kind.itemsize], None)
    return Tile(array, written, name, dtype, tile.scope, argument=tile.argument)


def _check_view(tile: Tile, shape, dtype: str) -> None:
    """Memory that is one element after the other."""
    memory = tile.array.raw if isinstance(tile.array, Halves) else tile.array
    if not memory.flags.c_contiguous:
        raise InvalidArgument(f"{tile.name} has strides: it cannot be seen with another shape", at=here())
    for name, length, kind in ((tile.name, tile._shape[-1], tile._dtype), (f"a view of {tile.name}", shape[-1], dtype)):
        if tile.scope == "global" and kind in NIBBLES and length % 2:
            raise InvalidArgument(
                f"{name} seen in another form: its rows of {length} {kind} end with half a byte of padding",
                at=here(),
                hint="views are of rows with an even length; copy it to a tile",
            )


def _seen(tile: Tile, array, shape, dtype: str, kind, halves: str | None):
    """An array of a tile in another shape: of `kind`, or of halves of bytes that hold `halves`."""
    memory = array.raw.reshape(-1) if isinstance(array, Halves) else array.reshape(-1).view(np.uint8)
    return Halves(memory, shape, halves, tile.scope == "global") if dtype in NIBBLES else memory.view(kind).reshape(shape)


def whole(tile: Tile) -> Region:
    """All of a tile."""
    return Region(tile, (0,) * len(tile._shape), tile._shape, [not isinstance(d, int) for d in tile.dims], "buffer")


def operand(value: Any, what: str) -> Region:
    """One operand of a tile operation. An element is a head address: a region whose `kind` is "head" and whose extents are ones."""
    if isinstance(value, Tile):
        return whole(value)
    if isinstance(value, Region):
        return value
    if isinstance(value, Variable):
        return Region(value.tile, value.index, (1,) * len(value.index), None, "buffer")
    if isinstance(value, Scalar) and value.origin is not None:
        tile, index = value.origin
        return Region(tile, index, (1,) * len(index), None, "head")
    raise InvalidArgument(f"{what} must be a buffer, a slice such as A[0:16, :] or an element such as A[i, j]; got {value!r}", at=here())
