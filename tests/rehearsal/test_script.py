"""The script format: what it can say, and how it complains."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import get_args, get_type_hints

import pytest

from assay.model.errors import ConfigError, UsageError
from assay.model.registry import Rehearsal
from assay.rehearsal.play import Player, fill
from assay.rehearsal.protocol import Asked
from assay.rehearsal.script import Script, canonical, load, parse
from assay.rehearsal.server import SPEAKERS, speaker
from assay.rehearsal.vendor import HOST_SIDE, create

ROOT = Path(__file__).parents[2]


def turn(text: str) -> dict[str, object]:
    plain = parse(f"[[turn]]\n{text}".encode(), "s.toml").plain()
    first: dict[str, object] = plain["turns"][0]
    return first


def test_plain_form_has_only_what_was_said() -> None:
    assert turn('text = "hi"') == {"text": "hi", "times": 1}
    assert turn('status = 500\nerror = "boom"') == {"status": 500, "error": {"message": "boom"}, "times": 1}
    assert turn("limit = {}")["limit"] == {"resets_in": 3600.0, "window": "five_hour"}
    assert turn('text = "hi"\ndelay = "200ms"')["delay"] == 0.2
    assert turn('text = "hi"\nusage = { cached = 3 }')["usage"] == {"cached": 3}


def test_calls_come_in_one_list() -> None:
    plain = turn(
        'shell = ["a", "b"]\nexpect = ["1", "2"]\n[[turn.call]]\ntool = "Read"\ninput = { path = "x" }\nfails = true'
    )
    assert plain["calls"] == [
        {"shell": "a", "input": {}, "expect": ["1"]},
        {"shell": "b", "input": {}, "expect": ["2"]},
        {"tool": "Read", "input": {"path": "x"}, "fails": True},
    ]
    assert turn('shell = "a"\nexpect = "1"')["calls"] == [{"shell": "a", "input": {}, "expect": ["1"]}]
    assert turn('tool = "exec"\ninput = "text"\nfails = false')["calls"] == [
        {"tool": "exec", "input": "text", "fails": False}
    ]


@pytest.mark.parametrize(
    ("text", "path", "said"),
    [
        ('[[turn]]\ntxt = "x"', "turn[0].txt", "did you mean 'text'"),
        ('[[turn]]\ntext = "x"\n[[turns]]\ntext = "x"', "turns", "did you mean 'turn'"),
        ('[[turn]]\ntext = "x"\n[[turn]]\nusage = { outptu = 3 }', "turn[1].usage.outptu", "did you mean 'output'"),
        ('[[turn]]\nstatus = 500\nerror = { kind = "x" }', "turn[0].error.kind", "type"),
        ('[[turn]]\n[[turn.call]]\nshel = "x"', "turn[0].call[0].shel", "did you mean 'shell'"),
        ('[[turn]]\nlimit = { window = "hourly" }', "turn[0].limit.window", "five_hour"),
        ("[[turn]]\ntext = 5", "turn[0].text", "text"),
        ('[[turn]]\ntext = "x"\ndelay = "soon"', "turn[0].delay", "duration"),
        ('[[turn]]\ntext = "x"\ntimes = 0', "turn[0].times", "0"),
        ("[[turn]]\nstatus = 200", "turn[0].status", "400"),
        ("turn = []", "turn", ""),
        ("[[turn]]", "turn[0]", "must say or do something"),
        ('[[turn]]\nhang = "before"\ncut = "before"', "turn[0]", "hang and cut exclude each other"),
        ('[[turn]]\nstatus = 500\ntext = "x"', "turn[0]", "status and text exclude each other"),
        ("[[turn]]\nstatus = 500\nlimit = {}", "turn[0]", "status and limit exclude each other"),
        ('[[turn]]\ntext = "x"\nretry_after = 1', "turn[0]", "go with status"),
        ('[[turn]]\ntext = "x"\nhold = 1', "turn[0]", "hold goes with hang"),
        ('[[turn]]\ntext = "x"\nmatch = "y"', "turn[0]", "subagent"),
        ('[[turn]]\ntext = "x"\ninput = {}', "turn[0]", "input goes with tool"),
        ('[[turn]]\nshell = ["a", "b"]\nexpect = "x"', "turn[0]", "expect has 1 texts for 2 calls"),
        ('[[turn]]\ntext = "x"\nfails = true', "turn[0]", "fails goes with shell or tool"),
        ("[[turn]]\n[[turn.call]]\nfails = true", "turn[0].call[0]", "either shell or tool"),
        ('[[turn]]\n[[turn.call]]\nshell = "a"\ntool = "b"', "turn[0].call[0]", "either shell or tool"),
        ('[[turn]]\ntool = "a"\ninput = { day = 2020-01-01 }', "turn[0].input", "must be a table or a text"),
        ('[[turn]]\ntool = "a"\ninput = 5', "turn[0].input", "must be a table or a text"),
        ("[[turn]\n", "", "TOML"),
    ],
)
def test_a_fault_is_named_by_file_place_and_remedy(text: str, path: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(text.encode(), "s.toml")
    assert caught.value.file == "s.toml"
    if path:
        assert caught.value.path == path
    assert said in str(caught.value)


def test_a_missing_file_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nothing\.toml: no such file"):
        load(tmp_path / "nothing.toml")


def test_the_canonical_script_has_something_of_everything() -> None:
    script = canonical()
    assert script.uses_shell()
    assert script.tools() == []
    calls = [turn.calls() for turn in script.turn]
    assert any(len(several) > 1 for several in calls)
    assert any(call.fails for several in calls for call in several)
    assert script.turn[-1].text
    assert calls[-1] == []


@pytest.mark.parametrize(
    "path", sorted(ROOT.glob("tasks/*/rehearsal*.toml")) + sorted(ROOT.glob("tasks/*/rehearsal/*.toml"))
)
def test_the_samples_scripts_are_sound(path: Path) -> None:
    assert isinstance(load(path), Script)


def test_every_speaker_is_one_that_an_entry_can_name() -> None:
    assert set(SPEAKERS) <= set(get_args(get_type_hints(Rehearsal)["api"]))
    for api in SPEAKERS:
        assert speaker(api).call_id("001", 0)


def test_what_goes_into_the_container_needs_the_standard_library_alone() -> None:
    modules = [path.stem for path in (ROOT / "assay/rehearsal").glob("*.py") if path.name not in HOST_SIDE]
    assert len(modules) > 4
    imports = "; ".join(f"import assay.rehearsal.{name}" for name in modules)
    # -S leaves site-packages out.
    subprocess.run([sys.executable, "-S", "-E", "-B", "-c", imports], cwd=ROOT, check=True)


def test_what_cannot_be_played_is_refused_before_any_container() -> None:
    shell = parse(b'[[turn]]\nshell = "a"', "s.toml")
    nothing: object = None
    with pytest.raises(UsageError, match="cannot be rehearsed"):
        create(nothing, "image", Rehearsal(api="none", hosts=["x"]), shell, {})  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"rehearsal\.shell"):
        create(nothing, "image", Rehearsal(api="anthropic", hosts=["x"]), shell, {})  # type: ignore[arg-type]


def test_templates_keep_what_is_no_text() -> None:
    template = {"cmd": ["sh", "-c", "{command}"], "n": 5, "deep": {"x": "{command_json}"}}
    assert fill(template, 'a "b"') == {"cmd": ["sh", "-c", 'a "b"'], "n": 5, "deep": {"x": '"a \\"b\\""'}}


def test_a_command_that_looks_like_a_placeholder_stays_as_it_is() -> None:
    assert fill("run({command_json})", "echo {command}") == 'run("echo {command}")'


def test_player_needs_no_server() -> None:
    player = Player({"final": "Over.", "turns": []}, [], speaker("anthropic"))
    play, settled = player.take(Asked("main"))
    assert (play.turn, play.how, settled) == ({"text": "Over."}, "beyond", [])
