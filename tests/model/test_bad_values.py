"""Values that an engine, a kernel or a CLI would refuse later, in words of its own or not at all: refused when read."""

from __future__ import annotations

import pytest

from assay.model.errors import ConfigError
from assay.model.project import ProjectFile
from assay.model.registry import Registry
from assay.model.table import Table
from assay.model.task import TaskSettings
from assay.model.toml import parse_toml, validate
from tests.conftest import MakeProject

ENTRY = """
[agents.some]
title = "Some CLI"
version = "1.2.3"
decoder = "claude"
hosts = ["api.example.com"]
install = { run = [], check = ["some"] }
launch = { run = ["some"] }
"""

TASK = {"tasks/t/prompt.md": "Do it."}


def entry(key: str, value: str) -> str:
    """The entry with one key set anew."""
    kept = [line for line in ENTRY.splitlines() if not line.startswith(f"{key} =")]
    return "\n".join([*kept, f"{key} = {value}", ""])


def problem(model: type[Table], text: str) -> str:
    """What is wrong with a file: one line."""
    with pytest.raises(ConfigError) as caught:
        validate(model, parse_toml(text.encode(), "a.toml"), "a.toml")
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('env = { A = "x\\u0000y" }', "env.A: holds a NUL byte"),
        ('[checker]\nenv = { A = "\\u0000" }', "checker.env.A: holds a NUL byte"),
        ("pids = 99999999999999", "pids: should be less than or equal to 4194304"),
        ("[checker]\npids = 4194305", "checker.pids: should be less than or equal to 4194304"),
        ('image = "Bad Image"', "image: 'Bad Image' does not do; write an image's name"),
        ('image = ""', "image: '' does not do"),
        ('image = "Debian"', "image: 'Debian' does not do"),
        ('image = "debian:"', "image: 'debian:' does not do"),
        ('image = "debian\\nx"', "image:"),
        ('image = "-debian"', "image:"),
        ('disk = "1"', "disk: 1 bytes are less than the 1MiB"),
        ("disk = 1048575", "disk: 1048575 bytes are less than"),
        ('workdir = "/a\\nb"', "workdir:"),
        ('workdir = "/a\\u001bb"', "control characters"),
        ('workdir = "/a\\u0000b"', "control characters"),
        ('workdir = "/a\\u202eb"', "control characters"),
    ],
)
def test_of_a_task(text: str, words: str) -> None:
    assert words in problem(TaskSettings, text)


@pytest.mark.parametrize(
    "image",
    [
        "debian",
        "debian:bookworm-slim",
        "library/debian",
        "ghcr.io/owner/some_image.x:V1.2_3",
        "localhost:5000/a/b--c__d",
        "127.0.0.1:5000/a",
        "[::1]:5000/a",
        "84833a0e6c81",
        f"sha256:{'0a' * 32}",
        f"debian@sha256:{'0a' * 32}",
        f"debian:12@sha256:{'0a' * 32}",
    ],
)
def test_images_that_do(image: str) -> None:
    text = f'image = "{image}"\nworkdir = "/wörk dir"\ndisk = "1MiB"\npids = 4194304'
    assert validate(TaskSettings, parse_toml(text.encode(), "a"), "a").image == image


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[defaults]\njobs = 99999999999999999999", "defaults.jobs: should be less than or equal to 256"),
        ("[defaults]\njobs = 257", "defaults.jobs"),
        ("[defaults]\npids = 99999999999999", "defaults.pids"),
        ('[defaults]\ndisk = "1"', "defaults.disk: 1 bytes are less than the 1MiB"),
        ('[defaults]\nbase_image = "Bad Image"', "defaults.base_image"),
        ('[stage.s]\nrungs = [{ agent = "nop" }]\njobs = 257', "stage.s.jobs: should be less than or equal to 256"),
        ('[stage.s]\nrungs = [{ agent = "nop" }]\nruns = 1001', "stage.s.runs: should be less than or equal to 1000"),
        ('[stage.s]\nrungs = [{ agent = "nop", runs = 99999999999999999999 }]', "stage.s.rungs[0].runs"),
        ('[ask]\nexclude = ["*.a", "[b-a]"]', "ask.exclude: '[b-a]' is no pattern"),
        ('[ask]\nexclude = ["/"]', "ask.exclude: '/' matches nothing"),
    ],
)
def test_of_a_project(text: str, words: str) -> None:
    assert words in problem(ProjectFile, text)


@pytest.mark.parametrize("host", ["a..b", "10.0.0.1", "::1", ".a", "a.", "-a.b", "a-.b", "a_b.c", "1", "", "a" * 64])
def test_what_is_no_hosts_name(host: str) -> None:
    assert "agents.some.hosts[0]" in problem(Registry, entry("hosts", f'["{host}"]'))


