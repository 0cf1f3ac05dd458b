"""Memory of the Tile IR interpreter: arrays that know which of their elements have a value, and who accesses them.

Every access goes through here: bounds are checked, elements without a value are noticed, and inside a `Parallel` nest whose iterations
run side by side two of them that touch one element are found (`Conflict`).
"""

from __future__ import annotations

import numpy as np

from .reference_numbers import convert, is_float, loaded, numpy_dtype, poison


def _any(where) -> bool:
    """`np.any`, of a bool or an array, in a fraction of the time."""
    return bool(where.any() if isinstance(where, np.ndarray) else where)


def _all(where) -> bool:
    """The same of `np.all`."""
    return bool(where.all() if isinstance(where, np.ndarray) else where)


class InterpreterError(Exception):
    """The program does something Tile IR does not allow (a read or store outside a buffer, an unknown node)."""


class NotHere(InterpreterError):
    """A value that this core does not have."""


class Conflict(Exception):
    """Iterations of a nest depend on each other: they have to run one after the other."""


class Env:
    """What one core knows while it runs.

    values: by slot, a number for a variable, a `Memory` or `Scalar` for a buffer. lanes: iterations of the present nest, 0 outside of
    one; mask: which of them are active, None for all. undefined: whether (in which lanes) the present statement has read an element
    without a value. trace: inside a nest, the accesses to what the nest writes. block, sub: numbers of the block and of the vector core;
    cube, vector: which work is this core's.
    """

    __slots__ = ("values", "lanes", "mask", "undefined", "trace", "undo", "block", "sub", "cube", "vector", "exit")

    def __init__(self, values: list, block: int = 0, sub: int = 0, cube: bool = True, vector: bool = True):
        self.values = values
        self.lanes, self.mask, self.undefined, self.trace, self.undo = 0, None, False, None, None
        self.block, self.sub, self.cube, self.vector = block, sub, cube, vector
        self.exit = None

    def saw_undefined(self, where) -> None:
        """Lanes (an array, or True for all) read an element without a value; inactive ones do not count."""
        if self.mask is not None:
            where = where & self.mask
        if _any(where):
            self.undefined = self.undefined | where

    def fork(self, lanes: int) -> "Env":
        """The same core inside a nest of `lanes` iterations (0: one of them)."""
        env = Env(list(self.values), self.block, self.sub, self.cube, self.vector)
        env.lanes = lanes
        return env


class Scalar:
    """A mutable scalar (`local.var`). In a nest it may hold a value for each lane, if it was declared there (`home`)."""

    __slots__ = ("dtype", "value", "defined", "home")
    versions = False
    name = "a variable"

    def __init__(self, dtype, home: Env):
        self.dtype = dtype
        self.value, self.defined, self.home = loaded(poison((), dtype)), False, home

    def lose(self) -> None:
        """This core does not know the value any more."""
        self.value = None

    def load(self, env: Env):
        if self.value is None:
            raise NotHere("a variable that this core cannot know")
        if env.lanes and self.home is not env:
            env.trace.setdefault(self, "read")
        if self.defined is not True and not _all(self.defined):
            env.saw_undefined(~np.asarray(self.defined))
        return self.value

    def store(self, env: Env, value) -> None:
        known = True if env.undefined is False else ~np.asarray(env.undefined)
        if env.lanes and self.home is not env:
            # What was read before comes from the iteration before.
            if env.mask is not None or np.ndim(value) or np.ndim(known) or env.trace.setdefault(self, "stored") == "read":
                raise Conflict
            env.undo.append((self, None, self.value, self.defined))
        if env.mask is None:
            self.value, self.defined = value, known
        else:
            dtype = np.int64 if self.dtype.kind in "iu" and self.dtype.itemsize < 8 else self.dtype
            old = np.broadcast_to(np.asarray(self.value, dtype if np.ndim(self.value) == 0 else None), (env.lanes,))
            self.value = np.where(env.mask, value, old)
            self.defined = np.where(env.mask, known, self.defined)

    def restore(self, _, value, defined) -> None:
        self.value, self.defined = value, defined

    def load_region(self, mins: list, extents: list, end: tuple | None = None) -> tuple:
        """As that of `Memory`: a variable is a tile of one element. `end` is for tensors."""
        return np.asarray(self.value, self.dtype).reshape([1] * len(extents)), None if self.defined is True else np.zeros(
            [1] * len(extents), bool
        )

    def store_region(self, mins: list, extents: list, values, known=None, end: tuple | None = None) -> None:
        """As that of `Memory`. `end` is for tensors."""
        self.value, self.defined = loaded(np.asarray(convert(values, self.dtype)).reshape(())), known is None or _all(known)

    @property
    def data(self):
        return np.asarray(self.value, self.dtype).reshape(1)


