"""Draws the pictures in fusion.md from a graph that TensorFlow runs.

    python docs/fusion_picture.py

Needs npu-bridge to be installed, with TensorFlow 2. Builds a step of two layers whose gradients are
summed over the ranks, runs it on one rank without fusion and with it, and takes the graph that
TensorFlow executes from its run metadata. Writes the pictures into fusion.md, as Mermaid.
"""

from __future__ import annotations

import os
import re

import tensorflow.compat.v1 as tf

from npu_bridge.hccl import hccl_ops

PAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "fusion.md")
# Constants, reads and what TensorFlow adds to feed and fetch say nothing here.
_SHOWN = re.compile(r"Hcom(?!StepMarker)|MatMul|Apply")


def executed_graph(fusion):
    """Returns the nodes that TensorFlow executes in a step, as GraphDef nodes."""
    os.environ["NPU_BRIDGE_FUSION"] = "1" if fusion else "0"
    metadata = tf.RunMetadata()
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.placeholder(tf.float32, [4, 8], name="x")
        weights = [
            tf.get_variable(f"weight_{layer}", [8, 8], use_resource=False) for layer in (1, 2)
        ]
        y = x
        for layer, weight in enumerate(weights, 1):
            y = tf.matmul(y, weight, name=f"layer_{layer}")
        gradients = tf.gradients(tf.reduce_sum(y), weights)
        sums = [hccl_ops.allreduce(g, "sum", fusion=2, fusion_id=0) for g in gradients]
        steps = [
            tf.raw_ops.ApplyGradientDescent(
                var=w._ref(), alpha=0.1, delta=g, name=f"update_{layer}"
            )
            for layer, (w, g) in enumerate(zip(weights, sums), 1)
        ]
        session.run(tf.global_variables_initializer())
        session.run(
            [step.op for step in steps],
            {x: [[1.0] * 8] * 4},
            options=tf.RunOptions(output_partition_graphs=True),
            run_metadata=metadata,
        )
    return [node for graph in metadata.partition_graphs for node in graph.node]


def mermaid(nodes):
    """Returns a picture of the nodes that matter, with the edges between them."""
    by_name = {node.name: node for node in nodes}

    def sources(node):
        """The nodes that are shown and from which data reaches this one."""
        found = set()
        for text in node.input:
            source = by_name.get(text.split(":")[0].lstrip("^"))
            if source is not None:
                found |= {source.name} if _SHOWN.search(source.op) else sources(source)
        return found

    shown = sorted((n for n in nodes if _SHOWN.search(n.op)), key=lambda n: n.name)
    names = {node.name: f"n{place}" for place, node in enumerate(shown)}
    lines = ["```mermaid", "flowchart TD"]
    for node in shown:
        label = node.name.split("/")[-2 if "gradients" in node.name else 0]
        lines.append(f'  {names[node.name]}["{node.op}<br/>{label}"]')
    for node in shown:
        lines += [f"  {names[source]} --> {names[node.name]}" for source in sorted(sources(node))]
    return "\n".join([*lines, "```"])


def page(text):
    """Returns the page with its pictures drawn anew."""
    for mark, fusion in (("before", False), ("after", True)):
        picture = mermaid(executed_graph(fusion))
        pattern = re.compile(f"(<!-- {mark} -->\n).*?(<!-- end -->)", re.DOTALL)
        text, count = pattern.subn(lambda m, p=picture: m.group(1) + p + "\n" + m.group(2), text)
        assert count == 1, f"fusion.md has no place for the picture '{mark}'"
    return text


def main():
    """Draws them."""
    tf.disable_eager_execution()
    with open(PAGE, encoding="utf-8") as file:
        text = page(file.read())
    with open(PAGE, "w", encoding="utf-8") as file:
        file.write(text)


if __name__ == "__main__":
    main()
