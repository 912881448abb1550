"""Every environment variable that this project reads, and the only place that reads one.

`VARIABLES` is the table: name, values, default, meaning. `read` checks all of them and is called
when the runtime is first needed, not on import, since scripts set variables inside Python. Nothing
is cached here: the runtime keeps what it read until it is shut down.

An empty value counts as not set. Source of the contract: the environment variable reference of
CANN (HCCL_*, RANK_*, CM_*, *DEVICE*, JOB_ID, FUSION_TENSOR_SIZE); NPU_BRIDGE_* are our own.
"""

from __future__ import annotations

import dataclasses
import difflib
import ipaddress
import json
import os
import re
from typing import Any, Callable, Mapping, NamedTuple

MAX_RANKS = 32768
_MAX_INT32 = 2**31 - 1

# What a variable does in this build. One that is set without having an effect is said so once.
USED = "used"
DEVICE_ONLY = "is read by the device library only and has no effect here"
NEEDS_GLOO = "has no effect here: only ranks on several hosts choose a network card"
NOT_IN_BUILD = "has no effect in this build"


class Kind(NamedTuple):
    """A type of value: its name, what is allowed in words, and the parser that checks it."""

    name: str
    allowed: str
    parse: Callable[[str], Any]  # raises ValueError for a value that is not allowed


class Variable(NamedTuple):
    """A line of the table."""

    name: str
    kind: Kind
    default: Any
    meaning: str
    effect: str = USED


def _integer(low: int, high: int, unit: str = "") -> Kind:
    def parse(text: str) -> int:
        # int() alone would also take "1_000" and digits of other scripts.
        if not re.match(r"[+-]?[0-9]{1,19}\Z", text):
            raise ValueError
        number = int(text)
        if not low <= number <= high:
            raise ValueError
        return number

    words = f"an integer from {low} to {high}"
    return Kind("integer", words + (", in " + unit if unit else ""), parse)


def _choice(*options: str) -> Kind:
    def parse(text: str) -> str:
        for option in options:
            if text.lower() == option.lower():
                return option
        raise ValueError

    return Kind("choice", "one of " + ", ".join(options), parse)


def _matching(name: str, pattern: str, allowed: str) -> Kind:
    def parse(text: str) -> str:
        if not re.match(pattern + r"\Z", text):
            raise ValueError
        return text

    return Kind(name, allowed, parse)


def _parse_address(text: str) -> str:
    # The scope of a link-local address ("fe80::1%eth0") is not known to ipaddress before 3.9.
    bare, percent, scope = text.partition("%")
    address = ipaddress.ip_address(bare)
    if percent and (address.version != 6 or not scope):
        raise ValueError
    return str(address) + percent + scope


def _parse_transport(text: str) -> str:
    for name in ("auto", "shm", "gloo", "hccl"):
        if text.lower() == name:
            return name
    if os.sep not in text or not os.path.isfile(text):
        raise ValueError
    return text


_TEXT = Kind("text", "any text", str)
_PATH = Kind("path", "a path", str)
_ADDRESS = Kind("address", "an IPv4 or IPv6 address", _parse_address)
_SWITCH = _integer(0, 1)
_DEVICE = _integer(0, _MAX_INT32)
_JOB_ID = _matching("name", r"[A-Za-z0-9_-]{1,128}", "1 to 128 letters, digits, - and _")
_CARD_RULE = _matching(
    "rule",
    r"\^?=?[^\s,/^=]{1,15}(,[^\s,/^=]{1,15})*",
    "names of network cards, separated by commas, as a beginning (eth), a beginning to leave out "
    "(^eth), a name (=eth0) or a name to leave out (^=eth0)",
)
_TRANSPORT = Kind(
    "transport",
    "auto, shm, or the path (with a /) of a transport library that exists; gloo and hccl are not "
    "in this build",
    _parse_transport,
)

