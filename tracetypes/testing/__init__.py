"""Laws of operators, and tests of them: what a template promises that no type checker can see.

The theorems of data-trace types (section 4, Theorems 4.2 and 4.3) rest on what the templates ask of their author: pure
functions, a commutative monoid, no memory but the state. :func:`laws` spells that out as equations; :func:`check_laws`
looks for a counter-example and reports the smallest one. ``docs/laws.md`` is the guide.
"""

from __future__ import annotations

from tracetypes.errors import UsageError

try:
    import hypothesis  # noqa: F401
except ImportError as error:
    raise UsageError(
        "TT401", f"tests of laws need Hypothesis, which is not here ({error})", fix="pip install 'tracetypes[test]'"
    ) from None

from tracetypes.recovery import Ran, check_recovery, define_scripts, run_scripts
from tracetypes.scripts import Script
from tracetypes.testing.deployments import check_deployments
from tracetypes.testing.flows import answers as answers
from tracetypes.testing.flows import check_flow
from tracetypes.testing.law import Law
from tracetypes.testing.operators import check_laws, law_tests, laws
from tracetypes.testing.sorting import check_order
from tracetypes.testing.strategies import slices, values

__all__ = [
    "Law",
    "Ran",
    "Script",
    "check_deployments",
    "check_flow",
    "check_laws",
    "check_order",
    "check_recovery",
    "define_scripts",
    "law_tests",
    "laws",
    "run_scripts",
    "slices",
    "values",
]
