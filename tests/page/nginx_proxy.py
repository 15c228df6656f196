"""nginx in front of a server, with the configuration in `deploy/`."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import httpx

from tests.serving import free_ports

NGINX = shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
SITE = (Path(__file__).parents[2] / "deploy" / "nginx.conf").read_text(encoding="utf-8")
FRAME = """\
daemon off;
master_process off;
pid {folder}/nginx.pid;
error_log stderr;
events {{}}
http {{
    access_log off;
    {temporary}
    {site}
}}
"""


def configuration(folder: Path, port: int, upstream: str, *, keep_path: bool) -> str:
    """Return a configuration for `upstream`. With `keep_path` the proxy does not remove /agent from the paths."""
    passed = "http://127.0.0.1:8000/;"
    assert passed in SITE
    site = SITE.replace("listen 8080", f"listen 127.0.0.1:{port}")
    site = site.replace(passed, f"http://{urlsplit(upstream).netloc}{'' if keep_path else '/'};")
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    temporary = "\n".join(f"{kind}_temp_path {folder}/{kind};" for kind in kinds)
    return FRAME.format(folder=folder, temporary=temporary, site=site)


@contextmanager
def nginx_proxy(folder: Path, upstream: str, *, keep_path: bool = False) -> Iterator[str]:
    """Yield the address under which nginx serves `upstream`: a path of its host."""
    assert NGINX is not None
    [port] = free_ports(1)
    file = folder / "nginx.conf"
    file.write_text(configuration(folder, port, upstream, keep_path=keep_path), encoding="utf-8")
    command = [NGINX, "-e", "stderr", "-p", str(folder), "-c", str(file)]
    subprocess.run([*command, "-t", "-q"], check=True)
    with subprocess.Popen(command) as process:
        try:
            # It accepts connections a moment after its start.
            with httpx.Client(transport=httpx.HTTPTransport(retries=10)) as client:
                assert client.get(f"http://127.0.0.1:{port}/agent/healthz").status_code == 200
            yield f"http://127.0.0.1:{port}/agent"
        finally:
            process.terminate()
