from __future__ import annotations

import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from pydantic import field_validator

from assay.model.errors import ConfigError
from assay.model.project import ProjectFile
from assay.model.registry import Registry
from assay.model.table import Table
from assay.model.toml import parse_toml, read_toml, validate


def faults(model: type[ProjectFile | Registry], text: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        validate(model, parse_toml(text.encode(), "a.toml"), "a.toml")
    return str(caught.value).splitlines()


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"x\.toml: no such file"):
        read_toml(tmp_path / "x.toml")


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read: is a directory"):
        read_toml(tmp_path)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"a = 1\nb = \n", "a.toml: line 2, column 5: not valid TOML"),
        (b"a = [1,\n", "a.toml: line 2, the end: not valid TOML"),
        (b"a = 1\na = 2\n", "the same key or table is given twice"),
        (b"[x]\n[x]\n", "a.toml: line 2, column 3: not valid TOML"),
        (b"a = 1\nb = '\xff'\n", "a.toml: line 2: not UTF-8"),
    ],
)
def test_malformed(text: bytes, expected: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_toml(text, "a.toml")
    assert expected in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("[defalts]", "a.toml: defalts: unknown key, it would have been ignored (did you mean 'defaults'?)"),
        ("[defaults]\nzzz = 1", "a.toml: defaults.zzz: unknown key, it would have been ignored; known here: agent, "),
        (
            "[fence]\nmode = 'snii'",
            "a.toml: fence.mode: 'snii' is not one of closed, sni, inject (did you mean 'sni'?)",
        ),
        ("[defaults]\njobs = true", "a.toml: defaults.jobs: must be a whole number, not true"),
        ("[defaults]\njobs = 0", "a.toml: defaults.jobs: should be greater than 0, not 0"),
        ("[defaults]\ntimeout = '5x'", "a.toml: defaults.timeout: '5x' is not a duration; write seconds (90) or "),
        ("[defaults]\ninternet = 'no'", "a.toml: defaults.internet: must be true or false, not 'no'"),
        ("[fence]\nmode = 'open'", "a.toml: fence.mode: 'open' is said by internet = true"),
        ("[ask]\nexclude = 'x'", "a.toml: ask.exclude: must be a list, […], not 'x'"),
        ("[stage.p]\nrungs = [{ agnt = 'x' }]", "a.toml: stage.p.rungs[0].agent: required, but not given"),
        ("[stage.p]", "a.toml: stage.p.rungs: required, but not given"),
        ("stage = 3", "a.toml: stage: must be a table, { … }, not 3"),
    ],
)
def test_a_fault_has_file_path_and_remedy(text: str, line: str) -> None:
    assert faults(ProjectFile, text)[0].startswith(line)


def test_every_fault_has_a_line() -> None:
    lines = faults(ProjectFile, "[stage.p]\nrungs = [{ agnt = 'x' }]\nruns = 'two'\n[fence]\nbackend = 1\n")
    assert len(lines) == 4
    assert "a.toml: stage.p.rungs[0].agnt: unknown key, it would have been ignored (did you mean 'agent'?)" in lines


def test_names_that_do_not_do_and_quoted_paths() -> None:
    lines = faults(Registry, '[agents."B B"]\ntitle = "x"\n')
    assert lines[0].startswith("a.toml: agents.\"B B\": as a name, 'B B' does not do; write lower-case letters, digits")


def test_hints_reach_into_nested_tables() -> None:
    lines = faults(
        Registry, "[agents.x.models.big]\nusd_per_mtok = { inpt = 1.0 }\neffort = []\n[agents.x.launch]\nrunn=[]"
    )
    assert any("usd_per_mtok.inpt" in line and "did you mean 'input'?" in line for line in lines)
    assert any("models.big.effort: unknown key" in line and "did you mean 'efforts'?" in line for line in lines)
    assert any("launch.runn: unknown key" in line and "did you mean 'run'?" in line for line in lines)


def test_reading_needs_only_the_standard_library() -> None:
    code = "import sys; import assay.model.toml, assay.model.units, assay.model.place; print('pydantic' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_an_interrupt_in_the_midst_of_a_check_is_an_interrupt_and_no_fault_of_the_file() -> None:
    checked = []

    class Interrupted(Table):
        name: str

        @field_validator("name")
        @classmethod
        def interrupt(cls, name: str) -> str:
            signal.pthread_kill(threading.get_ident(), signal.SIGINT)
            checked.append(name)
            return name

    with pytest.raises(KeyboardInterrupt):
        validate(Interrupted, {"name": "a"}, "a.toml")
    assert checked == ["a"], "the check came to its end first"
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())
