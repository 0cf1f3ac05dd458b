"""What one instruction reads and writes, from the instruction table."""

from __future__ import annotations

from ...ir import FloatImm, IntImm, TensorLoad, Var, dtype_of, elements, itemsize, operand_parts, scope_of, tirx
from ...isa.strided import fills, strided_footprint
from ..index.linear import ZERO, Atom, Linear, LinearForms, lower_bound, upper_bound
from .program import Access

MAX_GM_VERSIONS = 16
"""Remainders by more than this in a GM offset are tile indices, not versions of a workspace: traces long enough to tell so many
versions apart would take minutes."""


class AccessReader:
    """Translates intrinsic calls into `Access` records. `extents`: loop atom -> largest trip count, where it is known."""

    def __init__(self, forms: LinearForms, extents: dict):
        self.forms, self.extents = forms, extents
        self._buffers: dict = {}

    def __call__(self, record, call) -> tuple[Access, ...]:
        """Accesses of one call; footprints the table cannot tell extend to the end of the version."""
        count, args = len(record.operands), elements(call.args)
        parts, args = [operand_parts(a) for a in args[:count]], args[count:]
        loads, dtypes = [load for load, _ in parts], [dtype for _, dtype in parts]
        facts = [self._facts(load.source) for load in loads]
        values = [self._value(arg, spec) for arg, spec in zip(args, record.args)]
        bound = record.bind(dtypes, values, None)
        accesses = []
        known = _Values(self, record, args, values, dtypes)
        exact = all(spec.name == record.anew_if or _is_told(arg, spec) for arg, spec in zip(args, record.args))
        for i, direction, low, high in record.footprint(bound):
            access = self._access(loads[i], facts[i], direction, low, high)
            self._join_clips(access, i, record, dtypes, args, values)
            access.piece, access.pitch = strided_footprint(record, i, known) or (0, 0)
            access.exact = exact and access.write and fills(record, i, known)
            if i == 0 and record.anew_if:
                access.anew = self._first_iteration(args[known.index[record.anew_if]])
            accesses.append(access)
        return tuple(accesses)

    def _join_clips(self, access: Access, i: int, record, dtypes: list, args: list, values: list) -> None:
        """Where `skip` rows are left out in front and `max(… - skip, 0)` are what is left, the access of operand `i` begins further on and is as much shorter:
        it lies where all rows do."""
        skips = {a.expr: (a, c) for a, c in access.start.terms.items() if c > 0 and a.kind == "opaque" and isinstance(a.expr, Var)}
        for k, arg in enumerate(args) if skips and access.size is not None else ():
            left = self._left(arg)
            if left is None or left.b not in skips or values[k] is None:
                continue
            (atom, step), most = skips[left.b], upper_bound(left.a, self.forms, self.extents)
            fewer = record.footprint(record.bind(dtypes, [*values[:k], values[k] - 1, *values[k + 1 :]], None))
            size = next((high - (low or 0) for j, _, low, high in fewer if j == i and high is not None), 0)
            least = lower_bound(left.b, self.forms, self.extents)
            # Less than no row left out would be rows in front of all.
            if least is not None and least >= 0 and most is not None and most <= values[k] and access.size - size == step:
                access.start = access.start.plus(Linear(0, {atom: 1}), -step)
                return

    def _left(self, arg):
        """`x - skip` of a name of `max(x - skip, 0)`; None for other arguments."""
        value = self.forms.values.get(arg) if isinstance(arg, Var) else None
        if not isinstance(value, tirx.Max) or not isinstance(value.a, tirx.Sub) or not isinstance(value.a.b, Var):
            return None
        return value.a if isinstance(value.b, IntImm) and value.b.value == 0 else None

    def _first_iteration(self, condition) -> Atom | None:
        """The loop in whose first iteration, and no other, `condition` holds."""
        while isinstance(condition, tirx.Cast):
            condition = condition.value
        if not isinstance(condition, tirx.EQ):
            return None
        form = self.forms(condition.a).plus(self.forms(condition.b), -1)
        ((atom, step),) = form.terms.items() if len(form.terms) == 1 else ((None, 0),)
        return atom if step and form.const == 0 and atom.kind == "loop" else None

    def _facts(self, buffer):
        """(scope, dtype, itemsize, versions, buffer); equal buffers give one object."""
        facts = self._buffers.get(buffer)
        if facts is None:
            scope, dtype, shape = scope_of(buffer), dtype_of(buffer), buffer.ty.shape
            versions = int(shape[0].value) if scope != "global" and isinstance(shape[0], IntImm) else 1
            facts = self._buffers[buffer] = (scope, dtype, itemsize(dtype), versions, buffer)
        return facts

    def _value(self, arg, spec):
        """Known value of a scalar argument; for sizes and strides an upper bound is as good: footprints grow with
        them."""
        if type(arg) is IntImm or type(arg) is FloatImm:
            return arg.value
        if spec.kind != "int" or spec.ctype in ("bool", "uint64_t"):
            return None
        return upper_bound(arg, self.forms, self.extents)

    def _access(self, load: TensorLoad, facts, direction: str, low, high) -> Access:
        scope, _, size, versions, buffer = facts
        indices = elements(load.indices)
        offset = self.forms(indices[-1])
        start = offset.scaled(size)
        if low:
            start = start.plus(Linear(low))
        length = None if high is None else high - (low or 0)
        read, write = direction != "out", direction != "in"
        if scope == "global":
            return self._gm(Access(buffer, scope, read, write, None, 1, 0, start, length))
        version = self.forms(indices[0]) if versions > 1 else None
        return Access(buffer, scope, read, write, version, versions, 0, start, length)

    def _gm(self, access: Access) -> Access:
        """Find the version in an offset of the form `(e % v) * stride + rest` (workspaces)."""
        if access.size is None:
            return access
        mods = [(a, c) for a, c in access.start.terms.items() if a.kind == "mod" and c >= access.size]
        if len(mods) != 1 or mods[0][0].modulus > MAX_GM_VERSIONS:
            return access
        atom, stride = mods[0]
        if any(a.kind == "opaque" for a in atom.arg.atoms()):
            # The number of the block has no value in a trace: a tile index, too.
            return access
        rest = dict(access.start.terms)
        del rest[atom]
        access.version = Linear(0, {atom: 1})
        access.versions, access.version_stride = atom.modulus, stride
        access.start = Linear(access.start.const, rest) if rest or access.start.const else ZERO
        return access


def _is_told(arg, spec) -> bool:
    """False for a size or a mask known only as a bound."""
    return spec.kind != "int" or type(arg) is IntImm


class _Values:
    """The arguments of one call, as `isa.strided` asks for them."""

    def __init__(self, reader: AccessReader, record, args, bounds: list, dtypes: list):
        self.reader, self.bounds, self.dtypes = reader, bounds, dtypes
        self.args = args
        self.index = {a.name: i for i, a in enumerate(record.args)}

    def exact(self, *names: str) -> int | None:
        total = ZERO
        for name in names:
            total = total.plus(self.reader.forms(self.args[self.index[name]]))
        return None if total.terms else total.const

    def bound(self, name: str) -> int | None:
        return self.bounds[self.index[name]]

    def itemsize(self, operand: int) -> int:
        return itemsize(self.dtypes[operand])


__all__ = ["AccessReader"]
