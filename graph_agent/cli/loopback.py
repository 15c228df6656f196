"""Loopback addresses: where a server without authentication may listen."""

from __future__ import annotations

import ipaddress


def is_loopback(host: str) -> bool:
    """True if only this machine can reach `host`. The only accepted name is localhost: others could resolve to any
    address.
    """
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"
