"""A law of an operator, and the search for its smallest counter-example."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import attrs
from hypothesis import given, reject
from hypothesis.errors import Flaky, Unsatisfiable
from hypothesis.strategies import SearchStrategy

from tracetypes.equations.memory import World
from tracetypes.equations.subject import Abandon, Subject, items_in
from tracetypes.errors import LawBroken, OperatorFailed, UsageError
from tracetypes.laws.strategies import search

__all__ = ["Law"]


@attrs.frozen(eq=False, kw_only=True)
class Law:
    """One law of one operator. ``equation`` is a line of text; ``code`` is that of the error when it is broken."""

    name: str
    equation: str
    code: str
    _subject: Subject
    _examples: SearchStrategy[Any]
    _examine: Callable[[Subject, Any, str], LawBroken | None]

    def __str__(self) -> str:
        return f"{self._subject.name}: {self.name}"

    def __repr__(self) -> str:
        return f"<law {self}: {self.equation}>"

    def check(self, max_examples: int = 200) -> None:
        """Look for a counter-example. Raises :class:`LawBroken` with the smallest one found.

        The examples are the same in every run. The operator's class and module are put back as they were.
        """
        __tracebackhide__ = True
        subject, problems = self._subject, list[LawBroken]()
        subject.world = World(subject.op)
        failures, judged = list[OperatorFailed](), [0]

        @search(max_examples)
        @given(self._examples)
        def judge(example: Any) -> None:
            try:
                broken = self._examine(subject, example, self.equation)
            except Abandon:
                reject()
            except OperatorFailed as error:  # the laws "total" and "types" speak of these
                failures.append(error)
                reject()
            judged[0] += example is None or any(map(items_in, example if isinstance(example[0], tuple) else [example]))
            if broken is not None:
                problems.append(broken)
                raise broken

        try:
            judge()
            if judged[0]:
                return
            self._unjudged(failures)
        except LawBroken as error:
            smallest = error
        except UsageError as error:  # without what Hypothesis has to say about it
            raise UsageError(error.code, error.message, fix=error.fix) from None
        except Flaky:
            # It does not fail again: the operator remembers where we cannot put back, or draws lots.
            if not problems:
                raise
            smallest = min(problems, key=lambda broken: len(broken.message))
        except Unsatisfiable:
            self._unjudged(failures)
        finally:
            subject.world.reset()
        raise LawBroken(smallest.code, smallest.message, fix=smallest.fix) from None

    def _unjudged(self, failures: Sequence[OperatorFailed]) -> NoReturn:
        first = failures[0].message.partition("\n")[0] if failures else ""
        why = f"every item failed, e.g. {first}" if failures else "no value was accepted"
        raise UsageError(
            "TT407",
            f"{self}: no example could be judged: {why}",
            fix="give a strategy of (key, value) pairs that the operator accepts: check_laws(op, items=...)",
        ) from None
