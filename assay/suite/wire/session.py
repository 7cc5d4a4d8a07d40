"""One session with one server: the handshake, requests with a deadline, and lists followed to their end."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self, TypeVar

from assay import __version__
from assay.suite.patterns import Undecided
from assay.suite.wire.answers import Answer, Listing, read_answer, read_page, said
from assay.suite.wire.faults import BadAnswer, Closed, Gone, HttpRefused, NoAnswer, RpcError, StartFault, TimedOut
from assay.suite.wire.transport import Message, Server, Stray, Transport, in_words, remaining

T = TypeVar("T")

HANDSHAKE = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
"""Protocol versions that begin with `initialize`, oldest first."""
MODERN = ("2026-07-28",)
"""Protocol versions without a handshake: each request says who asks; `server/discover` says who answers."""
CLIENT = {"name": "assay", "version": __version__}
MAX_PAGES = 1000
UNASKED = 0.5
"""Seconds for findings that nothing asked for."""
_META = "io.modelcontextprotocol/"
_NO_SUCH_VERSION, _NO_SUCH_METHOD = -32022, -32601
_LISTS = {
    "tools/list": "tools",
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
    "prompts/list": "prompts",
}


@dataclass(frozen=True, slots=True)
class ServerInfo:
    """What the server said of itself."""

    name: str = ""
    version: str = ""
    protocol: str = ""
    capabilities: Mapping[str, object] = field(default_factory=dict)
    instructions: str = ""


class Session:
    """An open session; a context manager. Made by `connect`.

    Not usable after `Gone` or `NoAnswer` (a server that is busy with one request may be busy for the next): close it
    and connect again.
    """

    def __init__(self, server: Server, transport: Transport) -> None:
        self.server, self.transport = server, transport
        self.info = ServerInfo()
        self.notes: list[str] = []
        self._last_id = 0
        self._declared = ""
        self._silent = False
        self._tools: Listing | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def stray(self) -> Stray:
        """What came on the server's standard output that is no message."""
        return self.transport.stray

    def close(self) -> None:
        """End the session, and the process if there is one."""
        self.transport.close(patient=not self._silent)
        if left := getattr(self.transport, "left", None):
            self.note(f"the server left running: {', '.join(left)}; it was killed")

    def note(self, text: str) -> None:
        """Remember a finding once."""
        if text not in self.notes:
            self.notes.append(text)

    def request(
        self, method: str, params: Mapping[str, object] | None = None, *, seconds: float = 0, phase: str = ""
    ) -> Mapping[str, Any]:
        """Send a request and wait for its result.

        Args:
            method: As in `tools/list`.
            params: Left out of the message when None.
            seconds: How long to wait; 0 is the server's own `call_timeout`.
            phase: What to call this in messages; the method if "".

        Raises:
            RpcError: The server refused the request.
            WireFault: The server is gone, silent, or breaks the protocol.
        """
        seconds, phase = seconds or self.server.call_timeout, phase or method
        deadline = time.monotonic() + seconds
        self._last_id += 1
        message: Message = {"jsonrpc": "2.0", "id": self._last_id, "method": method}
        if params is not None or self._declared:
            message["params"] = {**(params or {}), **self._meta()}
        odd: list[str] = []
        answer = self._guarded(phase, seconds, odd, lambda: self._exchange(message, deadline, odd))
        return self._result(answer, phase)

    def notify(self, method: str, params: Mapping[str, object] | None = None) -> None:
        """Send a notification; a fault of the transport's is left for the next request to meet."""
        message: Message = {"jsonrpc": "2.0", "method": method, **({"params": dict(params)} if params else {})}
        with contextlib.suppress(Closed, TimedOut):
            self.transport.send(message, time.monotonic() + 2.0)

    def list_all(self, method: str, *, seconds: float = 0) -> Listing:
        """Every page of a list, up to a cursor that repeats itself; the time limit is for all pages together.

        Raises:
            RpcError: The server refused.
            WireFault: As `request`.
        """
        key, seconds = _LISTS[method], seconds or self.server.call_timeout
        end = time.monotonic() + seconds
        listing, cursor, seen = Listing(), None, set()
        while True:
            params: dict[str, object] | None = None if cursor is None else {"cursor": cursor}
            try:
                left = remaining(end)
            except TimedOut:
                raise self._fault(NoAnswer, method, f"the list had not ended after {in_words(seconds)}") from None
            page = self.request(method, params, seconds=left)
            cursor = read_page(listing, page, key, lambda why: self._fault(BadAnswer, method, why), end)
            if cursor is None:
                break
            if cursor in seen or listing.pages >= MAX_PAGES:
                repeats = f"page {listing.pages} repeats the cursor {cursor!r}"
                listing.endless = repeats if cursor in seen else f"{MAX_PAGES} pages and no end"
                break
            seen.add(cursor)
        for problem in listing.problems:
            self.note(f"{method}: {problem}")
        if method == "tools/list":
            self._tools = listing
        return listing

    def tool(self, name: str) -> Mapping[str, Any] | None:
        """A tool as the server lists it (the list is asked for once); None if it is not listed."""
        tools = self._tools or self.list_all("tools/list")
        return tools.named(name)

    def call(self, name: str, args: Mapping[str, object] | None = None, *, seconds: float = 0) -> Answer:
        """Call a tool. An error that the tool or the protocol reports is an answer, not an exception.

        Raises:
            WireFault: As `request`.
        """
        phase = f"tools/call {name}"
        params = {"name": name, "arguments": dict(args or {})}
        start = time.perf_counter()
        try:
            result = self.request("tools/call", params, seconds=seconds, phase=phase)
        except RpcError as error:
            return Answer(refused=error, seconds=time.perf_counter() - start)
        answer = read_answer(result, time.perf_counter() - start, lambda why: self._fault(BadAnswer, phase, why))
        self._compare_with_declared(name, answer)
        return answer

    def _compare_with_declared(self, name: str, answer: Answer) -> None:
        """Note an answer that its tool's output schema does not allow, if the tools were listed already.

        Nothing asked for it, so it may neither take long nor match the server's patterns.
        """
        tool = self._tools.named(name) if self._tools is not None else None
        if tool is None:
            return
        with contextlib.suppress(Undecided):
            if problem := answer.breaks(tool.get("outputSchema"), time.monotonic() + UNASKED, patterns=False):
                self.note(f"tools/call {name}: {problem}")

    def _exchange(self, message: Message, deadline: float, odd: list[str]) -> Message:
        self.transport.send(message, deadline)
        while True:
            answer = self.transport.receive(deadline)
            if "method" in answer:
                if "id" in answer:
                    self._serve(answer, deadline)
            elif answer.get("id") == message["id"]:
                return answer
            else:
                odd.append(repr(answer.get("id")))
            remaining(deadline)

    def _serve(self, asked: Message, deadline: float) -> None:
        """Answer what the server asks of the client: ping, and the roots if they were declared."""
        reply: Message = {"jsonrpc": "2.0", "id": asked["id"]}
        if asked["method"] == "ping":
            reply["result"] = {}
        elif asked["method"] == "roots/list" and "roots" in self.server.capabilities:
            reply["result"] = {"roots": [{"uri": uri} for uri in self.server.roots]}
        else:
            reply["error"] = {"code": _NO_SUCH_METHOD, "message": "a suite does not answer this"}
        self.transport.send(reply, deadline)

    def _guarded(self, phase: str, seconds: float, odd: list[str], work: Callable[[], T]) -> T:
        try:
            return work()
        except TimedOut:
            self._silent = True
            opening = phase in ("initialize", "server/discover")
            why = f"no answer within {in_words(self.server.connect_timeout if opening else seconds)}"
            if odd:
                why += f" (an answer to request {odd[0]} came, which nothing asked for)"
            if self._last_id and phase != "initialize":
                self.notify("notifications/cancelled", {"requestId": self._last_id, "reason": "timeout"})
            raise self._fault(NoAnswer, phase, why) from None
        except HttpRefused as error:
            raise self._fault(Refusal, phase, str(error), error.status) from None
        except Closed as error:
            raise self._fault(Gone, phase, str(error)) from None

    def _result(self, answer: Message, phase: str) -> Mapping[str, Any]:
        error = answer.get("error")
        if error is not None:
            if not isinstance(error, dict) or type(error.get("code")) is not int:
                raise self._fault(BadAnswer, phase, f"malformed error: {said(error)} has no whole number as its code")
            raise RpcError(error["code"], str(error.get("message", "")), error.get("data"))
        result = answer.get("result")
        if not isinstance(result, dict):
            raise self._fault(BadAnswer, phase, f"malformed answer: result is {said(result)}, not an object")
        if result.get("resultType") == "input_required":
            raise self._fault(BadAnswer, phase, "the server asks for more input, which a suite cannot give")
        return result

    def _fault(self, kind: type[F], phase: str, cause: str, *more: Any) -> F:
        return kind(phase, cause, self.transport.evidence(), *more)

    def _meta(self) -> dict[str, object]:
        if not self._declared:
            return {}
        return {
            "_meta": {
                f"{_META}protocolVersion": self._declared,
                f"{_META}clientInfo": CLIENT,
                f"{_META}clientCapabilities": dict(self.server.capabilities),
            }
        }

    def initialize(self, seconds: float) -> str:
        """Shake hands. Returns "" when done, or the version to talk in to a server that has no handshake."""
        pinned = self.server.protocol
        params = {"protocolVersion": pinned or HANDSHAKE[-1], "capabilities": dict(self.server.capabilities)}
        try:
            result = self.request("initialize", {**params, "clientInfo": CLIENT}, seconds=seconds)
        except RpcError as error:
            if error.code == _NO_SUCH_VERSION and not pinned:
                return self._mutual(error.data)
            if error.code == _NO_SUCH_METHOD and not pinned:
                return MODERN[-1]
            raise self._fault(StartFault, "initialize", f"the server refused: {error}") from None
        self._adopt(result)
        self._tell_protocol(self.info.protocol)
        self.notify("notifications/initialized")
        return ""

    def _mutual(self, data: object) -> str:
        """The newest version that both speak, of what a server names in refusing one."""
        named = data.get("supported") if isinstance(data, dict) else None
        supported = [str(version) for version in named] if isinstance(named, list) else []
        mutual = [version for version in MODERN if version in supported]
        if not mutual:
            why = f"the server speaks {', '.join(supported) or 'no version it names'}; this client speaks "
            raise self._fault(StartFault, "initialize", why + ", ".join((*HANDSHAKE, *MODERN)))
        return mutual[-1]

    def discover(self, version: str, seconds: float) -> None:
        """Open a session of the kind that has no handshake."""
        self._declared = version
        self._tell_protocol(version)
        try:
            result = self.request("server/discover", seconds=seconds)
        except RpcError as error:
            raise self._fault(StartFault, "server/discover", f"the server refused: {error}") from None
        meta = result.get("_meta")
        info = meta.get(f"{_META}serverInfo") if isinstance(meta, dict) else None
        self._adopt({"serverInfo": info, **result, "protocolVersion": self._declared}, "server/discover")

    def _adopt(self, result: Mapping[str, Any], phase: str = "initialize") -> None:
        version, abilities, info = (result.get(key) for key in ("protocolVersion", "capabilities", "serverInfo"))
        if not isinstance(version, str):
            raise self._fault(StartFault, phase, f"malformed answer: protocolVersion is {said(version)}")
        if version not in (*HANDSHAKE, *MODERN):
            known = ", ".join((*HANDSHAKE, *MODERN))
            why = f"the server chose protocol version {version!r}; this client speaks {known}"
            raise self._fault(StartFault, phase, why)
        if self.server.protocol not in ("", version):
            why = f"the server chose protocol version {version}, the suite insists on {self.server.protocol}"
            raise self._fault(StartFault, phase, why)
        if not isinstance(abilities, dict):
            raise self._fault(StartFault, phase, f"malformed answer: capabilities is {said(abilities)}")
        if not isinstance(info, dict) or not isinstance(info.get("name"), str):
            self.note(f"{phase}: the server does not say its name")
            info = {}
        about = result.get("instructions")
        self.info = ServerInfo(
            str(info.get("name", "")),
            str(info.get("version", "")),
            version,
            abilities,
            about if isinstance(about, str) else "",
        )

    def _tell_protocol(self, version: str) -> None:
        if hasattr(self.transport, "protocol"):
            self.transport.protocol = version


class Refusal(Gone):
    """The server answered with an HTTP status that is no answer; see `HttpRefused`."""

    def __init__(self, phase: str, cause: str, evidence: Mapping[str, str], status: int) -> None:
        self.status = status
        super().__init__(phase, cause, evidence)


F = TypeVar("F", bound=Gone | NoAnswer | BadAnswer | StartFault)
