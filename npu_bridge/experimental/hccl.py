"""Rank queries that are published as experimental; prefer hccl.manage.api."""

from __future__ import annotations

import ctypes
from typing import Any

from hccl.manage import api
from npu_bridge.estimator.npu import util as util_lib
from npu_device._core.compute import refused

__all__ = [
    "c_str",
    "get_actual_rank_size",
    "get_user_rank_id",
    "get_user_rank_size",
    "hccl_graph_adp_ctypes",
    "util_lib",
]


class _AbsentLibrary:
    """Stands for libhcom_graph_adaptor.so of CANN: taking a function from it raises."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise refused.error("libhcom_graph_adaptor.so")


hccl_graph_adp_ctypes = _AbsentLibrary()


def c_str(string: str) -> ctypes.c_char_p:
    """Converts text for a C function.

    Args:
        string: the text.

    Returns:
        A pointer to its UTF-8 bytes.

    Raises:
        TypeError: it is no text.

    Source of the contract: CANN TF Adapter API, experimental.hccl.c_str.
    """
    if not isinstance(string, str):
        raise TypeError(f"c_str: string is {string!r}, allowed is a str.")
    return ctypes.c_char_p(string.encode("utf-8"))


def get_actual_rank_size(group: str = "hccl_world_group") -> int:
    """Returns the number of ranks of a group.

    Args:
        group: the group's name.

    Raises:
        ValueError: there is no such group.

    Source of the contract: CANN TF Adapter API, experimental.hccl.get_actual_rank_size.
    """
    return api.get_rank_size(group)


def get_user_rank_size() -> int:
    """Returns the number of ranks of the job.

    Source of the contract: CANN TF Adapter API, experimental.hccl.get_user_rank_size.
    """
    return api.get_rank_size()


def get_user_rank_id() -> int:
    """Returns the number of this rank within the job.

    Source of the contract: CANN TF Adapter API, experimental.hccl.get_user_rank_id.
    """
    return api.get_rank_id()
