"""The tuner under the name GPU scripts import it by; see `tilelang_ascend.autotune`."""

from .autotune import *  # noqa: F403
from .autotune import __all__  # noqa: F401
