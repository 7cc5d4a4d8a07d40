"""What the hidden checker's end means, through the real engine: a verdict is never wrong."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from assay.sandbox.base import BASE
from assay.sandbox.engine import Engine
from assay.sandbox.images import Builder
from tests.project import Outcome, Project

pytestmark = [pytest.mark.docker, pytest.mark.timeout(180)]

PROMPT = {"tasks/t/prompt.md": "Write answer.txt."}
PYTEST = {
    "tasks/t/checker/test_answer.py": (
        "import sys\nfrom pathlib import Path\n\nsys.path.insert(0, '/app')\n\n\n"
        "def test_answer():\n    import solution\n\n    assert solution.answer() == 42\n"
    )
}
RIGHT = "printf 'def answer():\\n    return 42\\n' > solution.py"


def record(project: Project) -> dict[str, Any]:
    return tomllib.loads((project.runs[-1] / "run.toml").read_text())


def graded(project: Project, command: str, *more: str) -> Outcome:
    return project.run("run", "tasks/t", "--agent", "script", "--command", command, *more, timeout=120)


@pytest.mark.parametrize(
    ("checker", "code", "verdict", "why"),
    [
        ("#!/bin/sh\nexit 0\n", 0, "pass", ""),
        ("#!/bin/sh\nexit 1\n", 1, "fail", ""),
        ("#!/bin/sh\nexit 2\n", 3, "checker-error", "exited with 2"),
        ("#!/bin/sh\nexit 127\n", 3, "checker-error", "not in the image"),
        ("#!/bin/sh\nkill -9 $$\n", 3, "checker-error", "killed"),
        ("#!/no/such/shell\n", 3, "checker-error", ""),
        ('#!/bin/sh\necho 0.25 > "$ASSAY_SCORE"; exit 1\n', 1, "fail", ""),
        ('#!/bin/sh\necho 7 > "$ASSAY_SCORE"; exit 0\n', 3, "checker-error", "not a number in [0, 1]"),
        ('#!/bin/sh\necho good > "$ASSAY_SCORE"; exit 0\n', 3, "checker-error", "not a number"),
    ],
)
def test_exit_codes_of_a_checker(
    project: Callable[..., Project], checker: str, code: int, verdict: str, why: str
) -> None:
    here = project({**PROMPT, "tasks/t/checker/check.sh": checker})
    here.run("run", "tasks/t", "--agent", "nop", timeout=120).assert_code(code)
    found = record(here)
    assert found["verdict"] == verdict
    assert why in found.get("verdict_reason", "")
    assert found["ending"] == "finished"


def test_a_score_is_kept(project: Callable[..., Project]) -> None:
    here = project({**PROMPT, "tasks/t/checker/check.sh": '#!/bin/sh\necho 0.25 > "$ASSAY_SCORE"; exit 1\n'})
    here.run("run", "tasks/t", "--agent", "nop", timeout=120).assert_code(1)
    assert record(here)["score"] == 0.25


@pytest.mark.parametrize("text", ["#!/bin/sh\nexit 1\n", "exit 1\n"])
def test_a_lost_run_bit_or_first_line_is_no_error(project: Callable[..., Project], text: str) -> None:
    here = project({**PROMPT, "tasks/t/checker/check.sh": text})
    (here.root / "tasks/t/checker/check.sh").chmod(0o644)
    here.run("run", "tasks/t", "--agent", "nop", timeout=120).assert_code(1)
    assert record(here)["verdict"] == "fail"


def test_a_checker_past_its_clock_is_a_checker_error(project: Callable[..., Project]) -> None:
    here = project(
        {
            **PROMPT,
            "tasks/t/task.toml": '[checker]\ntimeout = "2s"\n',
            "tasks/t/checker/check.sh": "#!/bin/sh\nsleep 600\n",
        }
    )
    outcome = here.run("run", "tasks/t", "--agent", "nop", timeout=60).assert_code(3)
    assert record(here)["verdict"] == "checker-error"
    assert outcome.seconds < 30


def test_no_checker_is_no_verdict(project: Callable[..., Project]) -> None:
    here = project(PROMPT)
    here.run("run", "tasks/t", "--agent", "nop", timeout=120).assert_code(0)
    assert record(here)["verdict"] == "none"


@pytest.mark.parametrize(
    "trick",
    [
        "printf 'def pytest_collection_modifyitems(items):\\n    items.clear()\\n' > conftest.py",
        "printf '[pytest]\\naddopts = --collect-only\\n' > pytest.ini",
        "printf 'import sys\\nsys.exit(0)\\n' > pytest.py",
        "printf 'import os\\nos._exit(0)\\n' > solution.py",
        "printf 'raise SystemExit(0)\\n' > solution.py",
        "printf 'import pytest\\npytest.skip(allow_module_level=True)\\n' > solution.py",
        "printf 'def answer():\\n    import os\\n    os._exit(0)\\n' > solution.py",
        "printf 'import atexit, os\\natexit.register(os._exit, 0)\\ndef answer():\\n    return 1\\n' > solution.py",
        "true",
        "mkdir solution.py",
        "printf '\\377\\376' > solution.py",
    ],
)
def test_no_forged_pass_of_pytest(project: Callable[..., Project], trick: str) -> None:
    here = project({**PROMPT, **PYTEST})
    graded(here, trick).assert_code(1)
    assert record(here)["verdict"] == "fail"


LEADING_THERE = """
FROM assay-environment
RUN mkdir /app && site=$(python3 -c 'import site; print(site.getsitepackages()[0])') && mkdir -p "$site" \\
 && echo /app > "$site/app.pth" && rm -f /usr/lib/python3*/sitecustomize.py
