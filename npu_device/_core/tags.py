"""Private attributes of ops in a graph: the tag that pairs an op with its peers, and others.

`_npu_tag` is the op's name in its own graph, after the Python names of the functions that this
graph is in. Names of nodes at run time would not do: lowering puts counters into them, and
functions that are not inlined repeat them. Counters that TensorFlow adds to the names of functions
(cond_true_12, while_body_3, __backward_step_45) are left out: they count everything that a process
has made so far, so that they differ between ranks which built the same model.

`_npu_static_shape` is the static shape of each data input, as seen here: when ops are merged the
graph knows less (a fed placeholder has no shape by then).

`_npu_absent_entries` is, for an op that reduces an entry of a list, which entries are None here.
"""

from __future__ import annotations

import re
from typing import Any, List, Optional, Sequence

import tensorflow.compat.v1 as tf
from tensorflow.python.ops import control_flow_util_v2

TAG_ATTRIBUTE = "_npu_tag"
SHAPE_ATTRIBUTE = "_npu_static_shape"
ABSENT_ENTRIES_ATTRIBUTE = "_npu_absent_entries"

_CONTROL_FLOW_GRAPHS = (
    control_flow_util_v2.CondBranchFuncGraph,
    control_flow_util_v2.WhileBodyFuncGraph,
    control_flow_util_v2.WhileCondFuncGraph,
)
# Functions of cond, switch_case and while: the scope they were made in (whose own numbers count
# the scopes of one graph, and stay), the part, a counter, and more of them for their gradients.
_CONTROL_FLOW_FUNCTION = re.compile(
    r"(?P<part>.*(?:true|false|branch\d+|cond|body))_\d+(?P<gradients>(?:_grad_\d+)*)\Z", re.DOTALL
)
_CONCRETE_FUNCTION = re.compile(r"__(inference|forward|backward)_(.*)_\d+\Z", re.DOTALL)
_DATASET_FUNCTION = re.compile(r"(.*Dataset.*)_\d+\Z", re.DOTALL)


def mark(op: tf.Operation, data: Sequence[tf.Tensor]) -> None:
    """Gives an op of ours its private attributes.

    Args:
        op: the op, in the graph that it was made in.
        data: the tensors whose shapes are to be recorded.
    """
    set_attribute(op, TAG_ATTRIBUTE, tf.AttrValue(s=tag(op).encode("utf-8")))
    shapes = tf.AttrValue.ListValue(shape=[t.shape.as_proto() for t in data])
    set_attribute(op, SHAPE_ATTRIBUTE, tf.AttrValue(list=shapes))


def mark_absent_entries(result: tf.Tensor, absent: Sequence[int]) -> None:
    """Records with an op which entries are None in the list of which it reduces one.

    Args:
        result: what the op gives. An eager op records nothing.
        absent: their positions.
    """
    op = graph_op(result) if absent else None
    if op is not None:
        entries = tf.AttrValue.ListValue(i=absent)
        set_attribute(op, ABSENT_ENTRIES_ATTRIBUTE, tf.AttrValue(list=entries))


def set_attribute(op: tf.Operation, name: str, value: tf.AttrValue) -> None:
    """Sets an attribute of an op in a graph; TensorFlow allows any whose name starts with _."""
    op._set_attr(name, value)


def tag(op: tf.Operation) -> str:
    """Returns the tag of an op: equal on all ranks that run the same program, unique in a graph."""
    names = [op.name, *function_names(op.graph)]
    return "/".join(reversed(names))


def function_names(graph: Optional[tf.Graph]) -> List[str]:
    """Returns the names of the functions that a graph is the body of, innermost first."""
    names = []
    while graph is not None and graph.building_function:
        name = function_name(graph)
        if name:
            names.append(name)
        # Defun's graph in TensorFlow 1.15 has the private attribute only.
        graph = getattr(graph, "outer_graph", None) or getattr(graph, "_outer_graph", None)
    return names


def function_name(graph: tf.Graph) -> str:
    """Returns the name of the function whose body a graph is, without TensorFlow's counters."""
    name = getattr(graph, "name", None) or ""
    if isinstance(graph, _CONTROL_FLOW_GRAPHS):
        control_flow = _CONTROL_FLOW_FUNCTION.match(name)
        if control_flow:
            return control_flow.group("part") + "_grad" * control_flow.group("gradients").count(
                "_grad"
            )
        return name
    concrete = _CONCRETE_FUNCTION.match(name)
    if concrete:
        kind, inner = concrete.groups()
        return inner if kind == "inference" else f"{kind}_{inner}"
    dataset = _DATASET_FUNCTION.match(name)
    return dataset.group(1) if dataset else name


def gradient_name(op: Any) -> Optional[str]:
    """Returns a name for the op that computes the gradient of another.

    The order in which a tape visits ops depends on how many it has seen before, so that numbers
    which TensorFlow adds to make names unique may differ between ranks. The forward op's name in
    it is the same on all, and each forward op is visited once.

    Args:
        op: the forward op as gradient functions get it: an operation, or a tape's stand-in for one.

    Returns:
        The name; None outside graphs.
    """
    if tf.executing_eagerly():
        return None
    if isinstance(op, tf.Operation):
        # tf.gradients has opened a scope with the full name.
        return op.name.split("/")[-1] + "_gradient"
    for output in op.outputs:
        forward = graph_op(output)
        if forward is not None:
            return forward.name + "_gradient"
    return f"{op.type}_gradient"


def graph_op(value: Any) -> Optional[tf.Operation]:
    """Returns the op that made a tensor in a graph; None for an eager tensor."""
    try:
        return value.op
    except AttributeError:  # eager tensors have the attribute, and raise when it is asked for
        return None
