"""Small models: of all the calls that the solver may show for an answer, one with little in it.

Each preference is satisfied if it agrees with those before it. Nearly all of many are, so a whole group is asked for at once,
and only one that is refused is divided: the questions grow with what is refused, not with the tools and arguments.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import z3

from graph_agent.analysis.symbols import SymbolicCall, SymbolicSet, conjunction

USUAL: Final = {"context.time.hour": 11, "context.time.now": 1_795_431_600_000, "context.time.weekday": "Mon"}
"""The preferred values of some variables."""
MAX_QUESTIONS: Final = 300
"""The number of questions to the solver about one example. What was not asked by then stays as it was found."""


def small_model(solver: z3.Solver, call: SymbolicCall) -> z3.ModelRef:
    """Return a model of what `solver` has found, with as much as possible absent, empty, zero, or the smallest number."""
    return _Search(solver, call).model


class _Search:
    """The preferences that were satisfied so far, as assertions of the solver, and a model of them."""

    def __init__(self, solver: z3.Solver, call: SymbolicCall) -> None:
        self._solver = solver
        self._left = MAX_QUESTIONS
        self.model = solver.model()
        self._first_of([call.user == z3.StringVal(name) for name in ("ann", "bob")])
        self._satisfy([(preference, None) for preference in _absences(call)])
        self._satisfy([(_first_preference(name, term), term) for name, term in self._sized(call.variables)])

    def _sized(self, variables: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
        """Yield the texts and numbers by name, without those of records and values that are absent, which are not read."""
        absent = tuple(
            f"{name.removesuffix('?')}." for name, term in variables.items() if name.endswith("?") and not self._holds(term)
        )
        for name, term in variables.items():
            if isinstance(term, z3.SeqRef | z3.ArithRef) and not f"{name}.".startswith(absent):
                yield name, term

    def _satisfy(self, preferences: Sequence[tuple[Any, Any]], *, is_refused: bool = False) -> None:
        """Satisfy each preference that agrees with those before it; for one that does not, make its term small otherwise.

        `is_refused`: it is known that they are not satisfied together.
        """
        kept = 0
        while kept < len(preferences) and self._holds(preferences[kept][0]):
            kept += 1
        self._solver.add(*(preference for preference, _ in preferences[:kept]))
        preferences = preferences[kept:]
        if not preferences or (not is_refused and self._ask(conjunction([preference for preference, _ in preferences]))):
            return
        if len(preferences) == 1:
            self._make_small(preferences[0][1])
            return
        middle = len(preferences) // 2
        if self._ask(conjunction([preference for preference, _ in preferences[:middle]])):
            self._satisfy(preferences[middle:], is_refused=True)
        else:
            self._satisfy(preferences[:middle], is_refused=True)
            self._satisfy(preferences[middle:])

    def _make_small(self, term: Any) -> None:
        """Find the next best of a text or number that cannot be empty, zero or usual."""
        if isinstance(term, z3.SeqRef):
            length = z3.Length(term)
            if not self._first_of([term == z3.StringVal(""), length <= 1]):
                self._first_of([length <= size for size in (8, 40, 200)])
                self._bisect(length)
        elif isinstance(term, z3.ArithRef) and not self._first_of([term == 0, term == 1]):
            self._bisect(term)

    def _bisect(self, term: Any) -> None:
        """Find the smallest number above one, if there is one."""
        low = 2
        if not self._first_of([term >= low]):
            return
        high = self._number(term)
        while low < high:
            middle = (low + high) // 2
            if self._first_of([term <= middle]):
                high = self._number(term)
            elif not self._left:
                return
            else:
                low = middle + 1

    def _first_of(self, preferences: Sequence[Any]) -> bool:
        """Satisfy the first of some preferences that can be satisfied. False if none can."""
        return any((self._holds(preference) and self._keep(preference)) or self._ask(preference) for preference in preferences)

    def _holds(self, preference: Any) -> bool:
        return bool(z3.is_true(self.model.eval(preference, model_completion=True)))

    def _number(self, term: Any) -> int:
        return int(self.model.eval(term, model_completion=True).as_long())

    def _keep(self, preference: Any) -> bool:
        self._solver.add(preference)
        return True

    def _ask(self, preference: Any) -> bool:
        if not self._left:
            return False
        self._left -= 1
        self._solver.push()
        self._solver.add(preference)
        if self._solver.check() == z3.sat:
            self.model = self._solver.model()
            return True
        self._solver.pop()
        return False


def _absences(call: SymbolicCall) -> Iterator[Any]:
    for role in call.roles.values():
        yield z3.Not(role)
    for term in call.variables.values():
        if isinstance(term, z3.BoolRef):
            yield z3.Not(term)
        elif isinstance(term, SymbolicSet):
            yield term.is_empty
            yield from (z3.Not(part) for part in reversed(term.parts))


def _first_preference(name: str, term: Any) -> Any:
    if name in USUAL:
        return term == USUAL[name]
    return term == (z3.StringVal("") if isinstance(term, z3.SeqRef) else 0)
