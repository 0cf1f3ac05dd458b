"""What rewritten code calls: ``_tl_`` in the generated Python is this module (see `rewriter`)."""

from .calls import fn, nested
from .containers import delitem, global_, made
from .control import FOREVER, for_, if_, while_
from .flow import assert_, boolop, break_, conditions, continue_, depth, finally_, ifexp, iterable, match_subject, ret, truth, unwind, with_
from .items import augitem, data, dtype, getitem, inplace, place, setattr_, setitem, shape
from .names import annotated, bind, bind_outer, declare, get, hint, param, snapshot, target, unpack
from .operators import binop, compare, unop
from .values import UNBOUND

slice_ = slice

__all__ = [
    "FOREVER", "UNBOUND", "annotated", "assert_", "augitem", "bind", "bind_outer", "binop", "boolop", "break_", "compare",
    "conditions", "continue_", "data", "declare",
    "delitem", "depth", "dtype", "finally_", "fn", "for_", "get", "getitem", "global_", "hint", "if_", "ifexp", "inplace", "iterable", "made", "match_subject",
    "nested", "param", "place", "ret",
    "setattr_", "setitem", "shape", "slice_", "snapshot", "target", "truth", "unop", "unpack", "unwind", "while_",
    "with_",
]  # fmt: skip
