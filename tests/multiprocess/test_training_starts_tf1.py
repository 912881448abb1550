"""How training begins: broadcasts before variables have values, checkpoints of one rank, devices."""

from __future__ import annotations

from tests.harness import run_ranks
from tests.multiprocess import training_script


def equal_digests(ranks, body, at_least=1, **options):
    job = run_ranks(ranks, training_script.graph(body), limit=240, **options)
    training_script.expect_equal_digests(job, at_least)
    return job


def test_a_checkpoint_that_rank_0_alone_writes_and_restores():
    """Also of sharded training, where each rank updates some of the variables only."""
    equal_digests(
        2,
        """
        import tempfile
        from npu_bridge.estimator.npu.npu_callbacks import broadcast_global_variables
        folder = tempfile.mkdtemp()

        def run(steps, sharding, restore=None, save=None, ranks=(rank,), seed=0):
            with tf.Graph().as_default():
                variables = make_variables(True)
                places = [feeds(r) for r in ranks]
                loss = tf.add_n([loss_of(variables, p) for p in places]) / len(ranks)
                optimizer = tf.train.AdamOptimizer(0.05)
                if len(ranks) == 1:
                    optimizer = NPUDistributedOptimizer(optimizer, sharding)
                update = optimizer.minimize(loss, tf.train.get_or_create_global_step())
                saver, start = tf.train.Saver(), broadcast_global_variables(0)
                history = []
                with tf.Session() as session:
                    session.run(tf.global_variables_initializer())
                    if rank == 1:  # as if it had started differently
                        session.run([v.assign_add(tf.ones_like(v)) for v in tf.trainable_variables()])
                    if restore and rank == 0:
                        saver.restore(session, restore)
                    session.run(start)
                    for step in steps:
                        feed = {}
                        for r, p in zip(ranks, places):
                            feed.update(fed(p, step, r))
                        session.run(update, feed)
                        history.append(session.run(tf.global_variables()))
                    if save and rank == 0:
                        saver.save(session, save)
                return history

        for sharding in (False, True):
            through = run(range(4), sharding)
            path = os.path.join(folder, "sharded" if sharding else "plain")
            first = run(range(2), sharding, save=path)
            rest = run(range(2, 4), sharding, restore=path)
            close(first + rest, through)
            digest("resumed", rest)
        """,
        at_least=2,
    )


def test_a_broadcast_before_the_initializer_on_one_rank_is_an_error_on_both():
    script = training_script.graph(
        """
        from npu_bridge.estimator import npu_ops
        variables = make_variables(False)
        start = hccl_ops.broadcast(tf.global_variables(), 0)
        with tf.Session() as session:
            session.run(npu_ops.initialize_system())
            if rank == 0:
                session.run(tf.global_variables_initializer())
            try:
                session.run(start)
            except tf.errors.OpError as error:
                say("refused:", type(error).__name__, " ".join(str(error).split()))
        """
    )
    job = run_ranks(2, script, limit=180)
    job.expect_success()
    assert "refused: FailedPreconditionError" in job.outputs[1], job.report()
    assert "uninitialized value" in job.outputs[1], job.report()
    assert "refused:" in job.outputs[0] and "rank 1" in job.outputs[0], job.report()


def test_a_model_placed_on_a_device_that_is_not_there():
    """With soft placement it trains on the CPU; without, no rank trains."""
    equal_digests(
        2,
        """
        def run(soft):
            with tf.Graph().as_default():
                with tf.device("/device:GPU:0"):
                    variables = make_variables(True)[:3]
                    place = feeds(rank)
                    loss = loss_of(variables + [None], place)
                    update = NPUDistributedOptimizer(tf.train.AdamOptimizer(0.1)).minimize(loss)
                start = hccl_ops.broadcast(variables, 0)
                with tf.Session(config=tf.ConfigProto(allow_soft_placement=soft)) as session:
                    session.run(tf.global_variables_initializer())
                    session.run(start)
                    for step in range(2):
                        session.run(update, fed(place, step, rank))
                    return session.run(variables)

        digest("soft", run(True))
        try:
            run(False)
        except tf.errors.InvalidArgumentError as error:
            assert "device" in str(error), error
        else:
            raise AssertionError("there is no such device")
        """,
    )


def test_gradients_that_are_none_on_one_rank_only_are_named():
    script = training_script.graph(
        """
        variables = make_variables(True)[1:3]
        used = variables if rank == 0 else variables[:1]
        loss = tf.add_n([tf.reduce_sum(v) for v in used])
        pairs = NPUDistributedOptimizer(tf.train.GradientDescentOptimizer(0.1)).compute_gradients(
            loss, variables)
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            session.run([gradient for gradient, _ in pairs if gradient is not None])
        """
    )
    job = run_ranks(2, script, limit=180)
    for rank in range(2):
        job.expect_error(rank, "dense/")
        job.expect_error(rank, "None")