# fmt: off
VARIABLES: tuple[Variable, ...] = (
    Variable("RANK_SIZE", _integer(1, MAX_RANKS), None,
             "number of ranks; unset: that of the rank table, else 1"),
    Variable("RANK_ID", _integer(0, MAX_RANKS - 1), None, "this process's rank"),
    Variable("ASCEND_DEVICE_ID", _DEVICE, None,
             "logical device of this rank on its server; goes before DEVICE_ID"),
    Variable("DEVICE_ID", _DEVICE, None, "the same; goes before DEVICE_INDEX"),
    Variable("DEVICE_INDEX", _DEVICE, None, "the same"),
    Variable("RANK_TABLE_FILE", _PATH, None, "the rank table, a JSON file"),
    Variable("JOB_ID", _JOB_ID, None, "keeps jobs on one host apart"),
    Variable("CM_CHIEF_IP", _ADDRESS, None, "address of the chief, instead of a rank table"),
    Variable("CM_CHIEF_PORT", _integer(0, 65520), None, "port of the chief"),
    Variable("CM_CHIEF_DEVICE", _DEVICE, None, "device of the chief on its server"),
    Variable("CM_WORKER_SIZE", _integer(1, MAX_RANKS), None, "number of ranks"),
    Variable("CM_WORKER_IP", _ADDRESS, None, "address of this rank's server"),
    Variable("HCCL_CONNECT_TIMEOUT", _integer(120, 7200, "seconds"), 120,
             "time to wait for all ranks to join"),
    Variable("HCCL_EXEC_TIMEOUT", _integer(0, _MAX_INT32, "seconds"), 1836,
             "time that an op may wait for its peers; 0: for ever"),
    Variable("HCCL_BUFFSIZE", _integer(1, _MAX_INT32, "MB"), 200,
             "shared memory that a group keeps when idle"),
    Variable("HCCL_IF_IP", _ADDRESS, None, "address of the network card to use", NEEDS_GLOO),
    Variable("HCCL_SOCKET_IFNAME", _CARD_RULE, None, "network card to use", NEEDS_GLOO),
    Variable("HCCL_SOCKET_FAMILY", _choice("AF_INET", "AF_INET6"), None,
             "kind of address to use", NEEDS_GLOO),
    Variable("HCCL_IF_BASE_PORT", _integer(1024, 65504), 60000,
             "first of the 32 ports that we listen on", NEEDS_GLOO),
    Variable("HCCL_DETERMINISTIC", _choice("false", "true", "strict"), "true",
             "equal inputs give equal bits; always so here"),
    Variable("HCCL_WHITELIST_DISABLE", _TEXT, None, "trust check of the device", DEVICE_ONLY),
    Variable("HCCL_ALGO", _TEXT, None, "algorithm of the device", DEVICE_ONLY),
    Variable("HCCL_OP_EXPANSION_MODE", _TEXT, None, "where the device expands ops", DEVICE_ONLY),
    Variable("FUSION_TENSOR_SIZE", _integer(1, 2**63 - 1, "bytes"), 524288000,
             "most bytes of a fused segment"),
    Variable("NPU_BRIDGE_TRANSPORT", _TRANSPORT, "auto", "what moves the data"),
    Variable("NPU_BRIDGE_MISMATCH_TIMEOUT", _integer(1, _MAX_INT32, "seconds"), 20,
             "time after which ranks that wait for different collectives fail"),
    Variable("NPU_BRIDGE_STALL_WARN", _integer(1, _MAX_INT32, "seconds"), 60,
             "time after which a collective names the ranks that are absent"),
    Variable("NPU_BRIDGE_CHECK_NAMES", _SWITCH, 0,
             "1 compares names of variables and of tensors in graphs: finds ops whose tensors were "
             "swapped because ranks created them in another order, see name-check.md"),
    Variable("NPU_BRIDGE_POOL_LIMIT", _integer(0, _MAX_INT32, "MB"), 0,
             "hard limit of shared result memory; 0: none"),
    Variable("NPU_BRIDGE_FUSION", _SWITCH, 1, "0 turns fusion off"),
    Variable("NPU_BRIDGE_FUSION_REPORT", _PATH, None,
             "file for the fusion report of rank 0, or of each rank where the name contains "
             "{rank}; JSON where it ends in .json"),
    Variable("NPU_BRIDGE_PRODUCT", _TEXT, None,
             "device family whose rules are enforced", NOT_IN_BUILD),
    Variable("NPU_BRIDGE_FLIGHT_RECORD", _PATH, None,
             "folder for the record of the last collectives", NOT_IN_BUILD),
    Variable("NPU_BRIDGE_TIMELINE", _PATH, None, "file for the timeline", NOT_IN_BUILD),
    Variable("NPU_BRIDGE_KEEP_HCCL", _SWITCH, 0, "1 keeps CANN's own hccl package"),
    Variable("LOCAL_CHECKPOINT_DIR", _PATH, None,
             "checkpoint that NPUEstimator starts from, where there is none in model_dir"),
    Variable("RESTORE_FROM", _PATH, None, "the same, after LOCAL_CHECKPOINT_DIR"),
    Variable("TF_CONFIG", _TEXT, None,
             "TensorFlow's own description of a cluster with parameter servers, in JSON"),
)

# fmt: on

BY_NAME: dict[str, Variable] = {variable.name: variable for variable in VARIABLES}

