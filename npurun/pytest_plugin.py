"""A pytest plugin: `@pytest.mark.ranks(4)` runs a test in four processes, as one job.

    @pytest.mark.ranks(4, timeout=60)
    def test_sum():
        total = hccl_ops.allreduce(tf.constant([1.0]), "sum")
        assert total.numpy() == 4

Each rank is a pytest of its own that `npurun` starts and that runs this test alone, fixtures and
parameters included; the pytest that was called runs nothing of the test itself. The test passes
when it passes on all ranks. What a failing rank prints and where it failed are shown rank by rank.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

import pytest

from npurun import pytest_rank
from npurun.command_line import parse_ranks

# Set for the ranks: the folder in which they leave their reports.
FOLDER_VARIABLE = "NPURUN_PYTEST_FOLDER"
DEFAULT_TIMEOUT_SECONDS = 300.0
_PACKAGES = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# `python -m npurun` would take packages that stand in the working directory, and this one may be
# where only this process looks.
_LAUNCHER = (
    f"import sys; sys.path.pop(0); sys.path.append({_PACKAGES!r}); "
    "from npurun.command_line import main; sys.exit(main())"
)
# While this module is imported nothing but the interpreter has set the path.
_WORKING_DIRECTORY_FIRST = sys.path[0] in ("", os.getcwd())
# Longer than npurun gives ranks to end after a signal.
_GRACE_SECONDS = 5.0
_END_SECONDS = 15.0
# The part of a test's time after which ranks that still run show their stacks.
_SHOW_STACKS_AT = 0.7


class RankReport(NamedTuple):
    """How the test went on one rank.

    Attributes:
        rank: its number.
        outcome: "passed", "failed", "skipped"; "died" when its process ended without a word.
        text: where and why it failed, or why it was skipped.
        expected_failure: the reason of an xfail mark, when that decided the outcome.
        output: all that the rank wrote.
    """

    rank: int
    outcome: str
    text: str
    expected_failure: Optional[str]
    output: str


def pytest_addoption(parser: Any) -> None:
    """Adds the limit for tests whose mark has none."""
    parser.addini(
        "ranks_timeout",
        "seconds after which a test marked with ranks(n) is ended, where the mark has no timeout",
        default=str(DEFAULT_TIMEOUT_SECONDS),
    )


def pytest_configure(config: Any) -> None:
    """Registers the mark. In a rank, gives it a place of its own for temporary files."""
    config.addinivalue_line(
        "markers",
        "ranks(n, timeout=300): run the test in n processes that are the ranks of one job, for at "
        "most timeout seconds (npurun)",
    )
    folder = os.environ.get(FOLDER_VARIABLE)
    if folder is not None:
        rank = os.environ["RANK_ID"]
        config.option.basetemp = os.path.join(folder, f"temporary_{rank}")
        config.pluginmanager.register(_Recorder(config, _report_path(folder, int(rank))))


class _Recorder:
    """In a rank: writes each report to the rank's file."""

    def __init__(self, config: Any, path: str):
        self._config = config
        self._path = path

    def pytest_runtest_logreport(self, report: Any) -> None:
        line = {
            "when": report.when,
            "outcome": report.outcome,
            "text": _reason(report),
            "expected_failure": getattr(report, "wasxfail", None),
        }
        with open(self._path, "a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    @pytest.hookimpl(tryfirst=True)
    def pytest_report_teststatus(self, report: Any) -> Tuple[str, str, str]:
        # No letter for the outcome in what the rank writes.
        return report.outcome, "", ""

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed:
            report.when = "collect"
            self.pytest_runtest_logreport(report)


def _reason(report: Any) -> str:
    if report.skipped and isinstance(report.longrepr, tuple):
        return str(report.longrepr[2])
    return report.longreprtext if report.longrepr is not None else ""


def _report_path(folder: str, rank: int) -> str:
    return os.path.join(folder, f"reports_{rank}.jsonl")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: Any, nextitem: Any) -> Optional[bool]:
    """Runs a marked test as a job, unless this process is one of its ranks."""
    mark = item.get_closest_marker("ranks")
    if mark is None or FOLDER_VARIABLE in os.environ:
        return None
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    begin = time.time()
    sections: List[Tuple[str, str]] = []
    try:
        ranks, timeout = _arguments(item, mark)
    except ValueError as error:
        report = _report(item, "failed", str(error), sections, begin)
    else:
        report = _run(item, ranks, timeout, sections, begin)
    item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


