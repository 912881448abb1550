"""What a process knows of its job: from a job file, or from the environment and the rank table."""

from __future__ import annotations

import json
import os
from typing import Any, Optional

from npu_bridge.estimator.npu import util as util_lib
from npu_device._core import environment, runtime

__all__ = ["DeviceInfo", "JobConfig", "JobInfo", "NPUBasics", "util_lib"]


class JobInfo:
    """A job, as a cluster's scheduler describes it.

    Args:
        job_id: name of the job.
        job_config: settings of the training, a JSON text.
        heartbeat_time: seconds between signs of life.
        region_id: region of the object storage.
        ak: access key of the object storage.
        sk: secret key of the object storage.
        endpoint_url: address of the object storage.
        device_info: a DeviceInfo.
        rank_table_file: path of the rank table.
        restart_flag: 1 for a job that is started again after a failure.
        local_app_dir: folder of the program.
        local_data_dir: folder of the data.
        local_checkpoint_dir: checkpoint that training starts from.
        local_log_dir: folder for logs.
        local_result_dir: folder for results.
        local_boot_file: the script.
        rank_size: number of ranks.

    Source of the contract: CANN TF Adapter API, npu_common.JobInfo.
    """

    def __init__(
        self,
        job_id: Any = 0,
        job_config: Any = None,
        heartbeat_time: Any = -1,
        region_id: Any = None,
        ak: Any = None,
        sk: Any = None,
        endpoint_url: Any = None,
        device_info: Optional[DeviceInfo] = None,
        rank_table_file: Optional[str] = None,
        restart_flag: int = 0,
        local_app_dir: Optional[str] = None,
        local_data_dir: Optional[str] = None,
        local_checkpoint_dir: Optional[str] = None,
        local_log_dir: Optional[str] = None,
        local_result_dir: Optional[str] = None,
        local_boot_file: Optional[str] = None,
        rank_size: int = 1,
    ) -> None:
        self._job_id = job_id
        self._job_config = job_config
        self._heartbeat_time = heartbeat_time
        self._region_id = region_id
        self._ak = ak
        self._sk = sk
        self._endpoint_url = endpoint_url
        self._device_info = device_info
        self._rank_table_file = rank_table_file
        self._restart_flag = restart_flag
        self._local_app_dir = local_app_dir
        self._local_data_dir = local_data_dir
        self._local_checkpoint_dir = local_checkpoint_dir
        self._local_log_dir = local_log_dir
        self._local_result_dir = local_result_dir
        self._local_boot_file = local_boot_file
        self._rank_size = rank_size


class JobConfig:
    """Settings of a training.

    Args:
        learning_rate: a number or tensor.
        batch_size: rows of a batch.

    Source of the contract: CANN TF Adapter API, npu_common.JobConfig.
    """

    def __init__(self, learning_rate: Any = None, batch_size: Any = None) -> None:
        self._learning_rate = learning_rate
        self._batch_size = batch_size


class DeviceInfo:
    """A rank's place in its job.

    Args:
        index: the rank, as a text.
        server_id: its server.
        dev_index: its device on the server.

    Source of the contract: CANN TF Adapter API, npu_common.DeviceInfo.
    """

    def __init__(self, index: str = "0", server_id: str = "123456", dev_index: int = 1) -> None:
        self._index = index
        self._server_id = server_id
        self._dev_index = dev_index
        self._root_rank = 0

    def is_master_node(self) -> bool:
        """Returns whether this is the rank whose variables all others get.

        Source of the contract: CANN TF Adapter API, npu_common.DeviceInfo.is_master_node.
        """
        return str(self._index) == str(self._root_rank)


class NPUBasics(object):  # noqa: UP004
    """What this process knows of its job.

    Args:
        file_name: the scheduler's job file, in JSON; where there is none of this name, environment
            and rank table describe the job.

    Raises:
        ValueError: the file, a variable or the rank table is wrong.
        TypeError: a number in the file is no integer.

    Source of the contract: CANN TF Adapter API, npu_common.NPUBasics.
    """

    def __init__(self, file_name: str) -> None:
        if file_name and os.path.isfile(file_name):
            self._job_info = _from_file(file_name)
        else:
            self._job_info = _from_environment()

    @property
    def jobinfo(self) -> JobInfo:
        """The job, as a JobInfo."""
        return self._job_info

    def size(self) -> int:
        """Returns the number of ranks.

        Source of the contract: CANN TF Adapter API, npu_common.NPUBasics.size.
        """
        return self._job_info._rank_size


def _from_file(path: str) -> JobInfo:
    try:
        with open(path, encoding="utf-8") as file:
            data = json.load(file)
    except ValueError as error:
        raise ValueError(f"Job file {path!r} is no JSON: {error}.") from error
    at = f"job file {path!r}: "
    device = data.get("device_info") if isinstance(data, dict) else None
    if not isinstance(device, dict):
        raise ValueError(f"{at}$.device_info is {device!r}, allowed is an object with Index.")
    util_lib.check_nonnegative_integer(device.get("Index"), at + "$.device_info.Index")
    util_lib.check_not_none(data.get("rank_table_file"), at + "$.rank_table_file")
    util_lib.check_positive_integer(data.get("rank_size"), at + "$.rank_size")
    return JobInfo(
        device_info=DeviceInfo(index=str(device["Index"])),
        rank_table_file=data["rank_table_file"],
        local_checkpoint_dir=data.get("local_checkpoint_dir"),
        rank_size=data["rank_size"],
    )


def _from_environment() -> JobInfo:
    described = runtime.current().description()
    server = "123456"
    if described.table is not None and described.rank is not None:
        server = described.table.server_of(described.rank).server_id
    # Ranks that have no number before they meet get it from the meeting.
    index = "" if described.rank is None else str(described.rank)
    return JobInfo(
        job_id=described.job_id,
        device_info=DeviceInfo(index=index, server_id=server, dev_index=described.device),
        rank_table_file="" if described.table is None else described.table.file,
        local_checkpoint_dir=environment.value("LOCAL_CHECKPOINT_DIR") or "",
        rank_size=described.size,
    )
