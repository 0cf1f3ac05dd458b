"""One door to tvm and the few helpers every pass needs (see docs/ir.md for the two levels of IR)."""

from ..collector import PAUSED_COLLECTOR

with PAUSED_COLLECTOR:
    from . import sym  # noqa: F401
    from .base import *  # noqa: F401,F403
    from .build import *  # noqa: F401,F403
    from .formats import *  # noqa: F401,F403
    from .parse import *  # noqa: F401,F403
    from .verify import *  # noqa: F401,F403
    from .visit import *  # noqa: F401,F403