ENV PATH=/app/bin:.::$PATH PYTHONPATH=/app LD_LIBRARY_PATH=/app/lib BASH_ENV=/app/env PYTEST_ADDOPTS=--rootdir=/app
WORKDIR /app
"""
FORGERIES = """
forge='#!/bin/sh
exit 0
'
mkdir bin
for name in sh env setpriv bash grep test python3 pytest check.sh; do
    printf %s "$forge" > bin/$name; cp bin/$name $name; chmod +x bin/$name $name
done
echo 'import os; os._exit(0)' > sitecustomize.py
for name in usercustomize check run_check assay_report runpy pytest conftest; do cp sitecustomize.py $name.py; done
echo 'exit 0' > env
"""
STRICT = {
    "sh": {"check.sh": "#!/usr/bin/env bash\nas-agent python3 -c 'print(1)' | grep -q 42 || exit 1\n"},
    "py": {"check.py": "assert open('answer.txt').read() == '42'\n"},
    "pytest": {"test_answer.py": "def test_answer():\n    assert open('answer.txt').read() == '42'\n"},
}


@pytest.mark.parametrize("kind", STRICT)
def test_an_image_that_looks_for_code_among_the_left_files(project: Callable[..., Project], kind: str) -> None:
    """Its own search paths would have the checker run, as root, what an agent put there."""
    checker = {f"tasks/t/checker/{name}": text for name, text in STRICT[kind].items()}
    engine = Engine.connect()
    environment = Builder(engine, base=BASE, ca=None, say=print).environment()
    name = (engine.image(environment.id) or {})["RepoTags"][0]
    dockerfile = LEADING_THERE.replace("assay-environment", name)
    here = project({**PROMPT, **checker, "tasks/t/Dockerfile": dockerfile})
    graded(here, FORGERIES).assert_code(1)
    assert record(here)["verdict"] == "fail"


def test_what_a_task_sets_for_its_checker_alone_is_left_as_it_is(project: Callable[..., Project]) -> None:
    """Whoever writes it there wants it."""
    here = project(
        {
            **PROMPT,
            "tasks/t/task.toml": '[env]\nPYTHONPATH = "/app"\n[checker.env]\nPYTHONPATH = "/app/lib"\n',
            "tasks/t/checker/check.py": "import os, one\nassert os.environ['PYTHONPATH'].endswith(':/app/lib')\n",
        }
    )
    graded(here, "mkdir lib; touch lib/one.py").assert_code(0)


def test_outcomes_of_a_plugins_own_break_nothing(project: Callable[..., Project]) -> None:
    again = (
        "from _pytest.runner import runtestprotocol\n\n\ndef pytest_runtest_protocol(item, nextitem):\n"
        "    for outcome in ('rerun', 'passed'):\n"
        "        for report in runtestprotocol(item, nextitem=nextitem, log=False):\n"
        "            report.outcome = outcome if report.when == 'call' else report.outcome\n"
        "            item.ihook.pytest_runtest_logreport(report=report)\n    return True\n"
    )
    here = project({**PROMPT, **PYTEST, "tasks/t/checker/conftest.py": again})
    graded(here, RIGHT).assert_code(0)
    assert "1 of 1" in record(here)["verdict_reason"]


def test_pytest_passes_what_is_right(project: Callable[..., Project]) -> None:
    here = project({**PROMPT, **PYTEST})
    graded(here, RIGHT).assert_code(0)
    assert record(here)["verdict"] == "pass"
    assert "1 of 1" in record(here)["verdict_reason"]


@pytest.mark.parametrize(
    ("test", "why"),
    [
        ("import no_such_tool\n\ndef test_it():\n    pass\n", "could not be loaded"),
        ("def test_it(:\n", "could not be loaded"),
        ("def helper():\n    pass\n", "no test"),
    ],
)
def test_a_broken_pytest_checker_is_a_checker_error(project: Callable[..., Project], test: str, why: str) -> None:
    here = project({**PROMPT, "tasks/t/checker/test_it.py": test})
    here.run("run", "tasks/t", "--agent", "nop", timeout=120).assert_code(3)
    assert record(here)["verdict"] == "checker-error"
    assert why in record(here)["verdict_reason"]


@pytest.mark.parametrize("top", ["import solution", "from solution import answer"])
def test_nothing_left_is_a_fail_even_where_the_import_stands_at_the_top(
    project: Callable[..., Project], top: str
) -> None:
    test = f"import sys\n\nsys.path.insert(0, '/app')\n{top}\n\n\ndef test_it():\n    pass\n"
    here = project({**PROMPT, "tasks/t/checker/test_it.py": test})
    here.run("run", "tasks/t", "--agent", "nop", timeout=120).assert_code(1)
    assert record(here)["verdict"] == "fail"


@pytest.mark.parametrize(
    ("check", "command", "code"),
    [
        ("import sys\nsys.exit(0)\n", "true", 0),
        ("import sys\nsys.exit('wrong')\n", "true", 1),
        ("assert 1 == 2\n", "true", 1),
        ("nonsense\n", "true", 3),
        ("open('answer.txt')\n", "true", 1),
        ("open('/checker/expected.txt')\n", "true", 3),
        ("import sys\nsys.path.insert(0, '/app')\nimport solution\nassert solution.answer() == 42\n", RIGHT, 0),
        ("import sys\nsys.path.insert(0, '/app')\nimport solution\n", "true", 1),
        ("import sys\nsys.path.insert(0, '/app')\nimport solution\n", "echo 'import os; os._exit(0)' > solution.py", 1),
        ("import sys\nsys.path.insert(0, '/app')\nimport solution\n", "echo 'raise SystemExit' > solution.py", 1),
        ("import sys\nsys.path.insert(0, '/app')\nimport solution\n", "echo 'raise KeyError' > solution.py", 1),
    ],
)
def test_check_py(project: Callable[..., Project], check: str, command: str, code: int) -> None:
    here = project({**PROMPT, "tasks/t/checker/check.py": check})
    graded(here, command).assert_code(code)


def test_the_checker_is_hidden_from_links_and_guesses(project: Callable[..., Project]) -> None:
    """Whatever the agent leaves in place of the answer, the expected one is never read through it."""
    files = {
        **PROMPT,
        "tasks/t/checker/expected.txt": "secret-answer\n",
        "tasks/t/checker/check.sh": (
            '#!/bin/sh\nexec 3<"$ASSAY_CHECKER/expected.txt"\ncd "$ASSAY_CHECKER"\n'
            "got=$(timeout 5 cat /app/answer.txt 2>/dev/null)\n"
            '[ "$got" = secret-answer ] || exit 1\n'
        ),
    }
    here = project(files)
    ways = ("/proc/self/cwd/expected.txt", "/proc/self/fd/3", "x/self/fd/3", "/var/run/../proc/self/fd/3")
    for target in ways:
        graded(here, f"ln -s /proc x; ln -s {target} answer.txt").assert_code(1)
    graded(here, "mkfifo answer.txt").assert_code(1)
    graded(here, "echo secret-answer > answer.txt").assert_code(0)


def test_what_was_left_can_be_run_without_trusting_it(project: Callable[..., Project]) -> None:
    """`as-agent` gives the agent's code neither the checker's files nor its variables, tools or processes."""
    files = {
        **PROMPT,
        "tasks/t/task.toml": '[checker]\nenv = { WORD = "from the checker" }\n',
        "tasks/t/checker/expected.txt": "42\n",
        "tasks/t/checker/check.sh": (
            "#!/bin/sh\nas-agent sh ./solution.sh 7 > out.txt || exit 1\n"
            'diff out.txt "$ASSAY_CHECKER/expected.txt" || exit 1\ntest "$WORD" = "from the checker" || exit 2\n'
        ),
    }
    here = project(files)
    graded(here, "echo 'echo $(($1 * 6))' > solution.sh").assert_code(0)
    for attack in (
        "cat /checker-*/expected.txt",
        "env | grep ASSAY_CHECKER && echo 42",
        "ln -sf /bin/true /usr/bin/diff",
        "kill -9 $PPID",
        "kill -9 1",
    ):
        graded(here, f"cat > solution.sh <<'E'\n{attack}\nE").assert_code(1)


def test_variables_of_the_task_reach_its_checker(project: Callable[..., Project]) -> None:
    check = '#!/bin/sh\ntest "$WORD" = yes || exit 1\n'
    here = project({**PROMPT, "tasks/t/task.toml": 'env = { WORD = "yes" }\n', "tasks/t/checker/check.sh": check})
    here.run("run", "tasks/t", "--agent", "nop", timeout=120).assert_code(0)


def test_nothing_of_the_agent_but_its_files_reaches_the_checker(project: Callable[..., Project]) -> None:
    files = {
        **PROMPT,
        "tasks/t/checker/check.sh": (
            "#!/bin/sh\n[ -e /tmp/mark ] && exit 3\n[ -e /home/agent/mark ] && exit 4\n"
            "ls /proc | grep -q '^[0-9]' || exit 5\n[ -e answer.txt ] || exit 1\n"
            'ip=$(cat /proc/net/route | wc -l)\n[ "$ip" -le 1 ] || exit 6\n'
        ),
    }
    here = project(files)
    graded(here, "touch /tmp/mark ~/mark answer.txt; (sleep 600 &)").assert_code(0)


def test_grading_again_keeps_history(project: Callable[..., Project]) -> None:
    here = project({**PROMPT, "tasks/t/checker/check.sh": "#!/bin/sh\nexit 1\n"})
    graded(here, "touch answer.txt").assert_code(1)
    committed = (here.runs[-1] / "run.toml").read_bytes()
    here.write({"tasks/t/checker/check.sh": "#!/bin/sh\ntest -e answer.txt\n"})
    here.run("grade", "last", timeout=120).assert_code(0)
    assert (here.runs[-1] / "run.toml").read_bytes() == committed
    results = [
        tomllib.loads(p.read_text())["verdict"] for p in sorted(Path(here.runs[-1]).glob("checker/*/result.toml"))
    ]
    assert results == ["fail", "pass"]
