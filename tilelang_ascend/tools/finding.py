"""One line of `doctor`."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import metadata


@dataclass(frozen=True)
class Finding:
    """One line of the report. status: ``ok``, ``missing`` (something optional) or ``broken``; meaning: what that means, and what to do."""

    status: str
    subject: str
    detail: str
    meaning: str = ""


def version(distribution: str) -> str | None:
    """Release of an installed Python package."""
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None
