"""What of a repository no agent may see: files of secrets, keys by what they begin with, and what the user excludes."""

from __future__ import annotations

import re
from collections.abc import Sequence

from assay.model.errors import UsageError
from assay.model.ignored import compiled

KEYS = (
    r"\.env[^/]*",
    r"[^/]*\.(?:pem|key|p12|pfx|jks|keystore|ppk|kdbx|p8)",
    r"id_(?:rsa|dsa|ecdsa|ed25519)[^/]*",
    r"\.(?:netrc|pgpass|pypirc|npmrc|htpasswd|git-credentials|dockercfg|ssh|gnupg|aws|kube)",
    r"secring\.[^/]*",
    r"[^/]*(?:service[-_]account|client[-_]secret)[^/]*\.json",
    r"credentials\.json",
    r"\.credentials[^/]*",
)
"""Names of files and folders that are never shown."""

_KEYS = re.compile(rf"(?:^|/)(?:{'|'.join(KEYS)})(?:/|$)", re.IGNORECASE | re.DOTALL)

_PRIVATE = re.compile(rb"\s*(?:-----BEGIN [A-Z0-9 ]*PRIVATE KEY|PuTTY-User-Key-File-|AGE-SECRET-KEY-1)")
HEAD = 4096
"""Bytes that tell a private key."""


def is_private_key(head: bytes) -> bool:
    """Whether a file that begins like this is a private key, whatever its name."""
    return _PRIVATE.match(head, 0, HEAD) is not None


class Withheld:
    """Decides by name.

    Args:
        exclude: Patterns as in .gitignore; a later one decides over an earlier one, `!` shows again. Keys stay hidden.

    Raises:
        UsageError: A pattern means nothing.
    """

    def __init__(self, exclude: Sequence[str] = ()) -> None:
        try:
            self._patterns = [pattern for text in exclude if (pattern := compiled(text)) is not None]
        except ValueError as error:
            msg = f"ask.exclude: {error}"
            raise UsageError(msg) from None

    def why(self, name: str, *, folder: bool = False) -> str:
        """Why this path is not shown, "" if it is; a folder's reason holds for all that is in it."""
        path = f"{name}/" if folder else name
        if _KEYS.search(name):
            return "may hold a secret"
        hidden = ""
        for shows, pattern, text in self._patterns:
            if pattern.match(path):
                hidden = "" if shows else f"excluded by {text}"
        return hidden