# Read by the device library, in any release; here only so that they are not taken for misspelt.
# fmt: off
_DEVICE_LIBRARY_NAMES = (
    "HCCL_CONCURRENT_ENABLE", "HCCL_DEBUG_CONFIG", "HCCL_DETOUR", "HCCL_DFS_CONFIG",
    "HCCL_DIAGNOSE_ENABLE", "HCCL_ENTRY_LOG_ENABLE", "HCCL_HOST_SOCKET_PORT_RANGE",
    "HCCL_INDEPENDENT_OP", "HCCL_INTER_HCCS_DISABLE", "HCCL_INTRA_PCIE_ENABLE",
    "HCCL_INTRA_ROCE_ENABLE", "HCCL_LOGIC_SUPERPOD_ID", "HCCL_MULTI_QP_THRESHOLD",
    "HCCL_NPU_SOCKET_PORT_RANGE", "HCCL_OP_COUNTER_ENABLE", "HCCL_OP_RETRY_ENABLE",
    "HCCL_OP_RETRY_PARAMS", "HCCL_RDMA_PCIE_DIRECT_POST_NOSTRICT", "HCCL_RDMA_QPS_PER_CONNECTION",
    "HCCL_RDMA_QP_PORT_CONFIG_PATH", "HCCL_RDMA_RETRY_CNT", "HCCL_RDMA_SL", "HCCL_RDMA_TC",
    "HCCL_RDMA_TIMEOUT", "HCCL_SECURITY_MODE", "HCCL_WHITELIST_FILE",
)
# fmt: on
# Launch scripts of Ascend's model collection keep these for themselves.
_SCRIPTS_OWN_NAMES = ("RANK_ID_START", "RANK_INDEX", "RANK_IDS", "RANK_SIZES")
_PREFIXES = ("HCCL_", "RANK_", "NPU_BRIDGE_")


@dataclasses.dataclass(frozen=True)
class Environment:
    """Checked values of the variables of the table."""

    values: dict[str, Any]  # by name, with defaults filled in
    names_set: tuple[str, ...]  # those that the environment sets, in the order of the table

    def __getitem__(self, name: str) -> Any:
        """Returns the value of the variable of this name, or its default."""
        return self.values[name]

    def is_set(self, name: str) -> bool:
        """Whether the environment itself sets this variable."""
        return name in self.names_set

    def device(self) -> int:
        """The logical device of this rank; 0 where nothing says otherwise."""
        for name in ("ASCEND_DEVICE_ID", "DEVICE_ID", "DEVICE_INDEX"):
            if self.is_set(name):
                return int(self.values[name])
        return 0


def problems(environ: Mapping[str, str]) -> list[str]:
    """Checks every variable of the table.

    Args:
        environ: the environment, such as os.environ.

    Returns:
        A sentence for each variable whose value is not allowed, in the order of the table.
    """
    return [text for text in (_problem(v, environ) for v in VARIABLES) if text is not None]


def read(environ: Mapping[str, str]) -> Environment:
    """Reads and checks every variable of the table.

    Args:
        environ: the environment, such as os.environ.

    Returns:
        The checked values.

    Raises:
        ValueError: names every variable whose value is not allowed, the value, and what is.
    """
    wrong = problems(environ)
    if wrong:
        raise ValueError("\n".join(wrong))
    names_set = tuple(v.name for v in VARIABLES if _text(v.name, environ))
    values = {v.name: _value(v, environ) for v in VARIABLES}
    return Environment(values, names_set)


def value(name: str, environ: Mapping[str, str] | None = None) -> Any:
    """Reads one variable as it is now.

    For what is needed before a runtime is, such as NPU_BRIDGE_KEEP_HCCL while modules are imported.

    Args:
        name: a name of the table.
        environ: the environment; os.environ if None.

    Returns:
        The checked value, or the variable's default.

    Raises:
        ValueError: the value is not allowed.
    """
    environ = os.environ if environ is None else environ
    wrong = _problem(BY_NAME[name], environ)
    if wrong:
        raise ValueError(wrong)
    return _value(BY_NAME[name], environ)