class Memory:
    """One buffer.

    data: its elements. defined: which have a value, None for all. writes: how often each was stored to (tensors only).
    on_chip: accesses outside of it are errors; outside: what the outside of a tensor reads as. clipped: elements outside of a tensor
    are read and left unwritten like the parts of regions that lie outside; otherwise they are errors. versions: the first dimension
    counts copies of the tile.
    """

    __slots__ = ("name", "data", "defined", "writes", "on_chip", "outside", "clipped", "versions")

    def __init__(self, name: str, data, defined=None, writes=None, on_chip=True, outside=0, clipped=False, versions=False):
        self.name, self.data, self.defined, self.writes = name, data, defined, writes
        self.on_chip, self.outside, self.clipped, self.versions = on_chip, outside, clipped, versions

    @property
    def written(self):
        """Which elements the program has stored to."""
        return self.writes > 0

    # --- elements ----------------------------------------------------------------------------------------------------

    def _one(self, index: tuple) -> tuple:
        for i, n in zip(index, self.data.shape):
            if not 0 <= i < n:
                raise InterpreterError(f"{self.name}{[int(i) for i in index]} is outside its shape {self.data.shape}")
        return index

    def _many(self, env: Env, index: list) -> tuple:
        """Index arrays of all lanes; those of lanes that do not run are moved inside."""
        out = []
        for i, n in zip(index, self.data.shape):
            # Seen as unsigned, negative numbers are large ones.
            bad = i.view(np.uint64) >= n if isinstance(i, np.ndarray) and i.dtype == np.int64 else (i < 0) | (i >= n)
            if _any(bad):
                active = bad if env.mask is None else bad & env.mask
                if _any(active):
                    lane = int(np.argmax(np.broadcast_to(active, (env.lanes,))))
                    at = [int(np.broadcast_to(x, (env.lanes,))[lane]) for x in index]
                    raise InterpreterError(f"{self.name}{at} is outside its shape {self.data.shape}")
                i = np.clip(i, 0, n - 1)
            out.append(i)
        return tuple(out)

    def load(self, env: Env, index: list):
        """Value of an element, or of one for each lane."""
        if self.clipped:
            inside = self._contained(index)
            if not _all(inside):
                if not _any(inside):
                    return convert(self.outside, self.data.dtype)
                env.mask, outer = inside if env.mask is None else inside & env.mask, env.mask
                found = self._load(env, index)
                env.mask = outer
                return np.where(inside, found, convert(self.outside, self.data.dtype))
        return self._load(env, index)

    def _contained(self, index: list):
        """Whether an element lies inside, or in which lanes."""
        inside = True
        for i, n in zip(index, self.data.shape):
            inside = inside & ((i >= 0) & (i < n)) if isinstance(i, np.ndarray) else inside & (0 <= i < n)
        return inside

    def _load(self, env: Env, index: list):
        if not env.lanes or not any(isinstance(i, np.ndarray) for i in index):
            index = self._one(tuple(index))
        else:
            index = self._many(env, index)
        if env.trace is not None and self in env.trace:
            env.trace[self].read(env, index)
        if self.defined is not None:
            known = self.defined[index]
            if not _all(known):
                env.saw_undefined(~known)
        return loaded(self.data[index])

    def store(self, env: Env, index: list, value) -> None:
        """Give an element a value, or one for each active lane."""
        if self.clipped:
            inside = self._contained(index)
            if not _all(inside):
                if _any(inside):
                    env.mask, outer = inside if env.mask is None else inside & env.mask, env.mask
                    self._store(env, index, value)
                    env.mask = outer
                return
        self._store(env, index, value)

    def _store(self, env: Env, index: list, value) -> None:
        if not env.lanes:
            index = self._one(tuple(index))
            self.data[index] = convert(value, self.data.dtype)
            self._mark(index, True if env.undefined is False else not env.undefined)
            return
        index = np.broadcast_arrays(*self._many(env, [np.asarray(i) for i in index]), np.empty(env.lanes))[:-1]
        known = True if env.undefined is False else np.broadcast_to(~np.asarray(env.undefined), (env.lanes,))
        value = np.broadcast_to(convert(value, self.data.dtype), (env.lanes,))
        lanes = np.arange(env.lanes)
        if env.mask is not None:
            index, value, lanes = tuple(i[env.mask] for i in index), value[env.mask], lanes[env.mask]
            known = known if known is True else known[env.mask]
        if env.trace is not None:
            env.trace[self].write(index, lanes)
            env.undo.append((self, index, self.data[index], None if self.defined is None else self.defined[index]))
        self.data[tuple(index)] = value
        self._mark(tuple(index), known)

    def update(self, env: Env, index: list, value, function) -> None:
        """Combine elements with values by `function(old, value)`, lane after lane: several lanes may update one element."""
        if self.clipped:
            inside = self._contained(index)
            if not _all(inside):
                if _any(inside):
                    env.mask, outer = inside if env.mask is None else inside & env.mask, env.mask
                    self._update(env, index, value, function)
                    env.mask = outer
                return
        self._update(env, index, value, function)

    def _update(self, env: Env, index: list, value, function) -> None:
        if not env.lanes:
            index = self._one(tuple(index))
            self.data[index] = convert(function(loaded(self.data[index]), value), self.data.dtype)
            self._mark(index, env.undefined is False and (self.defined is None or bool(self.defined[index])))
            return
        index = np.broadcast_arrays(*self._many(env, [np.asarray(i) for i in index]), np.empty(env.lanes))[:-1]
        value = np.broadcast_to(np.asarray(value), (env.lanes,))
        known = np.broadcast_to(~np.asarray(env.undefined), (env.lanes,))
        if env.mask is not None:
            index, value, known = tuple(i[env.mask] for i in index), value[env.mask], known[env.mask]
        index = tuple(index)
        env.undo.append((self, index, self.data[index], None if self.defined is None else self.defined[index]))
        places = np.ravel_multi_index(index, self.data.shape)
        where, first, lane = np.unique(places, return_index=True, return_inverse=True)
        # Sums of 16-bit floats are rounded once, as in which order lanes meet is open; each update of an 8-bit float is.
        narrow = is_float(self.data.dtype) and self.data.itemsize < 4
        total = self.data[tuple(i[first] for i in index)].astype(np.float32 if self.data.itemsize == 2 and narrow else self.data.dtype)
        value = value.astype(np.float32) if narrow else value
        for turn in _turns(places):
            total[lane[turn]] = convert(function(loaded(total[lane[turn]]), value[turn]), total.dtype)
        self.data[tuple(i[first] for i in index)] = convert(total, self.data.dtype)
        if not known.all() and self.defined is None:
            self.defined = np.ones(self.data.shape, bool)
        if self.defined is not None:
            self.defined[tuple(i[~known] for i in index)] = False
        self._count(index, 1)

    def restore(self, index, values, defined) -> None:
        """Take a store back."""
        self.data[index] = values
        self._count(index, -1)
        if defined is not None:
            self.defined[index] = defined

    def _mark(self, index, known) -> None:
        if self.defined is None:
            if known is True or _all(known):
                known = None
            else:
                self.defined = np.ones(self.data.shape, bool)
        if self.defined is not None:
            self.defined[index] = True if known is None else known
        self._count(index, 1)

    def _count(self, index, n: int) -> None:
        if self.writes is None:
            return
        if isinstance(index, tuple) and index and isinstance(index[0], np.ndarray):
            np.add.at(self.writes, index, n)
        else:
            self.writes[index] += n

    # --- regions -----------------------------------------------------------------------------------------------------

    def _inside(self, mins: list, extents: list, end: tuple | None = None) -> list[tuple[int, int]]:
        box = [(max(m, 0), min(m + e, n)) for m, e, n in zip(mins, extents, self.data.shape)]
        if self.on_chip and any((lo, hi) != (m, m + e) for (lo, hi), m, e in zip(box, mins, extents)):
            if all(e > 0 for e in extents):
                raise InterpreterError(f"region {mins} + {extents} is outside {self.name} of shape {self.data.shape}")
        if end is not None:
            d, n = end
            box[d] = (box[d][0], max(box[d][0], min(box[d][1], n)))
        return box

    def load_region(self, mins: list, extents: list, end: tuple | None = None) -> tuple:
        """(elements, which are defined or None for all) of a region. What lies outside of a tensor is defined. `end`: a dimension of a tensor, and
        the index from which on everything is outside."""
        box = self._inside(mins, extents, end)
        sizes = [max(e, 0) for e in extents]
        if all((lo, hi) == (m, m + e) for (lo, hi), m, e in zip(box, mins, extents)):
            here = tuple(slice(lo, hi) for lo, hi in box)
            out, known = self.data[here], None if self.defined is None else self.defined[here]
        else:
            out = np.full(sizes, convert(self.outside, self.data.dtype), self.data.dtype)
            known = None if self.defined is None else np.ones(sizes, bool)
            if all(hi > lo for lo, hi in box):
                part = tuple(slice(lo - m, hi - m) for (lo, hi), m in zip(box, mins))
                here = tuple(slice(lo, hi) for lo, hi in box)
                out[part] = self.data[here]
                if known is not None:
                    known[part] = self.defined[here]
        if self.versions:
            out, known = out[0], None if known is None else known[0]
        return out, (None if known is None or known.all() else known)

    def store_region(self, mins: list, extents: list, values, known=None, end: tuple | None = None) -> None:
        """Write a region (same number of elements); parts outside of a tensor, or behind its `end` as above, are dropped."""
        box, sizes = self._inside(mins, extents, end), [max(e, 0) for e in extents]
        if not all(hi > lo for lo, hi in box):
            return
        values = np.array(convert(values, self.data.dtype)).reshape(sizes)
        part = tuple(slice(lo - m, hi - m) for (lo, hi), m in zip(box, mins))
        here = tuple(slice(lo, hi) for lo, hi in box)
        self.data[here] = values[part]
        self._mark(
            here,
            True if known is None else np.broadcast_to(known, values.size if np.ndim(known) == 1 else np.shape(known)).reshape(sizes)[part],
        )