def _arguments(item: Any, mark: Any) -> Tuple[int, float]:
    """Returns the ranks and the limit of a mark.

    Raises:
        ValueError: with a sentence, when they are not what they must be.
    """
    usage = f"{item.nodeid}: the mark must be ranks(n) or ranks(n, timeout=seconds)"
    if len(mark.args) != 1 or set(mark.kwargs) - {"timeout"}:
        raise ValueError(f"{usage}; it is {mark.args} {mark.kwargs}.")
    try:
        ranks = parse_ranks(str(mark.args[0]))
    except ValueError as error:
        raise ValueError(f"{usage}; {error}")
    text = mark.kwargs.get("timeout", item.config.getini("ranks_timeout"))
    try:
        timeout = float(text)
    except (TypeError, ValueError):
        timeout = 0.0
    if not 0 < timeout <= 86400:
        raise ValueError(f"{usage}; the timeout is {text!r}, not seconds from 0 to 86400.")
    return ranks, timeout


def _run(
    item: Any, ranks: int, timeout: float, sections: List[Tuple[str, str]], begin: float
) -> Any:
    with tempfile.TemporaryDirectory(prefix="npurun-pytest-") as folder:
        ended, launcher_output = _run_job(item, ranks, timeout, folder)
        reports = [_read(folder, rank) for rank in range(ranks)]
    if launcher_output:
        sections.append(("npurun", launcher_output))
    sections += [(f"rank {report.rank}", report.output) for report in reports if report.output]
    if not ended:
        text = f"The test did not end within {timeout:g} s and was stopped, on {ranks} ranks."
        waiting = [r for r in reports if r.outcome != "died"]
        if waiting:
            text += " " + _outcomes(waiting)
        return _report(item, "failed", text, sections, begin)
    return _conclude(item, reports, sections, begin)


def _conclude(
    item: Any, reports: List[RankReport], sections: List[Tuple[str, str]], begin: float
) -> Any:
    outcomes = {report.outcome for report in reports}
    if outcomes in ({"passed"}, {"skipped"}):
        (outcome,) = outcomes
        path, line = item.location[0], (item.location[1] or 0) + 1
        reason = (path, line, reports[0].text) if outcome == "skipped" else None
        report = _report(item, outcome, reason, sections, begin)
        if reports[0].expected_failure is not None:
            report.wasxfail = reports[0].expected_failure
        return report
    text = [_outcomes(reports)]
    if not outcomes & {"failed", "died"}:
        text.append("A test must be skipped on all ranks or on none.")
    for report in reports:
        if report.outcome == "failed":
            text.append(f"---------- rank {report.rank}\n{report.text}")
    return _report(item, "failed", "\n".join(text), sections, begin)


def _outcomes(reports: List[RankReport]) -> str:
    """Returns in words how the test went: "passed on ranks 0,1; failed on rank 2."."""
    by_outcome: Dict[str, List[str]] = {}
    for report in reports:
        by_outcome.setdefault(report.outcome, []).append(str(report.rank))
    words = []
    for outcome, ranks in by_outcome.items():
        where = ("rank " if len(ranks) == 1 else "ranks ") + ",".join(ranks)
        if outcome == "died":
            words.append(f"{where} ended without a result")
        else:
            words.append(f"{outcome} on {where}")
    text = "; ".join(words) + "."
    return text[0].upper() + text[1:]


