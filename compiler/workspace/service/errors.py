"""Errors of the service, as HTTP has them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from tracetypes.compiler.workspace.service.worker import plain_error

__all__ = ["Refused", "refused_of"]

STATUS: Final[Mapping[str, int]] = {"TT415": 403, "TT416": 429, "TT418": 409, "TT419": 503, "TT000": 500, "TT209": 507}
"""Of codes. Others are 422, because the request is wrong."""


class Refused(Exception):
    """A request that is not done. ``status``: of HTTP; ``plain``: code, message, fix and problems."""

    def __init__(self, status: int, code: str, message: str, fix: str, problems: Sequence[Mapping[str, Any]] = ()) -> None:
        self.status = status
        self.plain: dict[str, Any] = {"code": code, "message": message, "fix": fix, "problems": list(problems)}
        super().__init__(message)


def refused_of(error: Exception) -> Refused:
    """An error that a worker or the service raised."""
    plain = getattr(error, "plain", None) or plain_error(error)
    code = str(plain["code"])
    status = 504 if plain.get("timeout") else STATUS.get(code, 422)
    if re.search(r"^there is (a|no) flow ", plain["message"]):
        status = 404 if "no flow" in plain["message"] else 409
    problems = plain.get("problems", ())
    if status == 504:
        code, fix = "TT416", "give more seconds"
        return Refused(status, code, f"it took longer than the time that was given: {plain['message']}", fix)
    message = f"{len(problems)} problems" if len(problems) > 1 else plain["message"]
    return Refused(status, code, message if problems else plain["message"], plain.get("fix", ""), problems)
