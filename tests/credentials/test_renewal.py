"""Which renewed file may replace the user's own. The agent may have written anything in it."""

from __future__ import annotations

import base64
import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from assay.sandbox import credential_file
from assay.sandbox.credential_file import refusal

GIVEN = json.loads((Path(__file__).parent / "codex-auth.json").read_text())
ACCOUNT = "tokens.account_id"

Change = Callable[[dict[str, Any]], object]


def token(exp: int) -> str:
    claims = base64.urlsafe_b64encode(json.dumps({"exp": exp}).encode()).decode().rstrip("=")
    return f"eyJhbGciOiAibm9uZSJ9.{claims}.c2lnbmF0dXJl"


def renewal(change: Change | None = None) -> bytes:
    """What the CLI writes when it has renewed its tokens, and then something else."""
    new = copy.deepcopy(GIVEN)
    new["tokens"]["access_token"], new["tokens"]["refresh_token"] = token(1796900000), "rt_renewed"
    new["last_refresh"] = "2026-11-30T14:00:00.000000000Z"
    if change is not None:
        change(new)
    return json.dumps(new).encode()


def test_a_renewal_is_taken_whatever_the_order_of_its_keys() -> None:
    new = json.loads(renewal())
    turned = {key: new[key] for key in reversed(list(new))}
    for data in (renewal(), json.dumps(turned, indent=4).encode()):
        assert refusal(json.dumps(GIVEN).encode(), data, ACCOUNT) is None


CHANGES: dict[str, tuple[Change, str]] = {
    "a key more": (lambda new: new.update(more=1), "another shape"),
    "a key less": (lambda new: new.pop("last_refresh"), "another shape"),
    "a token that is a number": (lambda new: new["tokens"].update(refresh_token=1), "another shape"),
    "a token that is a table": (lambda new: new["tokens"].update(refresh_token={"a": "b"}), "another shape"),
    "another account": (lambda new: new["tokens"].update(account_id="acct-mine"), "another account"),
    "an empty token": (lambda new: new["tokens"].update(refresh_token=""), "empty tokens"),
    "a blank token": (lambda new: new["tokens"].update(refresh_token="  "), "empty tokens"),
    "an earlier time": (lambda new: new.update(last_refresh="2026-11-30T11:00:00Z"), "older than"),
    "a token that ends earlier": (lambda new: new["tokens"].update(access_token=token(1700000000)), "older than"),
    "the old tokens": (lambda new: new.update(tokens=GIVEN["tokens"]), "the old ones"),
}


@pytest.mark.parametrize(("change", "why"), CHANGES.values(), ids=CHANGES)
def test_is_not_taken(change: Change, why: str) -> None:
    said = refusal(json.dumps(GIVEN).encode(), renewal(change), ACCOUNT)
    assert said is not None
    assert why in said


BYTES = {
    "nothing": b"",
    "no JSON": b"\xff\xfe",
    "a list": b"[1]",
    "too deep": b"[" * 60_000,
    "a huge number": b'{"tokens": ' + b"9" * 60_000 + b"}",
    "too deep a table": b'{"a":' * 10_000 + b"1" + b"}" * 10_000,
}


@pytest.mark.parametrize("data", BYTES.values(), ids=BYTES)
def test_hostile_bytes_are_only_refused(data: bytes) -> None:
    assert refusal(json.dumps(GIVEN).encode(), data, ACCOUNT) is not None
    credential_file.renewed_values(data)
    list(credential_file.secret_values(data))


def test_a_signed_out_file_is_not_taken() -> None:
    """Claude Code writes this when its refresh token was refused."""
    given = {"claudeAiOauth": {"accessToken": "a" * 20, "refreshToken": "b" * 20, "expiresAt": 1796820755000}}
    out = {"claudeAiOauth": {"accessToken": "", "refreshToken": "", "expiresAt": 0}}
    assert refusal(json.dumps(given).encode(), json.dumps(out).encode(), None) == "it has empty tokens"


def test_words_from_the_container_are_no_secrets() -> None:
    """An agent that calls a line of its log a token would have it struck out of the record."""
    tricks = {"access_token": "rm -rf /app/checker", "refresh_token": "short", "id_token": "x" * 40}
    assert credential_file.renewed_values(json.dumps(tricks).encode()) == ["x" * 40]
    many = {f"token{n}": f"{n:040d}" for n in range(500)}
    assert len(credential_file.renewed_values(json.dumps(many).encode())) == credential_file.MOST_SECRETS


@pytest.mark.parametrize(
    ("value", "year"),
    [
        (1796820755, 2026),
        (1796820755000, 2026),
        ("2026-11-30T12:52:35.000000000Z", 2026),
        ("2026-11-30T12:52:35+02:00", 2026),
        (True, None),
        ("soon", None),
        (1e300, None),
        (float("nan"), None),
        (None, None),
    ],
)
def test_times_in_every_unit(value: object, year: int | None) -> None:
    at = credential_file.moment(value)
    assert (at.year if at else None) == year
