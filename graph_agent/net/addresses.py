"""Addresses that no configured URL may lead to: there, clouds give their credentials to every program that asks.

A URL is checked with the addresses of its host, before anything is sent.
"""

from __future__ import annotations

import socket
from contextlib import suppress
from ipaddress import IPv6Address, ip_address
from urllib.parse import urlsplit

_METADATA = frozenset(map(ip_address, ("100.100.100.200", "192.0.0.192", "fd00:ec2::254")))
"""Metadata services whose address is not link-local: Alibaba, Oracle, Amazon over IPv6."""


class RefusedAddressError(ConnectionError):
    """The host of a URL is a link-local address or a metadata service."""


def require_allowed_host(url: str) -> None:
    """Raise `RefusedAddressError` if an address of the URL's host is not allowed. Blocks for the name lookup.

    A host that cannot be looked up is left to the client, which reports it.
    """
    host = urlsplit(url).hostname or ""
    addresses: set[str] = set()
    with suppress(OSError, UnicodeError):
        addresses = {str(found[4][0]) for found in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)}
    if any(map(_is_refused, addresses)):
        raise RefusedAddressError("the URL leads to a link-local address or a metadata service")


def _is_refused(address: str) -> bool:
    ip = ip_address(address.partition("%")[0])
    if isinstance(ip, IPv6Address) and ip.ipv4_mapped is not None:
        ip = ip.ipv4_mapped
    return ip.is_link_local or ip in _METADATA