def _report(
    item: Any, outcome: Any, longrepr: Any, sections: List[Tuple[str, str]], begin: float
) -> Any:
    return pytest.TestReport(
        nodeid=item.nodeid,
        location=item.location,
        keywords=dict.fromkeys(item.keywords, 1),
        outcome=outcome,
        longrepr=longrepr,
        when="call",
        sections=list(sections),
        duration=time.time() - begin,
    )


def _command(item: Any, ranks: int, timeout: float, folder: str) -> List[str]:
    config = item.config
    command = [sys.executable, "-c", _LAUNCHER, "-n", str(ranks), "--no-color"]
    command += ["--grace", f"{_GRACE_SECONDS:g}", "--log-dir", os.path.join(folder, "logs")]
    command += [pytest_rank.SCRIPT, "--rootdir", str(config.rootdir)]
    if config.inifile is not None:
        command += ["-c", str(config.inifile)]
    # The caller's choice of tests is made: what the file of options selects must not select again.
    command += ["-k", "", "-m", "", "-p", "npurun.pytest_plugin"]
    # What the test writes, and nothing of pytest's own: that is in the reports.
    command += ["--capture=no", "-qq", "--no-header", "--no-summary"]
    command += ["-o", "cache_dir=" + os.path.join(folder, "cache")]
    # A rank that waits shows where, on all its threads, before the whole test is ended.
    command += ["-o", f"faulthandler_timeout={timeout * _SHOW_STACKS_AT:g}"]
    import_mode = getattr(config.option, "importmode", None)
    if import_mode is not None:
        command.append(f"--import-mode={import_mode}")
    if hasattr(config.option, "numprocesses"):
        command.append("-n0")  # pytest-xdist: a rank runs one test
    return command + [os.path.join(str(config.rootdir), item.nodeid)]


def _environment(folder: str) -> Dict[str, str]:
    variables = dict(os.environ, **{FOLDER_VARIABLE: folder})
    if _WORKING_DIRECTORY_FIRST:
        variables[pytest_rank.WORKING_DIRECTORY_VARIABLE] = "1"
    return variables


def _run_job(item: Any, ranks: int, timeout: float, folder: str) -> Tuple[bool, str]:
    """Runs the job; returns whether it ended within the limit, and what the launcher said."""
    live = item.config.option.capture == "no"
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            _command(item, ranks, timeout, folder),
            cwd=str(item.config.invocation_params.dir),
            env=_environment(folder),
            stdin=subprocess.DEVNULL,
            stdout=None if live else subprocess.DEVNULL,
            stderr=None if live else output,
        )
        try:
            process.wait(timeout)
            ended = True
        except subprocess.TimeoutExpired:
            ended = False
        finally:
            # Also when the user has pressed Ctrl-C: npurun ends its ranks before it ends.
            _end(process)
        output.seek(0)
        said = output.read().decode("utf-8", "replace").splitlines()
    # What ranks wrote is shown by rank.
    return ended, "\n".join(line for line in said if line.startswith("npurun:"))


def _end(process: Any) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        if process.poll() is None:
            process.send_signal(number)
            try:
                process.wait(_END_SECONDS)
            except subprocess.TimeoutExpired:
                continue


def _read(folder: str, rank: int) -> RankReport:
    """Reads how the test went on a rank."""
    lines = []
    if os.path.exists(_report_path(folder, rank)):
        with open(_report_path(folder, rank), encoding="utf-8") as file:
            lines = [json.loads(line) for line in file if line.endswith("\n")]
    output = ""
    log = os.path.join(folder, "logs", f"rank_{rank}.log")
    if os.path.exists(log):
        with open(log, encoding="utf-8", errors="replace") as file:
            output = file.read()
    for line in lines:
        if line["outcome"] != "passed" or line["expected_failure"] is not None:
            return RankReport(rank, line["outcome"], line["text"], line["expected_failure"], output)
    # The report of the teardown is the last one of a test that went to its end.
    outcome = "passed" if any(line["when"] == "teardown" for line in lines) else "died"
    return RankReport(rank, outcome, "", None, output)
