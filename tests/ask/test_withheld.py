"""What no agent may see, by name and by what a file begins with."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from assay.model.errors import UsageError
from assay.run.withheld import Withheld, is_private_key


@pytest.mark.parametrize(
    "name",
    [
        ".env",
        ".env.production",
        ".envrc",
        "deploy/.env.local",
        ".ENV",
        ".env/settings",
        "certs/server.pem",
        "server.KEY",
        "id_rsa",
        "home/.ssh/config",
        ".aws/credentials",
        ".netrc",
        "x/.npmrc",
        "prod-service-account-1.json",
        "client_secret_12.json",
        "credentials.json",
        "a/b/store.jks",
    ],
)
def test_secrets_are_withheld(name: str) -> None:
    assert Withheld().why(name) == "may hold a secret"
    assert Withheld(["!*", f"!{name}"]).why(name), "no pattern shows a secret again"


@pytest.mark.parametrize(
    "name",
    ["env.py", "src/environment.ts", "credentials.py", "keys.md", "monkey", "turnkey.c", "a.environ", "tests/pem.py"],
)
def test_source_is_not_withheld(name: str) -> None:
    assert Withheld().why(name) == ""


PATTERNS = [
    "*.log",
    "build/",
    "/top",
    "docs/*.md",
    "**/cache",
    "a/**/z",
    "deep/**",
    "file?.c",
    "[ab].h",
    "[!ab].o",
    "*.txt",
    "!keep.txt",
    "\\#odd",
    "# a comment",
    "",
    "space\\ ",
    "sub/dir/",
]
NAMES = [
    "x.log",
    "p/q/x.log",
    "build/out",
    "p/build/out",
    "build",
    "top",
    "p/top",
    "docs/a.md",
    "docs/p/a.md",
    "p/docs/a.md",
    "cache",
    "p/q/cache/f",
    "a/z",
    "a/b/c/z",
    "a/zz",
    "deep/x",
    "deep/x/y",
    "file1.c",
    "file12.c",
    "a.h",
    "c.h",
    "a.o",
    "c.o",
    "n.txt",
    "keep.txt",
    "p/keep.txt",
    "#odd",
    "sub/dir/f",
    "p/sub/dir/f",
    "plain.py",
]


def test_patterns_mean_what_git_makes_of_them(tmp_path: Path) -> None:
    """Git itself is asked, one pattern after the other."""
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    for pattern in PATTERNS:
        (tmp_path / ".gitignore").write_text(f"{pattern}\n")
        asked = subprocess.run(
            ["git", "check-ignore", "--no-index", "-z", "--stdin"],
            cwd=tmp_path,
            input="\0".join(NAMES),
            text=True,
            capture_output=True,
            check=False,
        )
        ignored = set(asked.stdout.split("\0")) - {""}
        rules = Withheld([pattern])
        assert {name for name in NAMES if rules.why(name)} == ignored, pattern


def test_a_later_pattern_decides() -> None:
    rules = Withheld(["*.txt", "!keep.txt"])
    assert rules.why("n.txt") == "excluded by *.txt"
    assert rules.why("p/keep.txt") == ""


@pytest.mark.parametrize("pattern", ["/", "!/", "//", "[b-a]"])
def test_a_pattern_that_means_nothing_is_refused(pattern: str) -> None:
    with pytest.raises(UsageError, match="would be shown"):
        Withheld([pattern])


@pytest.mark.parametrize(
    ("head", "key"),
    [
        (b"-----BEGIN PRIVATE KEY-----\nMIIE", True),
        (b"-----BEGIN RSA PRIVATE KEY-----\n", True),
        (b"-----BEGIN OPENSSH PRIVATE KEY-----\n", True),
        (b"\n  -----BEGIN EC PRIVATE KEY-----\n", True),
        (b"-----BEGIN PGP PRIVATE KEY BLOCK-----\n", True),
        (b"PuTTY-User-Key-File-2: ssh-rsa\n", True),
        (b"AGE-SECRET-KEY-1QQQ", True),
        (b"-----BEGIN PUBLIC KEY-----\n", False),
        (b"-----BEGIN CERTIFICATE-----\n", False),
        (b"MARK = '-----BEGIN PRIVATE KEY'\n", False),
        (b"", False),
    ],
)
def test_private_keys_are_known_by_their_beginning(head: bytes, key: bool) -> None:
    assert is_private_key(head) is key