class Trace:
    """Which lanes of a nest read and write the elements of one buffer."""

    def __init__(self, memory: Memory):
        self.memory = memory
        self.writer = self.reader = None

    def _flat(self, index) -> np.ndarray:
        return np.ravel_multi_index(tuple(np.asarray(i) for i in index), self.memory.data.shape)

    def read(self, env: Env, index) -> None:
        """Lanes read; it is a conflict if another lane has written the element."""
        flat, lanes = np.broadcast_to(self._flat(index), (env.lanes,)), np.arange(env.lanes)
        if env.mask is not None:
            flat, lanes = flat[env.mask], lanes[env.mask]
        if self.writer is not None:
            by = self.writer[flat]
            if _any((by >= 0) & (by != lanes)):
                raise Conflict
        if self.reader is None:
            self.reader = np.full(self.memory.data.size, -1, np.int64)
        before = self.reader[flat]
        self.reader[flat] = lanes
        several = (self.reader[flat] != lanes) | ((before != -1) & (before != lanes))
        self.reader[flat[several]] = -2

    def write(self, index, lanes) -> None:
        """Lanes write; it is a conflict if another lane reads or writes the element."""
        flat = np.broadcast_to(self._flat(index), lanes.shape)
        if self.writer is None:
            self.writer = np.full(self.memory.data.size, -1, np.int64)
        before = self.writer[flat]
        self.writer[flat] = lanes
        if _any(self.writer[flat] != lanes) or _any((before >= 0) & (before != lanes)):
            raise Conflict
        if self.reader is not None:
            by = self.reader[flat]
            if _any((by != -1) & (by != lanes)):
                raise Conflict


def _turns(places: np.ndarray):
    """Lanes in groups, in order, such that no group has two with the same place."""
    order = np.argsort(places, kind="stable")
    starts = np.flatnonzero(np.r_[True, np.diff(places[order]) != 0]) if len(places) else np.zeros(0, int)
    nth = np.arange(len(places)) - np.repeat(starts, np.diff(np.r_[starts, len(places)]))
    by_turn = order[np.argsort(nth, kind="stable")]
    return np.split(by_turn, np.cumsum(np.bincount(nth))[:-1]) if len(places) else []


def declare(name: str, shape: tuple, dtype: str, **more) -> Memory:
    """Fresh memory in which no element has a value."""
    return Memory(name, poison(shape, numpy_dtype(dtype)), np.zeros(shape, bool), **more)
