"""Data dependences between instructions of a `Program`: which pairs must be ordered, in the same iteration and across
iterations."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from ...ir.functions import fixed_bytes
from ..index.linear import INF, Linear
from .program import Access, Branch, Instr, Loop, Program, common_block

ANY_SIZE = INF


@dataclass(eq=False, slots=True)
class Dependence:
    """`dst` must wait for `src`.

    Attributes:
        common: loops around both, outermost first.
        same_iteration: `src` may precede `dst` on common bytes within one iteration of all common loops.
        distances: for each common loop, the smallest iteration distance at which the pair may touch common bytes when
        the outer
            loops are in the same iteration; 0 = never.
        versions: version indices of both accesses (comparing them refines the distances), or None.
        version_count: number of versions of the buffer, 1 when versions cannot be compared.
        buffer: the buffer `dst` waits for.
        kind: `RAW`, `WAR` or `WAW`.
    """

    src: Instr
    dst: Instr
    common: tuple[Loop, ...]
    same_iteration: bool
    distances: tuple[int, ...]
    versions: tuple[Linear, Linear] | None
    version_count: int
    buffer: object
    kind: str


def dependences(program: Program) -> list[Dependence]:
    """All dependences that the pipes do not keep by themselves: between different queues, and on queues that complete out
    of order."""
    return _Finder(program).find()


def meet(first: Instr, second: Instr, program: Program) -> bool:
    """Must two instructions keep their order within one iteration of the loops around both? `program` has addresses."""
    common = _common_loops(first, second)
    inner = {loop.atom for i in (first, second) for loop in i.loops[len(common) :]}
    others = _reach(second, program)
    for a, a_buffer, a_space, a_write, a_low, a_high in _reach(first, program):
        for b, b_buffer, b_space, b_write, b_low, b_high in others:
            if not (a_write or b_write) or a_space != b_space:
                continue
            if a_buffer is not b_buffer:
                if a_low < b_high and b_low < a_high:
                    return True
                continue
            compare = _Comparison(a, b, program)
            if compare.possible and compare.distance(None, inner):
                return True
    return False


def _reach(instr: Instr, program: Program) -> list[tuple]:
    """(access, buffer, space, writes?, first byte, end) of what an instruction accesses. Kept with the program: runs of instructions ask for all
    pairs."""
    known = program.reaches.get(id(instr))
    if known is None:
        known = program.reaches[id(instr)] = [(a, a.buffer, a.space, a.write, *hull_of(a, program)) for a in instr.accesses]
    return known


class _Finder:
    def __init__(self, program: Program):
        self.program = program
        self.found: dict = {}

    def find(self) -> list[Dependence]:
        for group in self._groups():
            if all(not a.write for _, a in group):
                continue
            pairs = _Pairs(group, self.program)
            for i, (x, a) in enumerate(group):
                for j, between, around, back in pairs.later(i):
                    y, b = group[j]
                    self._pair(x, a, y, b, x is not y and not between, not around)
                    if i != j:
                        self._pair(y, b, x, a, False, not back)
        return list(self.found.values())

    def _groups(self) -> list[list[tuple[Instr, Access]]]:
        """Accesses by buffer; buffers whose address ranges overlap share a group."""
        by_buffer = defaultdict(list)
        for instr in self.program.instrs:
            for access in instr.accesses:
                by_buffer[access.buffer].append((instr, access))
        return _merge_overlapping(by_buffer, self.program.addresses)

    def _pair(self, src: Instr, a: Access, dst: Instr, b: Access, forward: bool, carried: bool) -> None:
        """Record what `dst` must wait for: `forward` in the same iteration, `carried` across iterations."""
        if (src.queue == dst.queue and src.ordered) or not (forward or carried):
            return
        common = _common_loops(src, dst)
        if not common and not forward:
            return
        if forward and _exclusive(src, dst):
            forward = False
        compare = _Comparison(a, b, self.program)
        if not compare.possible:
            return
        inner = {loop.atom for loop in src.loops[len(common) :]} | {loop.atom for loop in dst.loops[len(common) :]}
        same = forward and compare.distance(None, inner) > 0
        distances = [0] * len(common)
        across_tiles = a.buffer not in self.program.user_tensors
        for level in range(len(common) - 1, -1, -1):
            loose = common[level].independent or common[level].unordered
            if carried and (across_tiles or not loose):
                distances[level] = compare.distance(common[level].atom, inner)
            inner.add(common[level].atom)
        if same or any(distances):
            self._add(Dependence(src, dst, common, same, tuple(distances), compare.versions, compare.count, b.buffer, _kind(a, b)))

    def _add(self, d: Dependence) -> None:
        key = (id(d.src), id(d.dst), d.versions)
        old = self.found.get(key)
        if old is None:
            self.found[key] = d
            return
        old.same_iteration |= d.same_iteration
        old.distances = tuple(min(x or y, y or x) for x, y in zip(old.distances, d.distances))


class _Pairs:
    """Pairs of accesses of one group that need a closer look: at least one writes, bytes may meet, they are not equal atomic updates, and
    they do not stand in one queue that keeps order. All pairs at once would be too many for Python: those of one access are found together.

    Between some there is a write that both sides depend on anyway. Only accesses of one statement list to the same place (equal version,
    equal first byte) are compared: they always meet, so the pair is ordered when the pairs with the write in the middle are. A place that
    moves with a loop is another one in the next iteration, where the bytes of the longer access may meet and those of the write do not:
    there only accesses of equal length are compared. Atomic updates do not stand between others: they need not wait for each other.
    An iteration that is left by a jump does not come to what is written behind it.
    """

    def __init__(self, group: list, program: Program):
        hulls = [hull_of(a, program) for _, a in group]
        self.write = np.array([a.write for _, a in group])
        self.queue = np.array([x.queue for x, _ in group])
        self.kept = np.array([x.ordered for x, _ in group])
        self.buffer = _numbered(a.buffer for _, a in group)
        self.low, self.high = (np.array(side, float) for side in zip(*hulls))
        self.place = _numbered(_place(x, a) for x, a in group)
        self.atomic = np.array([a.atomic is not None for _, a in group])
        self.mode = _numbered(a.atomic for _, a in group)
        self.parting = self.write & ~self.atomic
        """Writes that order what stands on either side of them."""
        self.before = _seen_before(self.place, self.parting)
        """Writes to the place in front of an access."""
        stretch = _numbered((p, program.jumps_before(x)) for p, (x, _) in zip(self.place, group))
        self.after = _seen_before(stretch[::-1], self.parting[::-1])[::-1]
        """Writes to the place behind an access, which follow whenever it has happened."""

    def later(self, i: int):
        """(j, a write between i and j, one after i or before j of the next iteration, one after j or before i of the next), j >= i."""
        rest = slice(i, None)
        wanted = self.write[rest] | self.write[i]
        wanted &= ~(self.atomic[rest] & self.atomic[i] & (self.mode[rest] == self.mode[i]))
        wanted &= (self.queue[rest] != self.queue[i]) | ~(self.kept[rest] & self.kept[i])
        wanted &= (self.buffer[rest] == self.buffer[i]) | (self.low[rest] < self.high[i]) & (self.low[i] < self.high[rest])
        later = np.flatnonzero(wanted) + i
        same = self.place[later] == self.place[i]
        between = same & (self.before[later] > self.before[i] + self.parting[i])
        around = same & (self.after[i] + self.before[later] > 0)
        back = same & (self.after[later] + self.before[i] > 0)
        return zip(later.tolist(), between.tolist(), around.tolist(), back.tolist())


def _place(instr: Instr, access: Access) -> tuple:
    length = (access.size, access.piece, access.pitch) if access.start.varies else None
    return id(instr.parent), access.buffer, access.version, access.start, length


def _numbered(keys) -> np.ndarray:
    """Equal keys as equal numbers."""
    numbers: dict = {}
    return np.array([numbers.setdefault(key, len(numbers)) for key in keys])


def _seen_before(places: np.ndarray, writes: np.ndarray) -> np.ndarray:
    """Of each access: how many writes to its place stand in front of it."""
    written = np.zeros(places.max() + 1, int)
    found = np.empty(len(places), int)
    for k, place in enumerate(places):
        found[k] = written[place]
        written[place] += writes[k]
    return found


def _merge_overlapping(by_buffer: dict, addresses: dict) -> list:
    """Accesses of buffers that share bytes, directly or through others, in program order. Buffers without an address stand alone."""
    groups, placed = [], defaultdict(list)
    for buffer, accesses in by_buffer.items():
        address = addresses.get(buffer)
        if address is None:
            groups.append(accesses)
        else:
            placed[accesses[0][1].space].append((address, address + fixed_bytes(buffer), accesses))
    for ranges in placed.values():
        end = None
        for low, high, accesses in sorted(ranges, key=lambda r: r[0]):
            if end is None or low >= end:
                groups.append([])
                end = high
            groups[-1] += accesses
            end = max(end, high)
    return [sorted(group, key=lambda x: x[0].order) for group in groups]


def hull_of(access: Access, program: Program) -> tuple:
    """First and last byte address an access may touch; without an address, nothing is known. Kept with the program: every pair asks for it."""
    known = program.hulls.get(id(access))
    if known is None:
        known = program.hulls[id(access)] = _find_hull(access, program)
    return known


def _find_hull(access: Access, program: Program) -> tuple:
    base = program.addresses.get(access.buffer)
    if base is None:
        return -INF, INF
    if access.versions > 1 or access.size is None:
        return base, base + fixed_bytes(access.buffer)
    low, high = access.start.interval(program.extents, access.within)
    return max(base, base + low), min(base + fixed_bytes(access.buffer), base + high + access.size)


def _common_loops(a: Instr, b: Instr) -> tuple[Loop, ...]:
    n = 0
    for x, y in zip(a.loops, b.loops):
        if x is not y:
            break
        n += 1
    return a.loops[:n]


def _exclusive(a: Instr, b: Instr) -> bool:
    """True when the two stand in different arms of one branch."""
    if a.parent is b.parent:
        return False
    block = common_block(a, b)
    x, y = _child(a, block), _child(b, block)
    return x is y and isinstance(x, Branch)


def _child(node, block):
    while node.parent is not block:
        node = node.parent.owner
    return node


class _Comparison:
    """Can two accesses touch a common byte?

    `versions` and `count` tell whether and how version indices may be compared; `possible` is False when no bytes can
    be shared.
    """

    def __init__(self, a: Access, b: Access, program: Program):
        self.extents, self.a_within, self.b_within = program.extents, a.within, b.within
        self.a_size = ANY_SIZE if a.size is None else a.size
        self.b_size = ANY_SIZE if b.size is None else b.size
        self.possible, self.versions, self.count = True, None, 1
        self.a_start, self.b_start = a.start, b.start
        self.a_piece, self.b_piece, self.pitch = _pieces(a, b)
        if a.buffer is not b.buffer:
            (low_a, high_a), (low_b, high_b) = hull_of(a, program), hull_of(b, program)
            self.possible = low_a < high_b and low_b < high_a
            self.a_size = self.b_size = ANY_SIZE
            self.pitch = 0
            return
        if a.version is None and b.version is None:
            return
        comparable = a.versions == b.versions and a.version_stride == b.version_stride and not _counts_rounds(a, b)
        if comparable and a.version_stride:
            comparable = self._within_windows(a)
        if comparable:
            self.versions, self.count = (a.version, b.version), a.versions
        else:
            self.a_start, self.b_start = _whole_start(a), _whole_start(b)

    def _within_windows(self, a: Access) -> bool:
        """Different versions never overlap: the rest of the offset stays inside one version's window."""
        everything = set(self.extents) | self.a_start.varies | self.b_start.varies
        low, high = self._difference(None, everything)
        return a.version_stride + low >= self.a_size and -a.version_stride + high <= -self.b_size

    def distance(self, carried, free: set) -> int:
        """Smallest distance of iterations of loop `carried` (None: same iteration, result 1) with a common byte, 0 =
        none.

        `free`: loop atoms whose iterations are independent in the two accesses.
        """
        low, high = self._difference(carried, free)
        if low >= self.a_size or high <= -self.b_size or self._interleaved(low, high):
            return 0
        return self._version_distance(carried, free) if self.versions else 1

    def _interleaved(self, low: float, high: float) -> bool:
        """Do all pieces of `b` fall into gaps of `a`?"""
        if not self.pitch or low == -INF or high == INF:
            return False
        first = low % self.pitch
        return first >= self.a_piece and first + (high - low) + self.b_piece <= self.pitch

    def _difference(self, carried, free: set) -> tuple[float, float]:
        """Interval of `b.start - a.start`."""
        a, b = self.a_start, self.b_start
        low = high = b.const - a.const
        for atom in {**a.terms, **b.terms}:
            ca, cb = a.terms.get(atom, 0), b.terms.get(atom, 0)
            for c, (x, y) in self._contributions(atom, ca, cb, carried, free):
                if c:
                    low, high = (low + c * x, high + c * y) if c > 0 else (low + c * y, high + c * x)
        return low, high

    def _contributions(self, atom, ca: int, cb: int, carried, free: set):
        if atom is carried:
            last = self.extents.get(atom, INF) - 1
            return ((cb - ca, (0, last)), (cb, (1, max(last, 1))))
        varies = atom.varies
        if varies & free or (carried is not None and carried in varies):
            return ((cb, atom.interval(self.extents, self.b_within)), (-ca, atom.interval(self.extents, self.a_within)))
        return ((cb - ca, atom.interval(self.extents)),)

    def _version_distance(self, carried, free: set) -> int:
        count = self.count
        a, b = (version_argument(v, count) for v in self.versions)
        step = 0
        for atom in {**a.terms, **b.terms}:
            ca, cb = a.terms.get(atom, 0), b.terms.get(atom, 0)
            if ca % count == 0 and cb % count == 0:
                continue
            if (ca - cb) % count:
                return 1
            if atom is carried:
                step = cb
            elif atom.varies & free or (carried is not None and carried in atom.varies):
                return 1
        offset = b.const - a.const
        if carried is None:
            return int(offset % count == 0)
        return next((d for d in range(1, count + 1) if (offset + step * d) % count == 0), 0)


