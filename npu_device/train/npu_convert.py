"""Replaces functions of TensorFlow by the device's, in the releases that a replacement is for.

A list of releases holds texts such as "2.6.2" (this one), "2.6.*" (2.6.0 to 2.6.999), "2.*", "*"
and "2.6.1~2.6.5" (from, to).
"""

from __future__ import annotations

import functools
import logging as levels
import re
from typing import Any, Callable, List, Sequence

import tensorflow
import tensorflow.compat.v1 as tf

from npu_device._core import logging
from npu_device.npu_device import global_npu_ctx
from npu_device.train import convert_dropout

__all__ = [
    "REPLACED",
    "api_func_convert",
    "check_version_format",
    "convert_dropout",
    "dropout_convert",
    "global_npu_ctx",
    "judge_version_support",
    "npu_convert_api",
    "parse_range_version",
    "parse_star_ver",
    "parse_version",
    "parse_version_range",
    "verify_version",
]

#: The attribute of a replacement that holds what it replaces.
REPLACED = "__npu_replaced__"

_ORIGINAL = "__OriginCall__"  # the published attribute of a new function

_PARTS = 3  # of a release's number
_HIGHEST = 999

# Pairs of the lowest and the highest release, filled by the functions that parse.
_version_range: List[List[List[int]]] = []


def parse_star_ver(ver: Any = str) -> bool:
    """Adds the releases of a text such as "2.6.*" to those that are supported.

    Args:
        ver: the text, which check_version_format takes.

    Returns:
        True.

    Source of the contract: CANN TF Adapter, npu_device.train.npu_convert.
    """
    given = [int(part) for part in ver.rstrip("*").split(".") if part]
    missing = _PARTS - len(given)
    _version_range.append([given + [0] * missing, given + [_HIGHEST] * missing])
    return True


def parse_range_version(ver: Any = str) -> bool:
    """Adds the releases of a text such as "2.6.1~2.6.5" to those that are supported.

    Args:
        ver: the text, which check_version_format takes.

    Returns:
        Whether both ends are whole numbers of releases, in this order. If not, nothing is added.

    Source of the contract: CANN TF Adapter, npu_device.train.npu_convert.
    """
    low, _, high = ver.partition("~")
    ends = [[int(part) for part in end.split(".")] for end in (low, high)]
    if any(len(end) != _PARTS for end in ends) or ends[0] > ends[1]:
        return False
    _version_range.append(ends)
    return True


def parse_version(ver: Any = str) -> bool:
    """Adds one release, such as "2.6.2", to those that are supported.

    Args:
        ver: the text, which check_version_format takes.

    Returns:
        True.

    Source of the contract: CANN TF Adapter, npu_device.train.npu_convert.
    """
    number = [int(part) for part in ver.split(".")]
    _version_range.append([number, number])
    return True


def check_version_format(version: Any = str) -> bool:
    """Returns whether a text describes releases in one of the ways above.

    Args:
        version: the text.

    Source of the contract: CANN TF Adapter, npu_device.train.npu_convert.
    """
    number = r"\d+(\.\d+)*"
    return bool(re.match(rf"({number}|{number}~{number}|({number}\.)?\*)\Z", version, re.ASCII))


def parse_version_range(version: Any = str) -> bool:
    """Adds the releases of a text to those that are supported.

    Args:
        version: the text, which check_version_format takes.

    Returns:
        Whether it could be read. If not, nothing is added.

    Source of the contract: CANN TF Adapter, npu_device.train.npu_convert.
    """
    if "*" in version:
        return parse_star_ver(version)
    if "~" in version:
        return parse_range_version(version)
    return version.count(".") == _PARTS - 1 and parse_version(version)


def verify_version() -> bool:
    """Returns whether the TensorFlow that runs is among the releases that are supported.

    Source of the contract: CANN TF Adapter, npu_device.train.npu_convert.
    """
    running = [int(part) for part in re.findall(r"\d+", tensorflow.__version__)[:_PARTS]]
    return any(low <= running <= high for low, high in _version_range)


def judge_version_support(version_list: Any = list) -> bool:
    """Returns whether the TensorFlow that runs is among some releases, and no others.

    Args:
        version_list: texts that describe releases.

    Returns:
        False also where a text cannot be read, which is said once.

    Source of the contract: CANN TF Adapter, npu_device.train.npu_convert.
    """
    del _version_range[:]
    for version in version_list:
        if not check_version_format(version) or not parse_version_range(version):
            logging.once(
                levels.WARNING,
                "npu_convert: %r describes no releases of TensorFlow. Expected is one such as "
                "2.6.2, 2.6.* or 2.6.1~2.6.5.",
                version,
            )
            return False
    return verify_version()


def api_func_convert(wrapfunc: Callable[..., Any], **kwargs: Any) -> Callable[..., Any]:
    """Makes a decorator that puts a function in another one's place.

    Args:
        wrapfunc: the new function.
        **kwargs: `version`, a list of texts that describe the releases of TensorFlow to do it in,
            and `mode`, a list of "graph" and "eager", where it is called. Others are ignored.

    Returns:
        The decorator. It returns the function that it is given, in other releases; else one that
        calls the new function, or the old one in other modes and while no device is open. The new
        function gets the old one as attribute __OriginCall__.

    Raises:
        TypeError: `wrapfunc` is no function.

    Source of the contract: CANN TF Adapter, npu_device.train.npu_convert.
    """
    if not callable(wrapfunc):
        raise TypeError(f"api_func_convert: expected a function to call, got {wrapfunc!r}.")
    versions: Sequence[str] = kwargs.get("version", ())
    modes: Sequence[str] = kwargs.get("mode", ())

    def convert(replaced: Callable[..., Any]) -> Callable[..., Any]:
        if not judge_version_support(versions):
            return replaced
        setattr(wrapfunc, _ORIGINAL, replaced)

        @functools.wraps(replaced)
        def wrapper(*args: Any, **options: Any) -> Any:
            mode = "eager" if tf.executing_eagerly() else "graph"
            chosen = wrapfunc if global_npu_ctx() is not None and mode in modes else replaced
            return chosen(*args, **options)

        setattr(wrapper, REPLACED, replaced)
        return wrapper

    return convert


dropout_convert = functools.partial(api_func_convert, ToolType="ApiConvert")


def npu_convert_api() -> None:
    """Replaces the functions of TensorFlow that the device has its own for: tf.nn.dropout.

    Opening a device does not do this: on CPU ranks TensorFlow's are as good.

    Source of the contract: CANN TF Adapter, npu_device.train.npu_convert.
    """
    convert_dropout.dropout_api_convert()
