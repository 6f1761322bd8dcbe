"""The operations of expressions, each one object: what evaluators, the tracer and tests are tables over."""

from __future__ import annotations

from typing import Final

from tracetypes.compiler.tracing.operations.basic import BASIC
from tracetypes.compiler.tracing.operations.functions import FUNCTIONS
from tracetypes.compiler.tracing.operations.operation import Operation
from tracetypes.compiler.tracing.operations.regular_expressions import REGULAR_EXPRESSIONS

__all__ = ["OPERATIONS"]

OPERATIONS: Final[tuple[Operation, ...]] = (*BASIC, *FUNCTIONS.values(), *REGULAR_EXPRESSIONS)
"""All of them."""
