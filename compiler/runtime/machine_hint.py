"""Which operators the extra ``fast`` would make machine code of, also where nothing but the core is installed."""

from __future__ import annotations

__all__ = ["machine_hint"]


def machine_hint(form: object) -> str | None:
    """How an operator would run in machine code, as a line of ``explain``. None where it does, or has none, or where numpy is
    missing. ``form``: the operator as the plan has it."""
    try:
        from tracetypes.compiler.runtime.ordered_machine import machine_code_missing
    except ModuleNotFoundError:  # pictures need the core only
        return None
    return machine_code_missing(form)
