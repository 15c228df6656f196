"""Addresses that no configured URL may lead to: there, clouds give their credentials to every program that asks.

A URL is checked with the addresses of its host before anything is sent, and `connections.py` connects to a checked address.
"""

from __future__ import annotations

import socket
from contextlib import suppress
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from urllib.parse import urlsplit

_METADATA = frozenset(
    map(ip_address, ("100.100.100.200", "168.63.129.16", "192.0.0.192", "fd00:42::42", "fd00:ec2::254", "fd20:ce::254"))
)
"""Metadata services whose address is not link-local: Alibaba, Azure, Oracle, and over IPv6 Scaleway, Amazon, Google."""
_TRANSLATED = ip_network("64:ff9b::/96")
"""IPv4 behind a translator (NAT64). Networks without IPv4 reach public servers by it, so a public address is allowed."""
_TUNNELS = tuple(map(ip_network, ("::/96", "::ffff:0:0:0/96", "64:ff9b:1::/48", "2001::/32", "2002::/16", "fec0::/10")))
"""Obsolete or local ways to write an address within another one, by which a private address passes for a public one."""


class RefusedAddressError(ConnectionError):
    """The host of a URL is a link-local address, a tunnel or a metadata service."""


class InsecureUrlError(ConnectionError):
    """The URL is plain `http:` and leads to another machine, which is not allowed."""


def require_allowed_host(url: str) -> None:
    """Raise `RefusedAddressError` if an address of the URL's host is not allowed. Blocks for the name lookup.

    A host that cannot be looked up is left to the client, which reports it.
    """
    with suppress(socket.gaierror, UnicodeError):
        allowed_addresses(urlsplit(url).hostname or "")


def allowed_addresses(host: str) -> list[str]:
    """Return the addresses of `host` in the order of the resolver. Raises `RefusedAddressError` if one is not allowed.

    Blocks for the name lookup. Raises `socket.gaierror` or UnicodeError for a host that cannot be looked up.
    """
    found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    addresses = list(dict.fromkeys(str(address[4][0]) for address in found))
    if any(map(_is_refused, addresses)):
        raise RefusedAddressError("the URL leads to a link-local address, a tunnel or a metadata service")
    return addresses


def require_protected(url: str, *, allow_http: bool = False) -> None:
    """Raise `InsecureUrlError` unless the URL is `https:`, or `http:` of this machine or where the operator allows it."""
    parts = urlsplit(url)
    if parts.scheme != "https" and not (parts.scheme == "http" and (allow_http or is_loopback(parts.hostname or ""))):
        raise InsecureUrlError("the URL is plain http: and leads to another machine")


def is_loopback(host: str) -> bool:
    """True if only this machine can reach `host`. The only accepted name is localhost: others could resolve to any
    address.
    """
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def _is_refused(address: str) -> bool:
    ip = ip_address(address.partition("%")[0])
    if isinstance(ip, IPv6Address):
        if ip in _TRANSLATED:
            embedded = IPv4Address(int(ip) & 0xFFFFFFFF)
            return not embedded.is_global or embedded in _METADATA
        if not ip.is_loopback and any(ip in tunnel for tunnel in _TUNNELS):
            return True
        ip = ip.ipv4_mapped or ip
    return ip.is_link_local or ip in _METADATA
