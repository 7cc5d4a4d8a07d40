"""What an `inject` gate adds: it ends the agent's TLS, and puts the credential where a request carries the placeholder.

The look at the TLS hello comes first, as in an `sni` gate. A connection that may pass goes on, inside the same haproxy,
to an entrance of that one host, so that nothing said within TLS (a `Host` header, an absolute URI) leads elsewhere. A
request passes only below the entry's paths, and only with this run's placeholder in every credential header that it
has, and none in its query: somebody else's key could carry data to somebody else's account at the very same vendor.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from typing import NamedTuple

from assay.sandbox.rules import Pin

KEYS = "/run/fence/keys"
"""Where certificates and configuration lie while haproxy reads them: in memory, and gone once it listens."""

CREDENTIAL = "ASSAY_CREDENTIAL"
SOCKETS = "/run/fence/haproxy"
AUTHORITIES = "/etc/ssl/certs/ca-certificates.crt"

INJECTED, NO_PATH, IN_QUERY, NO_PLACEHOLDER, TRACE = "injected", "no-path", "in-query", "no-placeholder", "trace"
WHY = {
    NO_PATH: "not below a path of the entry",
    IN_QUERY: "a credential in the query, where none is put in",
    NO_PLACEHOLDER: "without this run's placeholder",
    TRACE: "asks to be sent back as it arrives",
}
TELLING = ("key", "token", "auth", "secret", "cred", "pass", "sign", "bearer", "header")
"""What names a parameter of a query that may carry a credential, or (Google's `$httpHeaders`) a header with one."""

UNREACHED = "SC"
"""haproxy's word for a server that refused, did not answer, or showed no certificate of its own."""


class Injection(NamedTuple):
    """All that a gate needs to speak for the agent; arrives on its standard input and stays in memory.

    Attributes:
        placeholder: What the agent has instead of the credential.
        headers: Those that may carry it, in lower case.
        paths: Beginnings of paths that may be asked for.
        leaves: Certificate and key for each host, in PEM.
        trust: Authorities that vouch for the vendor, in PEM.
        public: Whether the public ones do too.
    """

    placeholder: str
    credential: str
    headers: tuple[str, ...]
    paths: tuple[str, ...]
    leaves: tuple[tuple[str, str], ...]
    trust: str = ""
    public: bool = True

    def written(self) -> bytes:
        """As one line."""
        return json.dumps(self).encode("ascii") + b"\n"


def read(line: str) -> Injection:
    """What `written` wrote."""
    placeholder, credential, headers, paths, leaves, trust, public = json.loads(line)
    return Injection(
        placeholder, credential, tuple(headers), tuple(paths), tuple((h, p) for h, p in leaves), trust, public
    )


@contextlib.contextmanager
def laid_out(injection: Injection) -> Iterator[str]:
    """The files that haproxy reads at its start; the folder, where its configuration goes too."""
    public = ""
    if injection.public:
        with open(AUTHORITIES, encoding="ascii") as file:  # noqa: PTH123 (pathlib costs start-up time)
            public = file.read()
    files = {f"{host}.pem": pem for host, pem in injection.leaves} | {"trust": public + injection.trust}
    try:
        for name, text in files.items():
            with open(f"{KEYS}/{name}", "w", encoding="ascii") as file:  # noqa: PTH123
                file.write(text)
        yield KEYS
    finally:
        for name in os.listdir(KEYS):  # noqa: PTH208
            os.unlink(f"{KEYS}/{name}")  # noqa: PTH108


def settings(injection: Injection) -> list[str]:
    """For the global part. A credential may hold any character, so each byte is written as its number."""
    number = "".join(f"\\x{byte:02x}" for byte in injection.credential.encode("utf-8", "surrogateescape"))
    return [f"  setenv {CREDENTIAL} {number}"]


def entrance(n: int, port: int) -> str:
    """Where connections of a host go on to."""
    return f"unix@{SOCKETS}/host_{n}_{port}"


def way_out(port: int) -> str:
    """Where a connection to the vendor goes on to, if it leaves through a corporate proxy."""
    return f"{SOCKETS}/out_{port}"


def host(n: int, pin: Pin, port: int, servers: list[str], injection: Injection) -> list[str]:
    """Entrance and back end of one host and port.

    Args:
        n: The host's number.
        pin: The host.
        port: On both sides.
        servers: Where the vendor is, as haproxy writes it.
        injection: What is put in.
    """
    verified = f"ssl verify required ca-file {KEYS}/trust sni str({pin.host}) verifyhost {pin.host}"
    return [
        f"frontend inner_{n}_{port}",
        "  mode http",
        f"  bind {entrance(n, port)} mode 600 ssl crt {KEYS}/{pin.host}.pem alpn h2,http/1.1",
        # Told as soon as the answer begins: one that streams may go on for an hour.
        "  option logasap",
        "  option http-no-delay",
        f'  log-format "%[var(txn.what)] %ts {pin.host}%[var(txn.path)]"',
        *(f"  {rule}" for rule in _rules(pin.host, injection)),
        f"  default_backend vendor_{n}_{port}",
        f"backend vendor_{n}_{port}",
        "  mode http",
        "  balance roundrobin",
        "  option redispatch 1",
        # An agent that hangs up has the vendor stop as well.
        "  option abortonclose",
        "  option http-no-delay",
        "  timeout tunnel 1h",
        *(f"  server s{k} {server} {verified}" for k, server in enumerate(servers)),
    ]


def _rules(host: str, injection: Injection) -> Iterator[str]:
    """What is done to a request, in this order."""
    yield "http-request set-var(txn.path) path"
    yield f"http-request set-var(txn.what) str({NO_PATH})"
    # Whoever reads the path at the vendor's may take `/v1/../x` for `/x`.
    yield r"acl winding path -m reg -i '(\.\.|%2e|%2f|%5c|\\)'"
    yield f"acl below path_beg {' '.join(injection.paths)}"
    yield "http-request deny deny_status 403 if winding or !below"
    yield f"http-request set-var(txn.what) str({IN_QUERY})"
    # Looked at as the vendor reads it, with its escapes undone: a parameter's name, and our placeholder anywhere.
    yield f"acl asks_with query,url_dec(1) -m reg -i '(^|[?&;])[^=&;]*({'|'.join(TELLING)})[^=&;]*(=|$|[&;])'"
    yield f"acl asks_with query,url_dec(1) -m sub {injection.placeholder}"
    yield "acl asks query -m len gt 0"
    yield "acl readable query,url_dec(1) -m len gt 0"
    yield "http-request deny deny_status 403 if asks_with or asks !readable"
    yield f"http-request set-var(txn.what) str({NO_PLACEHOLDER})"
    for n, header in enumerate(injection.headers):
        yield f"acl has_{n} req.fhdr_cnt({header}) gt 0"
        yield f"acl twice_{n} req.fhdr_cnt({header}) gt 1"
        yield f"acl ours_{n} req.fhdr({header}) -m reg '^([A-Za-z]+ )?{injection.placeholder}$'"
        yield f"http-request deny deny_status 403 if twice_{n} or has_{n} !ours_{n}"
    yield "http-request deny deny_status 403 if " + " ".join(f"!has_{n}" for n, _ in enumerate(injection.headers))
    yield f"http-request set-var(txn.what) str({TRACE})"
    yield "http-request deny deny_status 403 if METH_TRACE"
    yield f"http-request set-var(txn.what) str({INJECTED})"
    for n, header in enumerate(injection.headers):
        scheme = f"req.fhdr({header}),regsub({injection.placeholder},)"
        yield f"http-request set-var(txn.scheme_{n}) {scheme} if has_{n}"
        yield f"http-request set-header {header} %[var(txn.scheme_{n})]%[env({CREDENTIAL})] if has_{n}"
    yield "http-request set-uri %[pathq]"
    yield f"http-request set-header host {host}"
