"""Attributes of ops for the device; CPU ranks keep them and look at none."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence, Union

import tensorflow.compat.v1 as tf

from npu_bridge.estimator.npu.option_groups import ExperimentalConfig

Value = Union[bool, int, str]

_EXECUTE_MODES = ("lazy_recompile", "dynamic_execute")


def attribute_value(name: str, value: Value) -> tf.AttrValue:
    """Returns a Python value as the value of an attribute of an op.

    Args:
        name: of the attribute, for the error.
        value: a bool, int or str.

    Raises:
        TypeError: the value is something else.
    """
    if isinstance(value, bool):
        return tf.AttrValue(b=value)
    if isinstance(value, int):
        return tf.AttrValue(i=value)
    if not isinstance(value, (str, bytes)):
        raise TypeError(f"{name.lstrip('_')} is {value!r}, allowed is a str.")
    return tf.AttrValue(s=tf.compat.as_bytes(value))


def set_attributes(target: Any, values: Dict[str, Value]) -> None:
    """Sets attributes of one op.

    Args:
        target: the op, or one of its outputs.
        values: by the attribute's name.

    Raises:
        TypeError: `target` is neither, or a value is no bool, int or str.
    """
    op = target if isinstance(target, tf.Operation) else getattr(target, "op", None)
    if not isinstance(op, tf.Operation):
        raise TypeError(f"Expected an op or tensor of a graph, got {target!r}.")
    for name, value in values.items():
        op._set_attr(name, attribute_value(name, value))


def set_graph_exec_config(
    fetch: Any,
    dynamic_input: bool = False,
    dynamic_graph_execute_mode: str = "dynamic_execute",
    dynamic_inputs_shape_range: Optional[str] = None,
    is_train_graph: bool = False,
    experimental_config: Optional[ExperimentalConfig] = None,
) -> Any:
    """Marks what is fetched with how the device runs the graph behind it.

    Accepted without effect on CPU ranks.

    The marks are attributes _graph_dynamic_input, _graph_dynamic_graph_execute_mode,
    _graph_dynamic_inputs_shape_range, _is_train_graph and _recompute_mode.

    Args:
        fetch: an op, a tensor, the name of a tensor, or a list or tuple of those.
        dynamic_input: whether inputs change their shapes.
        dynamic_graph_execute_mode: "dynamic_execute" or "lazy_recompile".
        dynamic_inputs_shape_range: shapes that inputs can have.
        is_train_graph: whether the graph is for training.
        experimental_config: an ExperimentalConfig, of which `recompute` is used.

    Returns:
        `fetch`, the tensor in place of a tensor's name.

    Raises:
        ValueError: an argument is none of the values that are allowed.

    Source of the contract: CANN TF Adapter API, set_graph_exec_config.
    """
    if dynamic_graph_execute_mode not in _EXECUTE_MODES:
        raise ValueError(
            f"dynamic_graph_execute_mode is {dynamic_graph_execute_mode!r}, allowed is one of "
            f"{', '.join(_EXECUTE_MODES)}."
        )
    values: Dict[str, Value] = {
        "_graph_dynamic_input": dynamic_input,
        "_graph_dynamic_graph_execute_mode": dynamic_graph_execute_mode,
        "_graph_dynamic_inputs_shape_range": dynamic_inputs_shape_range or "",
        "_is_train_graph": is_train_graph,
    }
    recompute = _recompute(experimental_config)
    if recompute is not None:
        values["_recompute_mode"] = recompute
    return _mark(fetch, values)


def keep_tensors_dtypes(graph: tf.Graph, input_tensors: Sequence[str]) -> None:
    """Keeps the ops behind tensors in the number format that the script gives them.

    Accepted without effect on CPU ranks.

    Sets attribute _keep_dtype.

    Args:
        graph: the graph.
        input_tensors: names of tensors in it, such as "add:0".

    Raises:
        ValueError: `graph` is no graph, or `input_tensors` no list or tuple.
        KeyError: there is no tensor of a name.

    Source of the contract: CANN TF Adapter API, keep_tensors_dtypes.
    """
    if not isinstance(graph, tf.Graph):
        raise ValueError(f"graph is {graph!r}, allowed is a tf.Graph.")
    if not isinstance(input_tensors, (list, tuple)):
        raise ValueError(
            f"input_tensors is {input_tensors!r}, allowed is a list or tuple of tensors' names."
        )
    for name in input_tensors:
        set_attributes(graph.get_tensor_by_name(name), {"_keep_dtype": 1})


def set_op_tensor_max_range(tensor: Any, max_shape: str) -> None:
    """Tells the device the largest shape that an op's result can have.

    Accepted without effect on CPU ranks.

    Sets attribute _op_max_shape.

    Args:
        tensor: the op, or one of its outputs.
        max_shape: the shape, as a text.

    Source of the contract: CANN TF Adapter API, set_op_tensor_max_range.
    """
    set_attributes(tensor, {"_op_max_shape": max_shape})


def set_op_input_tensor_multi_dims(tensor: Any, input_shape: str, input_dims: str) -> None:
    """Tells the device the shapes that a part of a graph is compiled for.

    Accepted without effect on CPU ranks.

    Sets attributes _subgraph_multi_dims_input_shape and _subgraph_multi_dims_input_dims.

    Args:
        tensor: the op, or one of its outputs.
        input_shape: shapes of the inputs, with -1 for what changes: "0:1,-1;1:-1".
        input_dims: sizes for the -1s: "2,2;4,4".

    Source of the contract: CANN TF Adapter API, set_op_input_tensor_multi_dims.
    """
    set_attributes(
        tensor,
        {
            "_subgraph_multi_dims_input_shape": input_shape,
            "_subgraph_multi_dims_input_dims": input_dims,
        },
    )


def set_op_tensor_max_size(tensor: Any, max_size: int) -> None:
    """Tells the device the largest size of an op's result.

    Accepted without effect on CPU ranks.

    Sets attribute _op_max_size.

    Args:
        tensor: the op, or one of its outputs.
        max_size: bytes.

    Source of the contract: CANN TF Adapter API, set_op_tensor_max_size.
    """
    set_attributes(tensor, {"_op_max_size": max_size})


def _recompute(config: Any) -> Optional[str]:
    if config is None:
        return None
    if not isinstance(config, ExperimentalConfig):
        raise ValueError(
            f"experimental_config is {config!r}, allowed is an ExperimentalConfig or None."
        )
    return getattr(config._graph_memory_optimize_config, "_recompute", None)


def _mark(fetch: Any, values: Dict[str, Value]) -> Any:
    if isinstance(fetch, (tf.Operation, tf.Tensor)):
        set_attributes(fetch, values)
        return fetch
    if isinstance(fetch, (list, tuple)):
        marked: List[Any] = [_mark(one, values) for one in fetch]
        return type(fetch)(marked) if type(fetch) in (list, tuple) else fetch
    if isinstance(fetch, str):
        return _mark(tf.get_default_graph().get_tensor_by_name(fetch), values)
    raise ValueError(
        f"fetch is {fetch!r}, allowed is an op, a tensor, the name of a tensor, or a list or tuple "
        f"of those."
    )
