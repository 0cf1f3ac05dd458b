"""tvm itself, for what hands it on to users (`tilelang.tvm`). Nothing else imports this module."""

import tvm

__all__ = ["tvm"]
