"""Random `T.Parallel` nests."""

from __future__ import annotations

from .expressions import access, cast, operation
from .numbers import is_float
from .program import Expr, Param, Stmt, Tile, index, literal


class Nests:
    """The part of the generator that makes `T.Parallel` nests; see `generate.Generator` for its state."""

    def nest(self) -> Stmt:
        """A nest of one to three statements on tiles or on GM."""
        self._choose_part()
        targets = [self._target() for _ in range(int(self.pick([1, 1, 1, 1, 2, 3])))]
        if not self.view and self.some(self.mix.gaps):
            targets += self._targets_with_gaps()
        self.exprs.written = {m.name for m, _, _ in targets if isinstance(m, Tile)}
        known = list(self.exprs.locals)
        body = [s for target in targets for s in self._statement(*target)]
        self.exprs.locals = known
        self.exprs.written = set()
        return self._parallel(body)

    def _parallel(self, body) -> Stmt:
        """The nest with these statements; the next one has the whole block again."""
        names, extents = "ijlm"[: self.rank], tuple(self.extents)
        tags = {"partial nest"} if self.extents != self.block else set()
        fills = body[0].fills if self.extents == self.block else None
        self.extents, self.offsets = list(self.block), [0] * self.rank
        head = f"for {', '.join(names)} in T.Parallel({', '.join(map(str, extents))}):"
        variables = ", ".join(names) + ("," if self.rank == 1 else "")
        return Stmt((head,), (f"{variables} = space{extents}",), body=tuple(body), kind="nest", fills=fills, tags=frozenset(tags))

    def _choose_part(self) -> None:
        """Mostly the whole block; sometimes a box inside."""
        if not self.chance(0.12):
            return
        d = int(self.rng.integers(self.rank))
        if self.block[d] < 2:
            return
        cut = int(self.rng.integers(1, self.block[d]))
        self.extents[d] -= cut
        self.offsets[d] = int(self.rng.integers(0, cut + 1))

    def _target(self) -> tuple[Param | Tile, list[Expr], list[str]]:
        """Where a statement stores: its own element of a tile, or an element of a tensor that no other iteration writes."""
        whole = list(range(self.rank))
        if self.view or not self.chance(0.35):
            t = self.tile(whole, self.dtype, "W")
            return t, [self.var(d) for d in whole], []
        dtype = self.dtype if self.chance(0.9) else self.stored_dtype()
        roll, last = self.rng.random(), self.rank - 1
        place = [self.at(d) for d in whole]
        if roll < 0.1 and self.rank > 1:
            order = self.rng.permutation(self.rank).tolist()
            return self.param(order, dtype, "out", fresh=True), [place[d] for d in order], ["transposed store"]
        if roll < 0.18:
            place[-1] = index(f"{self.spelled[last]} - 1 - ({place[-1].tile})")
            return self.param(whole, dtype, "out", fresh=True), place, ["reversed store"]
        if roll < 0.26 and self.spelled[last].isdigit():
            place[-1] = index(f"({place[-1].tile}) * 2")
            return self.param(whole, dtype, "out", fresh=True, stretch=2), place, ["strided store"]
        if roll < 0.34:
            d = int(self.pick([0, last]))
            table = self.param((d,), "int32", "permutation", fresh=True)
            place[d] = Expr("index", f"{table.name}[{{0}}]", f"index(at({table.name}, {{0}}))", (place[d],))
            # Places beyond the end read as index 0, so the tensor's own elements are guarded.
            return self.param(whole, dtype, "out", fresh=True), place, ["scatter", f"guard {d}"]
        return self.param(whole, dtype, "out"), place, ["GM store"]

    def _targets_with_gaps(self) -> list:
        """Places in rows of a tensor that are two or three times as long: together they may fill these, in any order."""
        whole, by = list(range(self.rank)), int(self.pick([2, 3]))
        if not self.spelled[-1].isdigit():
            return []
        p = self.param(whole, self.dtype, "out", fresh=True, stretch=by)
        start = [self.at(d) for d in whole[:-1]]
        gaps = self.rng.permutation(by)[: int(self.pick([2, by]))]
        return [(p, [*start, index(f"({self.at(self.rank - 1).tile}) * {by} + {int(k)}")], ["stores with gaps"]) for k in gaps]

    def _statement(self, memory, place, tags) -> list[Stmt]:
        """What computes and stores one element."""
        guard = [int(t.split()[1]) for t in tags if t.startswith("guard")]
        out: list[Stmt] = []
        if guard:
            d = guard[0]
            test = operation("bool", f"{{0}} < {self.spelled[d]}", "", self.at(d))
            store = self._store(memory, place, self._clamped(self._value()), {"scatter"})
            return [Stmt(("if {0}:",), (), (test,), (store,), kind="mask", tags=frozenset({"guard"}))]
        roll = self.rng.random()
        if roll < 0.14:
            out.append(self._local(self._value()))
            value = self.exprs.value(self.dtype, 1)
        elif roll < 0.2 and self.dtype != "bool":
            out += self._changed_local()
            value = self.exprs.value(self.dtype, 1)
        elif roll < 0.3 and self.dtype != "bool":
            out += self._carried()
            value = self.exprs.leaf(self.dtype)
        elif roll < 0.36 and isinstance(memory, Tile) and self.dtype != "bool":
            return [self._accumulate(memory, place)]
        elif roll < 0.41 and self.dtype in ("float32", "float16", "bfloat16", "int32", "int16", "int8"):
            return [self._atomic()]
        else:
            value = self._value()
        own = self._clamped(value)
        if isinstance(memory, Param) and self.chance(0.1) and memory.dtype == own.dtype == self.dtype != "bool":
            old = access(memory, place)
            own = self._clamped(operation(self.dtype, "({0} + {1})", "", old, own, tags=["update of GM in place"]))
        store = self._store(memory, place, own, tags)
        if self.chance(0.22):
            orelse = [self._store(memory, place, self._clamped(self.exprs.value(self.dtype, 1)), tags)] if self.chance(0.35) else []
            inner = [store]
            if self.chance(0.15):
                inner = [self._mask(self.exprs.condition(), inner)]
            return [*out, self._mask(self.exprs.condition(), inner, orelse)]
        return [*out, store]

    def _value(self) -> Expr:
        dtype = self.dtype if self.chance(0.93) else self.any_dtype()
        return self.exprs.value(dtype, self.pick([1, 1, 2, 2, 3]))

    def _clamped(self, e: Expr) -> Expr:
        """Floats stay small, so that they stay comparable."""
        if not is_float(e.dtype):
            return e
        e = self.exprs.varying(e)
        return operation(e.dtype, "T.max(T.min({0}, 64.0), -64.0)", "maximum(minimum({0}, 64.0), -64.0)", e)

    def _store(self, memory, place, value: Expr, tags) -> Stmt:
        n = len(place)
        slots = ", ".join(f"{{{k}}}" for k in range(n))
        tile_line, numpy_line = f"{memory.name}[{slots}] = {{{n}}}", f"put({memory.name}, ({slots},), {{{n}}}, {{mask}})"
        found = {t for t in tags if not t.startswith("guard")} | ({"converting store"} if value.dtype != memory.dtype else set())
        reads = memory.name in value.text("tile")
        fills = memory.name if isinstance(memory, Tile) and not reads else None
        return Stmt((tile_line,), (numpy_line,), (*place, value), kind="store", fills=fills, tags=frozenset(found))

    def _mask(self, condition: Expr, body, orelse=()) -> Stmt:
        tags = {"if in a nest", *(["else in a nest"] if orelse else [])}
        return Stmt(("if {0}:",), (), (condition,), tuple(body), tuple(orelse), kind="mask", tags=frozenset(tags))

    def _local(self, value: Expr) -> Stmt:
        name = self.fresh("v")
        value = self.exprs.varying(value)
        if is_float(value.dtype):
            value = self._clamped(value)
        self.exprs.locals.append((name, value.dtype))
        return Stmt((f"{name} = {{0}}",), (f"{name} = {{0}}",), (value,), kind="let", defines=name, tags=frozenset({"local scalar"}))

    def _assign(self, name: str, value: Expr, *tags: str) -> Stmt:
        """A later assignment to a local, which a condition may guard."""
        return Stmt((f"{name} = {{0}}",), (f"{name} = where({{mask}}, {{0}}, {name})",), (value,), kind="let", tags=frozenset(tags))

    def _changed_local(self) -> list[Stmt]:
        first = self._declared() if self.some(self.mix.variables) else self._local(self.exprs.pure(self.dtype))
        change = self._assign(first.defines, self._clamped(self.exprs.varying(self.exprs.value(self.dtype, 1))), "local changed under if")
        return [first, self._mask(self.exprs.condition(), [change])]

    def _loop(self, body) -> Stmt:
        n = int(self.pick([2, 3]))
        return Stmt((f"for {self.loop_in_nest} in T.serial({n}):",), (f"for {self.loop_in_nest} in range({n}):",),
                    body=tuple(body), kind="loop", tags=frozenset({"serial loop in a nest"}))  # fmt: skip

    def _carried(self) -> list[Stmt]:
        """A local that a serial loop accumulates."""
        first = self._declared() if self.some(self.mix.variables) else self._local(cast(literal("int32", 0), self.dtype))
        name = first.defines
        self.loop_in_nest = "q"
        old = Expr(self.dtype, name, name)
        value = self._clamped(operation(self.dtype, "({0} + {1})", "", old, self.exprs.varying(self.exprs.value(self.dtype, 1))))
        step = self._assign(name, value, "local carried by a loop")
        if self.chance(0.2):
            step = self._mask(self.exprs.condition(), [step])
        loop = self._loop([step])
        self.loop_in_nest = None
        return [first, loop]

    def _accumulate(self, memory: Tile, place) -> Stmt:
        """A serial loop that adds to the own element of a tile."""
        self.loop_in_nest = "q"
        old = access(memory, place)
        value = self._clamped(operation(self.dtype, "({0} + {1})", "", old, self.exprs.varying(self.exprs.value(self.dtype, 1))))
        loop = self._loop([self._store(memory, place, value, {"accumulation in a nest"})])
        self.loop_in_nest = None
        return loop

    def _atomic(self) -> Stmt:
        """An atomic update of an element that several iterations may share."""
        dims = self.some_dims()
        p = self.param(dims, self.dtype, "out", fresh=True)
        kind = self.pick(["add", "add", "max", "min"])
        slots = ", ".join(f"{{{k}}}" for k in range(len(dims)))
        n = len(dims)
        value = self._clamped(self.exprs.varying(self.exprs.value(self.dtype, 1)))
        return Stmt((f"T.atomic_{kind}({p.name}[{slots}], {{{n}}})",),
                    (f'update({p.name}, ({slots},), {{{n}}}, "{kind}", {{mask}}, {tuple(self.extents)})',),
                    (*(self.at(d) for d in dims), value), kind="store", tags=frozenset({f"atomic_{kind} of elements"}))  # fmt: skip
