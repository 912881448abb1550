"""Groups of hccl.manage.api with collectives in them: several at once, in any legal order."""

from __future__ import annotations

import pytest

from tests.harness import run_ranks
from tests.multiprocess import scripts

pytestmark = pytest.mark.core


def test_overlapping_groups_used_and_destroyed_in_different_orders():
    script = scripts.eager(
        """
        members = {"A": [0, 1, 2], "B": [2, 3], "C": [0, 3]}
        mine = [name for name in sorted(members) if rank in members[name]]

        def use(name):
            value = float(hccl_ops.allreduce(tf.constant(10.0 ** rank), "sum", group=name))
            assert value == sum(10.0 ** r for r in members[name]), (name, value)

        for round in range(3):
            # Ranks create and destroy in different orders; the order of use is one that all share.
            for name in (mine if (rank + round) % 2 else mine[::-1]):
                create_group(name, len(members[name]), members[name])
            for name in (mine if round % 2 else mine[::-1]):
                for _ in range(5):
                    use(name)
            for name in (mine[::-1] if rank % 2 else mine):
                destroy_group(name)
        try:
            use(mine[0])
        except tf.errors.InvalidArgumentError as error:
            assert repr(mine[0])[1:-1] in str(error) and "hccl_world_group" in str(error), error
        else:
            raise SystemExit("a destroyed group worked")
        """
    )
    run_ranks(4, script, limit=180).expect_success()


def test_groups_in_one_graph_need_no_common_order():
    """A session starts the ops of a step as it likes."""
    script = scripts.graph(
        """
        members = {"A": [0, 1, 2], "B": [2, 3], "C": [0, 3], "hccl_world_group": [0, 1, 2, 3]}
        mine = [name for name in sorted(members) if rank in members[name]]
        for name in mine:
            if name != "hccl_world_group":
                create_group(name, len(members[name]), members[name])
        results = []
        for name in (mine if rank % 2 else mine[::-1]):
            with tf.name_scope(name):
                results.append((name, hccl_ops.allreduce(10.0 ** rank, "sum", group=name)))
        with tf.Session() as session:
            for _ in range(20):
                for name, value in zip(dict(results), session.run([t for _, t in results])):
                    assert value == sum(10.0 ** r for r in members[name]), (name, value)
        """
    )
    run_ranks(4, script, limit=180).expect_success()


def test_groups_of_one_name_with_other_members():
    """Each pair creates its own "pair"; they never meet."""
    script = scripts.eager(
        """
        first = rank // 2 * 2
        create_group("pair", 2, [first, first + 1])
        for step in range(10):
            value = float(hccl_ops.allreduce(tf.constant(10.0 ** rank), "sum", group="pair"))
            assert value == 10.0 ** first + 10.0 ** (first + 1), value
        """
    )
    run_ranks(4, script, limit=180).expect_success()


def test_a_group_keeps_the_order_of_its_list():
    script = scripts.eager(
        """
        order = [2, 0, 1]
        create_group("turned", 3, order)
        place = order.index(rank)
        assert get_rank_id("turned") == place and get_rank_size("turned") == 3
        for i, r in enumerate(order):
            assert get_world_rank_from_group_rank("turned", i) == r
            assert get_group_rank_from_world_rank(r, "turned") == i
        mine = tf.constant([float(rank)])
        assert hccl_ops.allgather(mine, 3, group="turned").numpy().tolist() == [2, 0, 1]
        assert hccl_ops.broadcast([mine], 1, group="turned")[0].numpy().tolist() == [0]
        everyones = tf.constant([[float(10 * rank + i)] for i in range(3)])
        scattered = hccl_ops.reduce_scatter(everyones, "max", 3, group="turned")
        assert scattered.numpy().tolist() == [[20 + place]]
        reduced = float(hccl_ops.reduce(mine[0] + 1, "sum", 2, group="turned"))
        assert reduced == (6 if rank == 1 else rank + 1)
        blocks = hccl_ops.all_to_all_v(everyones, [1] * 3, [0, 1, 2], [1] * 3, [0, 1, 2], "turned")
        assert blocks.numpy().tolist() == [20 + place, place, 10 + place]
        hccl_ops.send(mine, 5, (place + 1) % 3, group="turned")
        got = hccl_ops.receive([1], tf.float32, 5, (place - 1) % 3, group="turned")
        assert got.numpy().tolist() == [order[(place - 1) % 3]]
        """
    )
    run_ranks(3, script, limit=180).expect_success()


def test_a_rank_that_is_not_in_a_group():
    """Its call fails at once, and the members do not notice."""
    script = scripts.eager(
        """
        if rank in (1, 2):
            create_group("inner", 2, [1, 2])
        for _ in range(5):
            if rank in (1, 2):
                assert float(hccl_ops.allreduce(tf.constant(1.0), "sum", group="inner")) == 2
            elif rank == 0:
                try:
                    hccl_ops.allreduce(tf.constant(1.0), "sum", group="inner")
                except tf.errors.InvalidArgumentError as error:
                    assert "inner" in str(error) and "hccl_world_group" in str(error), error
                else:
                    raise SystemExit("a group that rank 0 is not in worked there")
                try:
                    get_rank_id("inner")
                except ValueError as error:
                    assert "inner" in str(error)
                else:
                    raise SystemExit("rank 0 has a rank in a group that it is not in")
        assert float(hccl_ops.allreduce(tf.constant(1.0), "sum")) == 4
        """
    )
    run_ranks(4, script, limit=180).expect_success()


def test_wrong_ways_of_creating_a_group():
    script = scripts.graph(
        """
        def refused(*arguments):
            try:
                create_group(*arguments)
            except ValueError as error:
                return str(error)
            raise SystemExit("created: %r" % (arguments,))

        other = 1 - rank
        create_group("twice", 2, [0, 1])
        texts = [
            refused("twice", 2, [0, 1]),
            refused("hccl_world_group", 2, [0, 1]),
            refused("x" * 128, 2, [0, 1]),
            refused("\\u00e9" * 64, 2, [0, 1]),
            refused("", 2, [0, 1]),
            refused("g", 3, [0, 1]),
            refused("g", 2, [0, 0]),
            refused("g", 2, [0, 2]),
            refused("g", 1, [other]),
        ]
        assert len(set(texts)) == len(texts), texts
        for name in ("x" * 127, "\\u00e9" * 63, "plain"):
            create_group(name, 2, [0, 1])
            with tf.Session() as session:
                assert session.run(hccl_ops.allreduce(1.0, "sum", group=name)) == 2
        """
    )
    run_ranks(2, script, limit=180).expect_success()


def test_groups_are_forgotten_at_shutdown_and_may_be_created_again():
    script = scripts.graph(
        """
        from npu_bridge.estimator import npu_ops
        with tf.Session() as session:
            start, stop = npu_ops.initialize_system(), npu_ops.shutdown_system()
            for round in range(3):
                session.run(start)
                create_group("again", 2, [round % 2, 1 - round % 2])
                with tf.name_scope("round%d" % round):
                    rows = hccl_ops.allgather([float(rank)], 2, group="again")
                assert session.run(rows).tolist() == [round % 2, 1 - round % 2]
                session.run(stop)
        """
    )
    run_ranks(2, script, limit=180).expect_success()