@pytest.mark.parametrize("host", ["a", "localhost", "api.example.com", "1.a", "a-b.c1", "xn--bcher-kva.example"])
def test_what_is_a_hosts_name(host: str) -> None:
    text = entry("hosts", f'["{host}"]')
    assert validate(Registry, parse_toml(text.encode(), "a"), "a").agents["some"].hosts == [host]


OUTSIDE = ["/etc/passwd", "~/../x", "~/a/../../x", "~", "~/", "~root/x", "x", "", "~/a//b", "~/./a", "~/a\\u0000b"]


@pytest.mark.parametrize("path", OUTSIDE)
@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("launch", '{{ run = ["x"], files = {{ "{}" = "x" }} }}'),
        ("launch", '{{ run = ["x"], offline_files = {{ "{}" = "x" }} }}'),
        ("launch", '{{ run = ["x"], mend = [{{ file = "{}", drop_lines = ["x"] }}] }}'),
        ("credentials", '[{{ file = "{}" }}]'),
        ("state", '["{}"]'),
        ("session_file", '"{}"'),
        ("session_more", '["{}"]'),
        ("rehearsal", '{{ api = "none", hosts = [], files = {{ "{}" = "x" }} }}'),
    ],
)
def test_what_does_not_lie_below_the_home_directory(key: str, value: str, path: str) -> None:
    assert f"agents.some.{key}" in problem(Registry, entry(key, value.format(path)))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("decoder", '"../x"'),
        ("decoder", '""'),
        ("version", '""'),
        ("version", '"1 2"'),
        ("launch", "{ run = [] }"),
        ("launch", '{ run = ["x"], env = { A = "\\u0000" } }'),
        ("launch", '{ run = ["x"], offline_env = { A = "\\u0000" } }'),
        ("launch", '{ run = ["x"], root_env = { A = "\\u0000" } }'),
        ("rehearsal", '{ api = "none", hosts = ["10.0.0.1"] }'),
        ("credentials", '[{ env = "A", hosts = ["a..b"] }]'),
    ],
)
def test_of_an_entry(key: str, value: str) -> None:
    assert f"agents.some.{key}" in problem(Registry, entry(key, value))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (f"a = {'[' * 3000}{']' * 3000}", "nested too deeply"),
        (f"a = {'{a = ' * 3000}1{'}' * 3000}", "nested too deeply"),
        (f"a = {'1' * 5001}", "too many digits"),
    ],
)
def test_toml_that_cannot_be_read(text: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        parse_toml(text.encode(), "a.toml")


@pytest.mark.parametrize("text", [f"v = {'[' * 3000}{']' * 3000}", f"v = {'1' * 5001}"], ids=["nested", "digits"])
@pytest.mark.parametrize("name", ["assay.toml", "agents.toml", "tasks/t/task.toml"])
def test_any_file_that_cannot_be_read(project: MakeProject, name: str, text: str) -> None:
    project({**TASK, name: text}).run("run", "tasks/t", "--agent", "nop").assert_refused(name)


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["--agent", "nop", "--runs", "99999999999999"], "1<=x<=1000"),
        (["--agent", "nop", "--runs", "1001"], "1<=x<=1000"),
        (["--agent", "nop", "--jobs", "99999999999999999999"], "1<=x<=256"),
        (["--agent", "script", "--command", "true", "--runs", "9" * 5001], f"'{'9' * 60}…' is not a whole number."),
    ],
)
def test_too_many(project: MakeProject, argv: list[str], words: str) -> None:
    here = project(TASK)
    here.run("run", "tasks/t", *argv).assert_code(2).assert_says(words)
    assert here.runs == []


@pytest.mark.parametrize("text", ["9" * 5001, "[" * 3000, "257"], ids=["digits", "nested", "many"])
def test_of_the_environment(project: MakeProject, text: str) -> None:
    here = project(TASK)
    here.run("run", "tasks/t", "--agent", "nop", env={"ASSAY_JOBS": text}).assert_refused("ASSAY_JOBS")


def test_a_decoder_that_is_not_there(project: MakeProject) -> None:
    here = project({**TASK, "agents.toml": entry("decoder", '"clude"') + 'default_model = "m"\n'})
    here.run("run", "tasks/t", "--agent", "some").assert_refused("agents.some.decoder", "did you mean 'claude'?")
    assert here.runs == []


LONG = "x" * 5000


@pytest.mark.parametrize(
    "argv",
    [
        ["show", LONG],
        ["grade", LONG],
        ["resume", LONG],
        ["run", LONG, "--agent", "nop"],
        ["run", "tasks/t", "--agent", "claude", "--rehearse", LONG],
        ["render", "--decoder", "claude", LONG],
        ["ask", "--repo", LONG, "Why?"],
        ["build", LONG],
        ["mcp", LONG],
    ],
    ids=lambda argv: argv[0] if isinstance(argv, list) else None,
)
def test_a_name_that_is_too_long_for_a_path(project: MakeProject, argv: list[str]) -> None:
    here = project({**TASK, "runs/index.jsonl": ""})
    assert "Traceback" not in here.run(*argv).assert_code(2).err
