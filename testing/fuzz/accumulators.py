"""Random reducers, and variables that loops change."""

from __future__ import annotations

from .expressions import access, operation
from .program import Expr, Stmt, Tile, index, literal

UPDATES = {"sum": "add", "max": "max", "min": "min"}
CHANGES = (
    ("({0} + {1})", "({0} + {1})"), ("({0} - {1})", "({0} - {1})"),
    ("T.max({0}, {1})", "maximum({0}, {1})"), ("T.min({0}, {1})", "minimum({0}, {1})"),
)  # fmt: skip
"""How a variable changes: exact on elements of inputs."""


class Accumulators:
    """The part of the generator that accumulates outside of tiles; see `generate.Generator` for its state."""

    # --- reducers ----------------------------------------------------------------------------------------------------

    def reducer(self) -> Stmt:
        """One or two reducers: set, updated in nests, finished, and read by the last statement."""
        if self.dtype == "bool":
            return self.nest()
        parts = [self._reducer() for _ in range(self.pick([1, 1, 1, 2]))]
        self.pending += [self._start(t) for t, _ in parts]
        if self.loop is None and not self.inside and self.chance(0.4):
            before, self.pending, self.loop = self.pending, [], "k"
            nests = [self._updates(parts) for _ in range(self.pick([1, 1, 2]))]
            count = self.pick([2, 3])
            loop = Stmt((f"for k in T.serial({count}):",), (f"for k in range({count}):",), body=(*self.pending, *nests),
                        kind="loop", tags=frozenset({"reducer over a loop"}))  # fmt: skip
            self.pending, self.loop = [*before, loop], None
        else:
            self.pending.append(self._updates(parts))
        return self._result([self._finish(t, dims) for t, dims in parts])

    def _reducer(self) -> tuple[Tile, tuple[int, ...]]:
        """A reducer over some dimensions, mostly not over all."""
        dims = tuple(d for d in range(self.rank) if self.chance(0.4))
        shape = tuple(self.block[d] for d in dims) or (1,)
        t = Tile(f"R{len(self.tiles)}", shape, self.dtype, "reducer", self.pick(["sum", "sum", "max", "min"]))
        self.tiles[t.name] = t
        return t, dims

    def _start(self, t: Tile) -> Stmt:
        tags = frozenset({f"reducer {t.operation}"})
        if self.chance(0.2):
            return Stmt((f"T.reducer_init({t.name}, {{0}})",), (f"fill({t.name}, {{0}})",), (self.exprs.constant(t.dtype),),
                        kind="fill", fills=t.name, tags=tags)  # fmt: skip
        return Stmt((f"T.reducer_init({t.name})",), (f'fill({t.name}, neutral("{t.operation}", "{t.dtype}"))',),
                    kind="fill", fills=t.name, tags=tags)  # fmt: skip

    def _updates(self, parts) -> Stmt:
        """A nest that updates all of the reducers."""
        self._choose_part()
        body = []
        for t, dims in parts:
            place = self._at(dims)
            self.loop_in_nest = "q" if self.chance(0.15) else None
            value = self._clamped(self.exprs.varying(self.exprs.value(self.dtype, self.pick([1, 1, 2]))))
            slots = ", ".join(f"{{{k}}}" for k in range(len(place)))
            n, kind = len(place), UPDATES[t.operation]
            step = Stmt((f"T.reducer_update({t.name}[{slots}], {{{n}}})",),
                        (f'update({t.name}, ({slots},), {{{n}}}, "{kind}", {{mask}}, {tuple(self.extents)})',),
                        (*place, value), kind="store")  # fmt: skip
            step = self._mask(self.exprs.condition(), [step]) if self.chance(0.2) else step
            body.append(self._loop([step]) if self.loop_in_nest else step)
            self.loop_in_nest = None
        return self._parallel(body)

    def _finish(self, t: Tile, dims) -> tuple[Tile, tuple[int, ...]]:
        """T.finalize_reducer; where the result is."""
        if not dims or self.chance(0.5):
            self.pending.append(Stmt((f"T.finalize_reducer({t.name})",), ()))
            return t, dims
        m = self.new_tile(t.shape, t.dtype)
        zeros = ("0, " * len(dims)).strip()
        self.pending.append(Stmt((f"T.finalize_reducer({t.name}, {m.name})",),
                                 (f"copy({m.name}, ({zeros}), {t.name}, ({zeros}), {t.shape})",),
                                 fills=m.name, tags=frozenset({"finalize_reducer into a tile"})))  # fmt: skip
        return m, dims

    def _result(self, read) -> Stmt:
        """A nest that adds results of reducers to what it computes."""
        taken = [m.name for m, _ in read]
        target = self.tile(range(self.rank), self.dtype, "W")
        if target.name in taken:
            target = self.new_tile(self.block, self.dtype)
        self.exprs.written = {target.name}
        value = self.exprs.varying(self.exprs.value(self.dtype, 1))
        for m, dims in read:
            value = operation(self.dtype, "({0} + {1})", "", self._clamped(value), self._clamped(access(m, self._at(dims), "broadcast")))
        self.exprs.written = set()
        return self._parallel([self._store(target, self._at(range(self.rank)), self._clamped(value), set())])

    def _at(self, dims) -> list[Expr]:
        """Indices of the own element of a tile over `dims`; one over none has one element."""
        return [self.var(d) for d in dims] or [index("0")]

    # --- variables ---------------------------------------------------------------------------------------------------

    def _variable(self, value: Expr, tag: str) -> Stmt:
        """T.alloc_var."""
        name = self.fresh("c")
        return Stmt((f'{name} = T.alloc_var("{value.dtype}", init={{0}})',), (f"{name} = {{0}}",), (value,),
                    kind="let", defines=name, tags=frozenset({tag}))  # fmt: skip

    def _declared(self) -> Stmt:
        """A variable of a nest, from 0."""
        first = self._variable(literal(self.dtype, 0), "alloc_var in a nest")
        self.exprs.locals.append((first.defines, self.dtype))
        return first

    def variable(self) -> Stmt:
        """A variable that a serial loop changes with elements of a tensor, read by a nest of the loop or behind it."""
        if self.dtype == "bool" or self.loop is not None:
            return self.nest()
        if self.chance(0.25):
            return self._walk()
        first = self._variable(self.exprs.constant(self.dtype), "alloc_var")
        self.pending.append(first)
        name, step = first.defines, self._step(first.defines)
        if within := self.chance(0.5):
            before, self.pending, self.loop = self.pending, [], "k"
            nest = self._reading(name)
            body = (*self.pending, nest)
            self.pending, self.loop = before, None
            body = (step, *body) if self.chance(0.7) else (*body, step)
        else:
            body = (step,)
        loop = Stmt(("for k in T.serial(3):",), ("for k in range(3):",), body=body, kind="loop", tags=frozenset({"serial loop outside"}))
        if not self.inside:
            self.exprs.locals.append((name, self.dtype))
        if within:
            return loop
        self.pending.append(loop)
        return self._reading(name)

    def _walk(self) -> Stmt:
        """A loop whose loads begin where a variable says."""
        name, start, by = self.fresh("c"), int(self.rng.integers(0, 3)), self.pick([1, 2, 4])
        first = Stmt((f'{name} = T.alloc_var("int32", init={start})',), (f"{name} = {start}",), kind="let", defines=name,
                     tags=frozenset({"place in a variable"}))  # fmt: skip
        step = Stmt((f"{name} = {name} + {by}",), (f"{name} = {name} + {by}",), kind="let")
        if self.chance(0.3):
            step = Stmt(("if bx == 0:",), ("if bx == 0:",), body=(step,), kind="if", tags=frozenset({"runtime if"}))
        self.pending.append(first)
        before, self.pending, self.loop = self.pending, [], f"{name} % 3"
        dims = self.some_dims()
        load = self._load(dims, self.tile(dims, self.dtype, "S", reuse=0.5))
        nest = self.nest()
        body = (*self.pending, load, nest)
        self.pending, self.loop = before, None
        return Stmt(("for k in T.serial(3):",), ("for k in range(3):",), body=(step, *body) if self.chance(0.3) else (*body, step),
                    kind="loop", tags=frozenset({"serial loop outside"}))  # fmt: skip

    def _step(self, name: str) -> Stmt:
        """One change of a variable in iteration k, which a condition may guard."""
        block = "bx" if self.rank == 1 else "by"
        p = self.param((0,), self.dtype, lead=(3,))
        element = access(p, [index("k"), index(block)])
        value = operation(self.dtype, *self.pick(CHANGES), Expr(self.dtype, name, name), element)
        # A variable converts what it is given: small integers are computed as int32.
        step = Stmt((f"{name} = {{0}}",), (f'{name} = cast({{0}}, "{self.dtype}")',), (value,), kind="let")
        roll = self.rng.random()
        if roll < 0.15:
            return Stmt((f"if {p.name}[k, {block}] > 0:",), (f"if truth(at({p.name}, k, {block}) > 0):",), body=(step,), kind="if",
                        tags=frozenset({"runtime if"}))  # fmt: skip
        if roll < 0.3:
            return Stmt(("if k < 2 and bx == 0:",), ("if k < 2 and bx == 0:",), body=(step,), kind="if", tags=frozenset({"runtime if"}))
        return step

    def _reading(self, name: str) -> Stmt:
        """A nest that uses a scalar."""
        t = self.tile(range(self.rank), self.dtype, "W")
        self.exprs.written = {t.name}
        scalar = Expr(self.dtype, name, name, tags=frozenset({"local scalar"}))
        value = operation(self.dtype, "({0} + {1})", "", self.exprs.varying(self.exprs.value(self.dtype, 1)), scalar)
        self.exprs.written = set()
        return self._parallel([self._store(t, self._at(range(self.rank)), self._clamped(value), set())])
