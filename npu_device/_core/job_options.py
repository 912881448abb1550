"""What describes a job, as the options that a device is opened with."""

from __future__ import annotations

from typing import Any, Dict, Optional

from npu_device._core import environment


def set_cm_chief_worksize_env(
    global_kw_options: Optional[Dict[str, str]] = None,
    env_cm_chief_ip: Optional[str] = None,
    workers_num: Optional[int] = None,
) -> None:
    """Adds what describes a job without a rank table (CM_*) to the options of a device.

    npu_device.open() needs no such call: it reads the environment.

    Args:
        global_kw_options: the options, which are changed.
        env_cm_chief_ip: address of the chief; None for CM_CHIEF_IP.
        workers_num: number of ranks; None for CM_WORKER_SIZE.

    Raises:
        RuntimeError: CM_CHIEF_PORT or CM_CHIEF_DEVICE is not set.
        TypeError: `global_kw_options` is no dict.
        ValueError: a variable's value is not allowed.

    Source of the contract: CANN TF Adapter, npu_device.npu_device.set_cm_chief_worksize_env.
    """
    options = _options_to_change(global_kw_options, "set_cm_chief_worksize_env")
    chief = env_cm_chief_ip or environment.value("CM_CHIEF_IP")
    size = workers_num or environment.value("CM_WORKER_SIZE")
    found = {
        "_distribute.cm_chief_ip": chief,
        "_distribute.cm_chief_port": _required("CM_CHIEF_PORT"),
        "_distribute.cm_chief_worker_device": _required("CM_CHIEF_DEVICE"),
        "_distribute.cm_worker_ip": environment.value("CM_WORKER_IP"),
        "_distribute.cm_worker_size": size,
    }
    options.update({name: str(one) for name, one in found.items() if one is not None})


def set_rank_table_file_env(
    global_kw_options: Optional[Dict[str, str]] = None, env_rank_table: Optional[str] = None
) -> None:
    """Adds a rank table and this process's rank to the options of a device.

    npu_device.open() needs no such call: it reads the environment.

    Args:
        global_kw_options: the options, which are changed.
        env_rank_table: path of the rank table; None for RANK_TABLE_FILE.

    Raises:
        RuntimeError: RANK_ID is not set, or neither is RANK_TABLE_FILE.
        TypeError: `global_kw_options` is no dict.
        ValueError: a variable's value is not allowed.

    Source of the contract: CANN TF Adapter, npu_device.npu_device.set_rank_table_file_env.
    """
    options = _options_to_change(global_kw_options, "set_rank_table_file_env")
    rank = _required("RANK_ID")
    options["_distribute.rank_table"] = str(env_rank_table or _required("RANK_TABLE_FILE"))
    options["_distribute.rank_id"] = str(rank)


def _options_to_change(options: Any, where: str) -> Dict[str, str]:
    if not isinstance(options, dict):
        raise TypeError(
            f"{where}: global_kw_options is {options!r}, allowed is a dict, such as "
            f"npu_device.global_options().as_dict()."
        )
    return options


def _required(name: str) -> Any:
    value = environment.value(name)
    if value is None:
        raise RuntimeError(
            f"Environment variable {name} is not set ({environment.BY_NAME[name].meaning}). npurun "
            f"sets what ranks need."
        )
    return value