def _counts_rounds(a: Access, b: Access) -> bool:
    """True if a version has the number of a round of several iterations, more than any trace runs."""
    return any(x.kind == "div" and x.varies for access in (a, b) if access.version is not None for x in access.version.atoms())


def _kind(a: Access, b: Access) -> str:
    if not a.write:
        return "WAR"
    return "RAW" if b.read else "WAW"


def _pieces(a: Access, b: Access) -> tuple:
    """(piece of a, piece of b, common pitch); pitch 0 when the pieces cannot be compared."""
    pitch = a.pitch or b.pitch
    if not pitch or (a.pitch and b.pitch and a.pitch != b.pitch):
        return 0, 0, 0
    pieces = [x.piece if x.pitch else x.size for x in (a, b)]
    return (0, 0, 0) if None in pieces else (*pieces, pitch)


def version_argument(version: Linear, count: int) -> Linear:
    """`x` for a version `x % count`, else the version itself."""
    if version.const == 0 and len(version.terms) == 1:
        ((atom, c),) = version.terms.items()
        if c == 1 and atom.kind == "mod" and atom.modulus == count:
            return atom.arg
    return version


def _whole_start(access: Access) -> Linear:
    if access.version is None:
        return access.start
    return access.start.plus(access.version, access.version_stride) if access.version_stride else access.start


__all__ = ["Dependence", "dependences", "meet", "version_argument"]
