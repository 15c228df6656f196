"""The limits on open connections."""

from __future__ import annotations

import asyncio
import resource
import socket

import pytest

from graph_agent.api.connections import (
    MAX_CONNECTIONS,
    RESERVED_DESCRIPTORS,
    ConnectionLimits,
    OpenConnections,
    raise_descriptor_limit,
)


class Client(asyncio.Transport):
    aborted = False

    def abort(self) -> None:
        self.aborted = True


def _add(connections: OpenConnections, address: str, count: int) -> list[Client]:
    clients = [Client() for _ in range(count)]
    assert all(connections.add(client, address) for client in clients)
    return clients


def test_the_connection_that_has_waited_longest_makes_room() -> None:
    connections = OpenConnections(ConnectionLimits(total=3, per_address=3))
    first, second, third = _add(connections, "a", 3)
    connections.mark_serving(first)
    _add(connections, "b", 1)
    assert [client.aborted for client in (first, second, third)] == [False, True, False]
    connections.mark_waiting(first)
    _add(connections, "b", 1)
    assert [client.aborted for client in (first, second, third)] == [False, True, True]
    assert len(connections) == 3


def test_a_connection_whose_request_was_not_read_yet_is_not_closed_for_another() -> None:
    connections = OpenConnections(ConnectionLimits(total=1, per_address=1))
    served, client = socket.socketpair()
    with served, client:
        waiting = Client({"socket": served})
        assert connections.add(waiting, "a")
        client.sendall(b"GET")
        assert not connections.add(Client(), "a")
        served.recv(3)
        assert connections.add(Client(), "a")
        assert waiting.aborted


def test_an_address_at_its_limit_closes_only_its_own_connections() -> None:
    connections = OpenConnections(ConnectionLimits(total=4, per_address=2))
    [other] = _add(connections, "b", 1)
    greedy = _add(connections, "a", 10)
    assert [client.aborted for client in greedy] == [True] * 8 + [False] * 2
    assert not other.aborted


def test_a_connection_is_refused_where_all_are_being_served() -> None:
    connections = OpenConnections(ConnectionLimits(total=4, per_address=2))
    served = _add(connections, "a", 2)
    for client in served:
        connections.mark_serving(client)
    assert not connections.add(Client(), "a")
    assert connections.add(Client(), "b")
    connections.remove(served[0])
    connections.remove(served[0])
    assert connections.add(Client(), "a")
    assert len(connections) == 3


@pytest.mark.parametrize("descriptors", [16, 256, 1024, 20_000, 1_000_000])
def test_the_limits_stay_below_the_descriptors(descriptors: int) -> None:
    limits = ConnectionLimits.below(descriptors)
    assert 1 <= limits.per_address < limits.total < descriptors
    assert limits.total <= MAX_CONNECTIONS
    if descriptors >= 2 * RESERVED_DESCRIPTORS:
        assert limits.total <= descriptors - RESERVED_DESCRIPTORS


def test_the_soft_limit_on_descriptors_is_raised_to_the_hard_limit() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 512), hard))
    try:
        raised = raise_descriptor_limit()
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == hard
        assert raised == hard or hard == resource.RLIM_INFINITY
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
