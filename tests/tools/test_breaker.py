"""The circuit breaker of a server."""

from __future__ import annotations

from graph_agent.clock import ManualClock
from graph_agent.tools.session import CircuitBreaker


def test_the_first_failure_is_retried_at_once_and_each_further_one_doubles_the_back_off() -> None:
    clock = ManualClock()
    breaker = CircuitBreaker(clock)
    waits = []
    for _ in range(9):
        breaker.record_failure()
        waited = 0
        while breaker.open:
            clock.advance(seconds=0.5)
            waited += 1
        waits.append(waited / 2)
    assert waits == [0, 1, 2, 4, 8, 16, 32, 60, 60]


def test_an_answer_ends_the_back_off() -> None:
    breaker = CircuitBreaker(ManualClock())
    breaker.record_failure()
    breaker.record_failure()
    assert (breaker.open, breaker.failing) == (True, True)
    breaker.record_success()
    assert (breaker.open, breaker.failing) == (False, False)
