"""Importing this module starts a session that lasts as long as the process: it is the first import of the worker
processes of a script (`workers`)."""

import atexit

from . import session

_session = session()
_session.__enter__()
atexit.register(_session.__exit__, None, None, None)