def cluster_specification(environ: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Returns the cluster of TF_CONFIG, empty without one.

    Args:
        environ: the environment; os.environ if None.

    Raises:
        ValueError: TF_CONFIG is no JSON object.
    """
    return dict(_tf_config(environ).get("cluster") or {})


def cluster_task(environ: Mapping[str, str] | None = None) -> tuple[str, int]:
    """Returns the kind and number of this process's task in TF_CONFIG, ("localhost", 0) without.

    Args:
        environ: the environment; os.environ if None.

    Raises:
        ValueError: TF_CONFIG is no JSON object.
    """
    task = _tf_config(environ).get("task") or {}
    kind = task.get("type")
    return (str(kind), int(task.get("index", 0))) if kind else ("localhost", 0)


def _tf_config(environ: Mapping[str, str] | None) -> dict[str, Any]:
    text = value("TF_CONFIG", environ) or "{}"
    try:
        found = json.loads(text)
        if isinstance(found, dict):
            return found
    except ValueError:
        pass
    raise ValueError(
        f"Environment variable TF_CONFIG is {text[:80]!r}, allowed is a JSON object with what "
        f"TensorFlow describes for it."
    )


def misspelt(environ: Mapping[str, str]) -> list[tuple[str, str]]:
    """Finds names that look like a slip of the pen.

    Of HCCL_ and RANK_ names that we do not know, those that resemble one that we do: the device
    library and scripts have others of their own. Of NPU_BRIDGE_ names all, for nobody else has any.

    Args:
        environ: the environment.

    Returns:
        Pairs of the name found and the nearest known name, sorted.
    """
    found = []
    for name in sorted(environ):
        prefix = next((p for p in _PREFIXES if name.startswith(p)), None)
        if prefix is None or name in BY_NAME:
            continue
        if name in _DEVICE_LIBRARY_NAMES or name in _SCRIPTS_OWN_NAMES:
            continue
        nearest, alike = _nearest(name, prefix)
        if alike or prefix == "NPU_BRIDGE_":
            found.append((name, nearest))
    return found


def speaks_for_job(environ: Mapping[str, str]) -> bool:
    """Whether this process is the one that says what is the same on all ranks.

    That is rank 0 or, where ranks have no number before they meet (CM_*), the chief. Nothing is
    checked here: a wrong value is reported by `read`.
    """
    if _text("CM_WORKER_SIZE", environ):
        try:
            device = read(environ).device()
        except ValueError:
            return True
        return bool(
            value("CM_WORKER_IP", environ) == value("CM_CHIEF_IP", environ)
            and value("CM_CHIEF_DEVICE", environ) == device
        )
    rank = _text("RANK_ID", environ)
    return _text("RANK_SIZE", environ) == "1" or re.match(r"\+?0*[1-9]", rank) is None


def _text(name: str, environ: Mapping[str, str]) -> str:
    return environ.get(name, "").strip()


def _value(variable: Variable, environ: Mapping[str, str]) -> Any:
    text = _text(variable.name, environ)
    return variable.kind.parse(text) if text else variable.default


def _problem(variable: Variable, environ: Mapping[str, str]) -> str | None:
    try:
        _value(variable, environ)
    except ValueError:
        found = environ[variable.name]
        shown = repr(found if len(found) <= 80 else found[:77] + "...")
        default = "" if variable.default is None else f"; default {variable.default}"
        return (
            f"Environment variable {variable.name} is {shown}, allowed is "
            f"{variable.kind.allowed}{default} ({variable.meaning})."
        )
    return None


def _nearest(name: str, prefix: str) -> tuple[str, bool]:
    """The known name with this prefix that is most like `name`, and whether it is really like it.

    The shared prefix is left out of the comparison: with it, any two short names look alike.
    """
    known = [v.name for v in VARIABLES if v.name.startswith(prefix)]
    known += [n for n in _DEVICE_LIBRARY_NAMES if n.startswith(prefix)]
    rest = name[len(prefix) :]

    def likeness(candidate: str) -> float:
        other = candidate[len(prefix) :]
        score = difflib.SequenceMatcher(None, rest, other).ratio()
        slips = _edits(rest, other)
        # In a name of three letters, two changed ones make another name (RANK_IP is not RANK_ID).
        if slips <= 2 <= len(rest) // 2 or sorted(rest) == sorted(other):
            score = max(score, 1.0 - slips / 20.0)
        if rest and (other.startswith(rest + "_") or other.endswith("_" + rest)):
            score = max(score, 0.8 + score / 10)
        return score

    # Variables that we read ourselves stand first and win ties.
    best = max(known, key=likeness)
    return best, likeness(best) >= 0.75


def _edits(left: str, right: str) -> int:
    """Letters to insert, delete, replace or swap with a neighbour to get from left to right."""
    before: list[int] = []
    row = list(range(len(right) + 1))
    for i, a in enumerate(left, 1):
        before, last, row = row, before, [i]
        for j, b in enumerate(right, 1):
            cost = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (a != b))
            if i > 1 and j > 1 and a == right[j - 2] and b == left[i - 2]:
                cost = min(cost, last[j - 2] + 1)
            row.append(cost)
    return row[-1]
