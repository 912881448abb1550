"""What merging saves: a step of many small broadcasts, merged and one by one.

    python benchmarks/fusion.py [--ranks 2] [--ops 200] [--bytes 1024] [--steps 100] [--rounds 3]

Each number is the median time of a Session.run of the whole step, on the slowest rank. The same
graph on one rank, where nothing is exchanged, is TensorFlow's own share; what is compared is the
time above it. Runs of all kinds alternate, so that a machine that changes its speed does so for
all.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time


def measure(ops: int, size: int, steps: int) -> float:
    """Runs in a rank: returns the median seconds of a step."""
    import tensorflow.compat.v1 as tf

    from npu_bridge.hccl import hccl_ops

    tf.disable_eager_execution()
    values = [tf.fill([size // 4], float(i)) for i in range(ops)]
    results = [hccl_ops.broadcast([v], 0, fusion=2, fusion_id=0)[0] for v in values]
    step = tf.group(*[result.op for result in results])
    times = []
    with tf.Session() as session:
        for _ in range(steps + 10):
            begin = time.perf_counter()
            session.run(step)
            times.append(time.perf_counter() - begin)
    return statistics.median(times[10:])


def run(ranks: int, fusion: bool, arguments: argparse.Namespace) -> float:
    """Runs a job and returns the median seconds of a step on its slowest rank."""
    launcher = [sys.executable, "-m", "npurun", "-n", str(ranks), "--no-color"]
    command = [*launcher, __file__, "--measure"]
    for name in ("ops", "bytes", "steps"):
        command += [f"--{name}", str(getattr(arguments, name))]
    environment = dict(os.environ, NPU_BRIDGE_FUSION=str(int(fusion)), TF_CPP_MIN_LOG_LEVEL="2")
    output = subprocess.run(
        command, env=environment, stdout=subprocess.PIPE, check=True, text=True
    ).stdout
    lines = [line for line in output.splitlines() if "median " in line]
    found = [float(line.split("median ")[1]) for line in lines]
    assert len(found) == ranks, output
    return max(found)


def main() -> None:
    """Measures in a rank, or runs the jobs and prints the comparison."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--ops", type=int, default=200, help="broadcasts in a step")
    parser.add_argument("--bytes", type=int, default=1024, help="of each")
    parser.add_argument("--steps", type=int, default=100, help="measured in a run")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each kind")
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        print("median", measure(arguments.ops, arguments.bytes, arguments.steps), flush=True)
        return
    kinds = [(1, True), (1, False), (arguments.ranks, True), (arguments.ranks, False)]
    times: dict = {kind: [] for kind in kinds}
    for _ in range(arguments.rounds):
        for ranks, fusion in kinds:
            times[ranks, fusion].append(run(ranks, fusion, arguments))
    medians = {kind: 1e3 * statistics.median(values) for kind, values in times.items()}
    print(
        f"{arguments.ops} broadcasts of {arguments.bytes} bytes, {arguments.rounds} runs of "
        f"{arguments.steps} steps each; milliseconds a step:"
    )
    above = {}
    for fusion, name in ((True, "merged"), (False, "one by one")):
        one, many = medians[1, fusion], medians[arguments.ranks, fusion]
        above[fusion] = many - one
        print(
            f"{name:>12}: 1 rank {one:8.3f}   {arguments.ranks} ranks {many:8.3f}   "
            f"above {many - one:8.3f}"
        )
    print(f"merged / one by one, above one rank: {above[True] / above[False]:.3f}")


if __name__ == "__main__":
    main()
