"""The definitions of our ops, frozen: a GraphDef that holds one must load for ever.

Names, inputs, outputs, attributes with their order, types, allowed values and (absent) defaults are
those of the Ascend TF Adapter's ops; its generated Python functions take arguments in that order.
"""

from __future__ import annotations

import pytest
import tensorflow.compat.v1 as tf

from npu_device._core import library

pytestmark = pytest.mark.core

DATA = "bfloat16 float16 float32 float64 int16 int32 int64 int8 uint16 uint32 uint64 uint8"

# One line each: input and output name: type, & for a reference, * for a list;
# attr name: type {allowed} = default.
DEFINITIONS = {
    "HcomAllReduce": f"""
        input input: T
        output output: T
        attr T: type {{{DATA}}}
        attr reduction: string {{max min prod sum}}
        attr group: string
        attr fusion: int
        attr fusion_id: int
    """,
    "HcomAllGather": f"""
        input input: T
        output output: T
        attr T: type {{{DATA}}}
        attr group: string
        attr fusion: int
        attr fusion_id: int
        attr rank_size: int
    """,
    "HcomBroadcast": """
        input input: T *
        output output: T *
        attr T: list(type)
        attr fusion: int
        attr fusion_id: int
        attr group: string
        attr root_rank: int
    """,
    "HcomReduce": f"""
        input input: T
        output output: T
        attr T: type {{{DATA}}}
        attr reduction: string {{max min prod sum}}
        attr group: string
        attr root_rank: int
        attr fusion: int
        attr fusion_id: int
    """,
    "HcomReduceScatter": f"""
        input input: T
        output output: T
        attr T: type {{{DATA}}}
        attr reduction: string {{max min prod sum}}
        attr group: string
        attr fusion: int
        attr fusion_id: int
        attr rank_size: int
    """,
    "HcomSend": f"""
        input input: T
        attr T: type {{{DATA}}}
        attr group: string
        attr sr_tag: int
        attr dest_rank: int
    """,
    "HcomReceive": f"""
        output output: T
        attr T: type {{{DATA}}}
        attr shape: shape
        attr group: string
        attr sr_tag: int
        attr src_rank: int
    """,
    "HcomAllToAllV": f"""
        input send_data: T
        input send_counts: int64
        input send_displacements: int64
        input recv_counts: int64
        input recv_displacements: int64
        output recv_data: T
        attr T: type {{{DATA}}}
        attr group: string
    """,
    "HcomAllToAllVC": f"""
        input send_data: T
        input send_count_matrix: int64
        output recv_data: T
        attr T: type {{{DATA}}}
        attr rank: int
        attr group: string
        attr fusion: int
        attr fusion_id: int
    """,
    "HcomGatherAllToAllV": f"""
        input addrinfo: uint64
        input addrinfo_count_per_rank: int64
        input recv_counts: int64
        input recv_displacements: int64
        output recv_data: dtype
        output gathered: dtype
        attr dtype: type {{{DATA}}}
        attr addr_length: int
        attr group: string
    """,
    "HcomRemoteRead": f"""
        input remote: T
        output local: dtype
        attr T: type {{int64 uint64}}
        attr dtype: type {{{DATA}}}
    """,
    "HcomRemoteRefRead": f"""
        input remote: T
        input cache_var: dtype &
        input local_offset: T
        output cache_var1: dtype &
        attr T: type {{uint64}}
        attr dtype: type {{{DATA}}}
    """,
    "HcomRemoteWrite": f"""
        input remote: T
        input local: dtype
        attr T: type {{int64 uint64}}
        attr dtype: type {{{DATA}}}
    """,
    "HcomRemoteScatterWrite": f"""
        input remote: T
        input local: dtype &
        input local_offset: T
        attr T: type {{int64 uint64}}
        attr dtype: type {{{DATA}}}
    """,
    "NPUInit": "",
    "NPUShutdown": "",
    "_HcomStepMarker": """
        attr tags: list(string)
        attr groups: list(string)
        attr called_tags: list(string)
        attr called_groups: list(string)
    """,
}
PUBLISHED = sorted(name for name in DEFINITIONS if name.startswith("Hcom"))


def op_def(name):
    """Returns the OpDef of a registered op."""
    library.ops()
    graph = tf.Graph()
    # The method's name changed between TensorFlow 2.6 and 2.15.
    find = getattr(graph, "op_def_for_type", None) or graph._get_op_def
    return find(name)


def described(definition):
    """Returns an OpDef in the words of DEFINITIONS."""
    lines = []
    for kind, arguments in (("input", definition.input_arg), ("output", definition.output_arg)):
        for argument in arguments:
            of = argument.type_attr or argument.type_list_attr
            of = of or tf.as_dtype(argument.type).name
            mark = (" &" if argument.is_ref else "") + (" *" if argument.type_list_attr else "")
            lines.append(f"{kind} {argument.name}: {of}{mark}")
    for attribute in definition.attr:
        line = f"attr {attribute.name}: {attribute.type}"
        values = attribute.allowed_values.list
        allowed = [tf.as_dtype(value).name for value in values.type]
        allowed += [value.decode() for value in values.s]
        if allowed:
            line += " {" + " ".join(sorted(allowed)) + "}"
        if attribute.has_minimum and attribute.minimum != 0:
            line += f" >= {attribute.minimum}"
        if attribute.HasField("default_value"):
            line += f" = {attribute.default_value}"
        lines.append(line)
    return lines


@pytest.mark.parametrize("name", sorted(DEFINITIONS))
def test_definition_is_the_frozen_one(name):
    expected = [line.strip() for line in DEFINITIONS[name].strip().splitlines()]
    assert described(op_def(name)) == expected


@pytest.mark.parametrize("name", sorted(DEFINITIONS))
def test_op_is_stateful(name):
    """Two equal collectives are two exchanges: TensorFlow must not merge, fold or drop them."""
    assert op_def(name).is_stateful


@pytest.mark.parametrize("name", sorted(DEFINITIONS))
def test_op_is_documented(name):
    definition = op_def(name)
    assert definition.summary
    arguments = list(definition.input_arg) + list(definition.output_arg)
    undocumented = [a.name for a in arguments if not a.description]
    # What says the element type of an input needs no words of its own.
    undocumented += [a.name for a in definition.attr if not a.description and a.name != "T"]
    if name != "HcomReceive":
        undocumented = [a for a in undocumented if a != "dtype"]
    assert undocumented == []


@pytest.mark.parametrize("name", PUBLISHED)
def test_document_tells_errors_and_gradient(name):
    text = op_def(name).description
    assert "Error" in text
    assert "gradient" in text


def test_no_other_op_of_ours_is_registered():
    module = library.ops()
    ours = {f.__name__ for f in vars(module).values() if callable(f) and hasattr(f, "__name__")}
    made = sorted(f for f in ours if f.startswith(("hcom_", "npu_")) and "eager_fallback" not in f)
    assert made == sorted(
        [
            "hcom_all_gather",
            "hcom_all_reduce",
            "hcom_all_to_all_v",
            "hcom_all_to_all_vc",
            "hcom_broadcast",
            "hcom_gather_all_to_all_v",
            "hcom_receive",
            "hcom_reduce",
            "hcom_reduce_scatter",
            "hcom_remote_read",
            "hcom_remote_ref_read",
            "hcom_remote_scatter_write",
            "hcom_remote_write",
            "hcom_send",
            "npu_init",
            "npu_shutdown",
        ]
    )
