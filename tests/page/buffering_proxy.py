"""A reverse proxy that sends a response only when it is complete, as some company proxies do with event streams."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

_HOP_BY_HOP = frozenset({"transfer-encoding", "connection", "content-length"})


@contextmanager
def buffering_proxy(upstream: str) -> Iterator[str]:
    """Yield the address of a proxy in front of `upstream`."""
    address = urlsplit(upstream).netloc

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def forward(self) -> None:
            length = int(self.headers.get("content-length", 0))
            connection = http.client.HTTPConnection(address)
            connection.request(self.command, self.path, self.rfile.read(length) or None, dict(self.headers))
            answer = connection.getresponse()
            body = answer.read()
            connection.close()
            self.send_response(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in {*_HOP_BY_HOP, "date", "server"}:
                    self.send_header(name, value)
            if answer.status not in (204, 304):
                self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = do_DELETE = forward  # noqa: N815 (the names that the base class calls)

        def handle_one_request(self) -> None:
            try:
                super().handle_one_request()
            except ConnectionError:
                # The page has given up this response.
                self.close_connection = True

        def log_message(self, *_: object) -> None:
            """Write nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()
