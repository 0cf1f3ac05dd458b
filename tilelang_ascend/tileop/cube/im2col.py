"""`tl.im2col`: a tile of the patch matrix of an image, gathered from GM into L1.

Rows of the tile that belong to one line of the output image are pixels `stride` apart in one line of the input: one Nd2Nz transfer
brings a piece of columns of all of them. Zeros stand where a patch reaches over the edge of the image.

The cube core could also expand patches on the way from L1 to L0A (Load3D), which loads every pixel once instead of once for each
kernel position; that is not done here.
"""

from __future__ import annotations

from ...analysis.index.patches import Patches, patches_of
from ...analysis.index.value_facts import ValueFacts
from ...ir import Bind, Evaluate, Stmt, Var, const_int, if_then, imm, loop, seq, tirx
from ..base.output import Output
from ..base.placement import Placement, Tile
from ..copy.cube import GmRows, copy_rows, fill_rows


class _Gather:
    """The lowering of one statement."""

    def __init__(self, s: Evaluate, placement: Placement, facts: ValueFacts, out: Output):
        self.placement, self.facts, self.out, self.span = placement, facts, out, s.span
        self.p: Patches = patches_of(s)
        self.tile: Tile = placement.tiles[self.p.tile]
        self.gm = placement.gms[self.p.image]
        self.version = s.value.args[1].region[0].min

    def let(self, name: str, value) -> tuple:
        """A variable for `value` and its definition; a constant needs none."""
        value = self.facts.simplify(value)
        if const_int(value) is not None or isinstance(value, Var):
            return value, []
        var = Var(self.out.unique(name), "int32")
        self.facts.bind(var, value)
        self.facts.bind_like(var, value)
        return var, [Bind(var, value, span=self.span)]

    def lower(self) -> Stmt:
        p, width = self.p, self.p.out_size[1]
        first = p.steps[0] * p.rows
        line0, out = self.let("line0", tirx.floordiv(first, width))
        lines = self.facts.simplify(tirx.floordiv(first + (p.rows - 1), width) - line0 + 1)
        t, s = Var("t", "int32"), Var("s", "int32")
        line = line0 + t
        row, rows_binds = self.let("row", tirx.max(line * width - first, imm(0)))
        count, count_binds = self.let("count", tirx.min(line * width + width - first, imm(p.rows)) - row)
        pieces = loop(s, p.columns // p.piece, self.piece(line, row, count, first, s), span=self.span)
        whole = seq(out, loop(t, lines, seq(rows_binds, count_binds, pieces), span=self.span))
        padding = self.tile in self.placement.zero_rows and self.tile.nz.rows % self.tile.nz.row_unit
        zeros = fill_rows(self.tile, self.version, 0, 0, self.tile.nz.rows_padded, p.columns, self.span) if padding else None
        return seq(zeros, whole)

    def piece(self, line, row, count, first, s) -> Stmt:
        """Columns ``s * piece`` and following of `count` rows from `row` on."""
        p = self.p
        batch, height, width, channels = p.image.ty.shape
        k = p.steps[1] * p.columns + s * p.piece
        position, out = self.let("position", tirx.floordiv(k, channels))
        n, h, w = p.pixel(line, first + row - line * p.out_size[1], position)
        n, b0 = self.let("n", n)
        h, b1 = self.let("h", h)
        w, b2 = self.let("w", w)
        left, b3 = self.let("left", tirx.min(tirx.floordiv(tirx.max(imm(0) - w, imm(0)) + (p.stride - 1), p.stride), count))
        end, b4 = self.let("right", tirx.min(tirx.floordiv(tirx.max(width - w, imm(0)) + (p.stride - 1), p.stride), count))
        starts = [c for c, step in zip((n >= 0, position >= 0), p.steps) if not self.facts.proves(step >= 0)]
        conds = (*starts, n < batch, h >= 0, h < height, position < p.kernel * p.kernel)
        inside = [c for c in conds if not self.facts.proves(c)]
        partial = [c for c in (left > 0, end < count) if not self.facts.proves(tirx.Not(c))]
        column = self.facts.simplify(s * p.piece)
        channel = tirx.floormod(k, channels)

        def move(left, rows):
            source = self.gm.offset([n, h, w + left * p.stride, channel], self.facts.analyzer)
            pitch = self.facts.simplify(self.gm.strides[2] * p.stride)
            return copy_rows(
                GmRows(self.gm, source, rows, p.piece, pitch), self.tile, self.version, row + left, column, self.facts, self.span
            )

        zeros = fill_rows(self.tile, self.version, row, column, count, p.piece, self.span)
        some = if_then(_all([*inside, end > left]), move(left, end - left), span=self.span)
        body = move(0, count)
        if inside or partial:
            edge = _any([tirx.Not(c) for c in inside] + partial)
            body = if_then(edge, seq(zeros, some), body, span=self.span)
        return seq(out, b0, b1, b2, b3, b4, body)


def _all(conds: list):
    out = conds[0]
    for c in conds[1:]:
        out = tirx.And(out, c)
    return out


def _any(conds: list):
    out = conds[0]
    for c in conds[1:]:
        out = tirx.Or(out, c)
    return out


def lower_im2col(s: Evaluate, placement: Placement, facts: ValueFacts, out: Output) -> Stmt:
    """Lower `tl.im2col(image region, tile region, row step, column step)` into a tile in L1."""
    return _Gather(s, placement, facts, out).lower()


__all__ = ["lower_im2col"]
