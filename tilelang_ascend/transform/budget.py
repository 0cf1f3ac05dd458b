"""Shares of UB that passes may plan with before memory is planned."""

from __future__ import annotations

# Share of UB the staged tiles of one nest may take: two versions of each and the temporaries of the body must fit beside them.
TILE_BUDGET_SHARE = 1 / 6
