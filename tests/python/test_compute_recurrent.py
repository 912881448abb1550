"""LSTM, GRU and AUGRU: the layers, the cell, their gradients, and npu_dynamic_rnn."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from npu_bridge.estimator import npu_ops
from npu_bridge.estimator.npu import npu_dynamic_rnn as layers
from npu_bridge.estimator.npu.npu_rnn import npu_dynamic_rnn
from npu_device._core.compute import op_gradients
from tests.compute_checks import (
    FLOATS,
    Op,
    check_gradients,
    gradients,
    rounded,
    run,
    run_in,
    tf_variable,
)

core = pytest.mark.core

STEPS, BATCH, INPUTS, HIDDEN = 4, 3, 5, 2
RAW = npu_ops.gen_npu_ops


@pytest.fixture(params=["control flow 1", "control flow 2"])
def control_flow(request):
    """Loops are made in another way by each of TensorFlow's versions of control flow."""
    was_on = tf.control_flow_v2_enabled()
    if request.param == "control flow 1":
        tf.disable_control_flow_v2()
    else:
        tf.enable_control_flow_v2()
    yield
    (tf.enable_control_flow_v2 if was_on else tf.disable_control_flow_v2)()


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def lstm_step(gates, c, forget_bias):
    i, j, f, o = np.split(gates, 4, -1)
    i, j, f, o = sigmoid(i), np.tanh(j), sigmoid(f + forget_bias), sigmoid(o)
    c = f * c + i * j
    return c, o * np.tanh(c), i, j, f, o, np.tanh(c)


def basic_lstm_cell(x, h, c, w, b, forget_bias=0.5):
    return lstm_step(np.concatenate([x, h], 1) @ w + b, c, forget_bias)


def over_time(step, x, states, lengths, reverse):
    """Runs step(x, states, t) -> (states, others); returns y, states and others of each step."""
    steps = len(x)
    lengths = np.full(x.shape[1], steps) if lengths is None else np.asarray(lengths)
    rows = [None] * steps
    for t in reversed(range(steps)) if reverse else range(steps):
        after, others = step(x[t], states, t)
        there = (t < lengths)[:, None]
        states = [np.where(there, new, old) for new, old in zip(after, states)]
        rows[t] = [np.where(there, after[0], 0), *states, *others]
    return [np.stack(one) for one in zip(*rows)]


def lstm(x, w, b, h, c, lengths=None, forget_bias=0.0, reverse=False):
    def step(x, states, _):
        c, h, *others = basic_lstm_cell(x, *states, w, b, forget_bias)
        return [h, c], others

    return over_time(step, x, [h.reshape(h.shape[-2:]), c.reshape(c.shape[-2:])], lengths, reverse)


def gru(x, w, u, b, c, h, lengths=None, order="zrh", after=True, reverse=False, attention=None):
    hidden = u.shape[0]
    place = {gate: slice(i * hidden, (i + 1) * hidden) for i, gate in enumerate(order)}

    def step(x, states, t):
        (h,) = states
        from_x, from_h = x @ w + b, h @ u + c
        z, r = (sigmoid(from_x[:, place[g]] + from_h[:, place[g]]) for g in "zr")
        if after:
            hidden_new = from_h[:, place["h"]]
            new = np.tanh(from_x[:, place["h"]] + r * hidden_new)
        else:
            hidden_new = (r * h) @ u[:, place["h"]] + c[place["h"]]
            new = np.tanh(from_x[:, place["h"]] + hidden_new)
        if attention is None:
            return [(1 - z) * new + z * h], [z, r, new, hidden_new]
        kept = (1 - attention[t][:, None]) * z
        return [(1 - kept) * new + kept * h], [z, kept, r, new, hidden_new]

    return over_time(step, x, [h.reshape(h.shape[-2:])], lengths, reverse)


def normal(*shapes, dtype="float64"):
    random = np.random.RandomState(1)
    return [rounded(random.normal(size=shape), dtype) for shape in shapes]


LSTM_SHAPES = (
    (STEPS, BATCH, INPUTS), (INPUTS + HIDDEN, 4 * HIDDEN), (4 * HIDDEN,), (BATCH, HIDDEN),
    (BATCH, HIDDEN),
)  # fmt: skip
GRU_SHAPES = (
    (STEPS, BATCH, INPUTS), (INPUTS, 3 * HIDDEN), (HIDDEN, 3 * HIDDEN), (3 * HIDDEN,),
    (3 * HIDDEN,), (BATCH, HIDDEN),
)  # fmt: skip
LENGTHS = [None, [4, 2, 0]]
DIRECTIONS = [layers.DYNAMIC_RNN_UNIDIRECTION, layers.DYNAMIC_RNN_REDIRECTIONAL]
both_ways = pytest.mark.parametrize("direction", DIRECTIONS)
any_lengths = pytest.mark.parametrize("lengths", LENGTHS)


def same(got, wanted, tolerance):
    assert len(got) == len(wanted)
    for one, other in zip(got, wanted):
        assert one.shape == other.shape
        np.testing.assert_allclose(one, other, tolerance, 3 * tolerance)


@core
@pytest.mark.parametrize(("dtype", "tolerance"), FLOATS)
def test_basic_lstm_cell(dtype, tolerance):
    inputs = normal(
        *[shape[1:] if len(shape) == 3 else shape for shape in LSTM_SHAPES], dtype=dtype
    )
    x, w, b, h, c = inputs
    got = run_in(
        dtype, lambda *a: npu_ops.basic_lstm_cell(*a, 1.0, 0.5, True, "tanh"), x, h, c, w, b
    )
    same(got, basic_lstm_cell(x, h, c, w, b), tolerance)


@core
@any_lengths
@both_ways
@pytest.mark.parametrize(("dtype", "tolerance"), FLOATS)
def test_dynamic_rnn(direction, lengths, dtype, tolerance):
    inputs = normal(*LSTM_SHAPES, dtype=dtype)

    def function(x, w, b, h, c):
        if lengths is None:
            return RAW.dynamic_rnn_v2(x, w, b, h[None], c[None], direction=direction,
                                      forget_bias=0.7)  # fmt: skip
        return RAW.dynamic_rnn(x, w, b, lengths, h, c, direction=direction, forget_bias=0.7)

    reverse = direction == layers.DYNAMIC_RNN_REDIRECTIONAL
    same(run_in(dtype, function, *inputs), lstm(*inputs, lengths, 0.7, reverse), 2 * tolerance)


@any_lengths
@both_ways
@pytest.mark.parametrize("order", ["zrh", "rzh"])
@pytest.mark.parametrize("after", [True, False])
def test_dynamic_gru_v2(direction, lengths, order, after):
    inputs = normal(*GRU_SHAPES)
    got = run(
        lambda x, w, u, b, c, h: RAW.dynamic_gru_v2(
            x, w, u, b, c, lengths, h, direction=direction, gate_order=order, reset_after=after
        ),
        *inputs,
    )
    reverse = direction == layers.DYNAMIC_RNN_REDIRECTIONAL
    same(got, gru(*inputs, lengths, order, after, reverse), 1e-10)


@core
@pytest.mark.parametrize(("dtype", "tolerance"), FLOATS)
def test_dtypes_of_the_gru(dtype, tolerance):
    inputs = normal(*GRU_SHAPES, dtype=dtype)
    got = run_in(
        dtype, lambda x, w, u, b, c, h: RAW.dynamic_gru_v2(x, w, u, b, c, None, h), *inputs
    )
    same(got, gru(*inputs), 2 * tolerance)


@core
@any_lengths
@pytest.mark.parametrize(("order", "after"), [("zrh", True), ("rzh", False)])
def test_dynamic_augru(lengths, order, after):
    *inputs, attention = normal(*GRU_SHAPES, (STEPS, BATCH))
    got = run(
        lambda x, w, u, b, c, h, a: RAW.dynamic_augru(
            x, w, u, a, b, c, lengths, h, gate_order=order, reset_after=after
        ),
        *inputs,
        attention,
    )
    same(got, gru(*inputs, lengths, order, after, attention=attention), 1e-10)


@core
def test_without_attention_an_augru_is_a_gru(control_flow):
    inputs = normal(*GRU_SHAPES)
    got = run(
        lambda x, w, u, b, c, h, a: RAW.dynamic_augru(x, w, u, a, b, c, None, h),
        *inputs,
        np.zeros((STEPS, BATCH)),
    )
    wanted = run(lambda x, w, u, b, c, h: RAW.dynamic_gru_v2(x, w, u, b, c, None, h), *inputs)
    np.testing.assert_allclose(got.y, wanted.y, 1e-12)


@any_lengths
@both_ways
def test_the_gradients_of_the_lstm(direction, lengths, control_flow):
    inputs = normal(*LSTM_SHAPES)
    ups = [np.random.RandomState(k).normal(size=(STEPS, BATCH, HIDDEN)) for k in range(8)]
    # What a step that is not there computes is not defined, and so has no gradient.
    ups[3:] = [one * (lengths is None) for one in ups[3:]]
    reverse = direction == layers.DYNAMIC_RNN_REDIRECTIONAL

    def function(x, w, b, h, c):
        return RAW.dynamic_rnn(x, w, b, lengths, h, c, direction=direction)

    check_gradients(function, lambda *a: lstm(*a, lengths=lengths, reverse=reverse), ups, *inputs)


@any_lengths
@pytest.mark.parametrize("after", [True, False])
def test_the_gradients_of_the_augru(lengths, after):
    *inputs, attention = normal(*GRU_SHAPES, (STEPS, BATCH))
    ups = [np.random.RandomState(k).normal(size=(STEPS, BATCH, HIDDEN)) for k in range(2)]

    def function(x, w, u, b, c, h, a):
        return RAW.dynamic_augru(x, w, u, a, b, c, lengths, h, reset_after=after)

    def reference(x, w, u, b, c, h, a):
        return gru(x, w, u, b, c, h, lengths, after=after, attention=a)[:2]

    check_gradients(function, reference, ups, *inputs, attention)


ATTRIBUTES = {
    "direction": b"UNIDIRECTIONAL", "cell_depth": 1, "keep_prob": 1.0, "cell_clip": -1.0,
    "num_proj": 0, "time_major": True, "activation": b"tanh",
}  # fmt: skip


@core
def test_the_gradient_function_of_the_cell():
    x, w, b, h, c = normal(*[one[1:] if len(one) == 3 else one for one in LSTM_SHAPES])
    inputs = [x, h, c, w, b]
    ups = normal(*[(BATCH, HIDDEN)] * 7)
    got = run(
        lambda *a: npu_ops.basic_lstm_cell_grad(Op(a[:5], forget_bias=0.5), *a[5:]), *inputs, *ups
    )
    wanted = gradients(lambda *a: npu_ops.basic_lstm_cell(*a, 1.0, 0.5, True, "tanh"), ups, *inputs)
    same(got, wanted, 1e-10)


@any_lengths
def test_the_gradient_functions_of_the_lstm(lengths):
    inputs = normal(*LSTM_SHAPES)
    ups = normal(*[(STEPS, BATCH, HIDDEN)] * 8)
    attributes = dict(ATTRIBUTES, cell_type=b"LSTM", use_peephole=False, forget_bias=0.3)

    def got(*arguments):
        x, w, b, h, c = arguments[:5]
        if lengths is None:
            return npu_ops.dynamic_rnn_v2_grad(Op([x, w, b, h, c], **attributes), *arguments[5:])
        op = Op([x, w, b, tf.constant(lengths), h, c], **attributes)
        gradient = npu_ops.dynamic_rnn_grad(op, *arguments[5:])
        assert gradient[3] is None
        return [*gradient[:3], *gradient[4:]]

    def forward(x, w, b, h, c):
        return RAW.dynamic_rnn(x, w, b, lengths, h, c, forget_bias=0.3)

    same(run(got, *inputs, *ups), gradients(forward, ups, *inputs), 1e-10)


def test_the_gradient_functions_of_the_grus():
    *inputs, attention = normal(*GRU_SHAPES, (STEPS, BATCH))
    attributes = dict(ATTRIBUTES, gate_order=b"rzh", reset_after=True)
    lengths = [4, 2, 0]

    def got(x, w, u, b, c, h, *ups):
        op = Op([x, w, u, b, c, tf.constant(lengths), h], **attributes)
        gradient = npu_ops.dynamic_gru_v2_grad(op, *ups)
        assert gradient[5] is None
        return [*gradient[:5], gradient[6]]

    ups = normal(*[(STEPS, BATCH, HIDDEN)] * 6)
    wanted = gradients(
        lambda x, w, u, b, c, h: RAW.dynamic_gru_v2(x, w, u, b, c, lengths, h, gate_order="rzh"),
        ups,
        *inputs,
    )
    same(run(got, *inputs, *ups), wanted, 1e-10)

    def got_attention(x, w, u, b, c, h, a, *ups):
        op = Op([x, w, u, a, b, c, tf.constant(lengths), h], **attributes)
        gradient = npu_ops.dynamic_augru_grad(op, *ups)
        assert gradient[6] is None
        return [*gradient[:3], *gradient[4:6], gradient[7], gradient[3]]

    ups = normal(*[(STEPS, BATCH, HIDDEN)] * 7)
    wanted = gradients(
        lambda x, w, u, b, c, h, a: RAW.dynamic_augru(
            x, w, u, a, b, c, lengths, h, gate_order="rzh"
        ),
        ups,
        *inputs,
        attention,
    )
    same(run(got_attention, *inputs, attention, *ups), wanted, 1e-10)


def test_a_gradient_that_is_none_counts_as_zero():
    x, w, b, h, c = normal(*[one[1:] if len(one) == 3 else one for one in LSTM_SHAPES])
    (up,) = normal((BATCH, HIDDEN))
    nothing = [None] * 5
    got = run(
        lambda *a: op_gradients.basic_lstm_cell_grad(
            Op(a[:5], forget_bias=0.5), None, a[5], *nothing
        ),
        x, h, c, w, b, up,
    )  # fmt: skip
    zero = np.zeros_like(up)
    wanted = gradients(
        lambda *a: npu_ops.basic_lstm_cell(*a, 1.0, 0.5, True, "tanh"),
        [zero, up], x, h, c, w, b,
    )  # fmt: skip
    same(got, wanted, 1e-10)


@both_ways
def test_the_raw_gradient_op_of_the_lstm(direction):
    inputs = normal(*LSTM_SHAPES)
    dy, dh, dc = normal((STEPS, BATCH, HIDDEN), (BATCH, HIDDEN), (BATCH, HIDDEN))

    def got(x, w, b, h, c, dy, dh, dc):
        nothing = [None] * 2
        return RAW.dynamic_rnn_grad(x, w, b, None, h, c, *nothing, dy, dh, dc, *[None] * 5,
                                    direction=direction)  # fmt: skip

    last = 0 if direction == layers.DYNAMIC_RNN_REDIRECTIONAL else STEPS - 1
    all_dh, all_dc = np.zeros((2, STEPS, BATCH, HIDDEN))
    all_dh[last], all_dc[last] = dh, dc
    dx, dw, db, *states = gradients(
        lambda x, w, b, h, c: RAW.dynamic_rnn_v2(x, w, b, h, c, direction=direction),
        [dy, all_dh, all_dc],
        *inputs,
    )
    same(run(got, *inputs, dy, dh, dc), [dw, db, dx, *states], 1e-10)


def values_of(variables, session):
    return [session.run(tf.cast(tf_variable(one), tf.float64)) for one in variables]


@core
@pytest.mark.parametrize("dtype", [tf.float16, tf.float32])
@any_lengths
def test_the_layer_dynamic_rnn(dtype, lengths):
    (x,) = normal((STEPS, BATCH, INPUTS), dtype="float16")
    with tf.Graph().as_default(), tf.Session() as session:
        with tf.variable_scope("model"):
            layer = layers.DynamicRNN(HIDDEN, dtype, forget_bias=1.0, is_training=False)
            outputs = layer(tf.constant(x, tf.float32), seq_length=lengths)
        assert [one.name.split("/", 2)[2] for one in layer.variables] == [
            "dynamicrnn/w:0",
            "dynamicrnn/b:0",
        ]
        assert all(one.name.startswith("model/") for one in layer.variables)
        assert tf.trainable_variables() == list(layer.trainable_variables)
        assert outputs._fields == ("y", "output_h", "output_c", "i", "j", "f", "o", "tanhc")
        session.run(tf.global_variables_initializer())
        w, b = values_of(layer.variables, session)
        got = session.run([tf.cast(one, tf.float64) for one in outputs])
    assert all(one.dtype == dtype for one in outputs)
    assert (w.shape, b.shape) == ((INPUTS + HIDDEN, 4 * HIDDEN), (4 * HIDDEN,))
    assert not b.any()
    assert abs(w).max() <= np.sqrt(6 / (INPUTS + 5 * HIDDEN)) * 1.01
    assert w.std() > 0.1
    zeros = np.zeros((BATCH, HIDDEN))
    tolerance = 3e-3 if dtype == tf.float16 else 1e-5
    same(got, lstm(x, w, b, zeros, zeros, lengths, 1.0), tolerance)


@core
def test_the_layer_dynamic_rnn_takes_states_and_weights():
    x, w, b, h, c = normal(*LSTM_SHAPES, dtype="float32")
    with tf.Graph().as_default(), tf.Session() as session:
        layer = layers.DynamicRNN(HIDDEN, tf.float32, direction=layers.DYNAMIC_RNN_REDIRECTIONAL)
        got = session.run(layer(x, init_h=h[None], init_c=c[None], weight=w, bias=b))
    same(got, lstm(x, w, b, h, c, reverse=True), 1e-5)


@core
@pytest.mark.parametrize("kind", ["dynamicgruv2", "dynamicaugru"])
@pytest.mark.parametrize("dtype", [tf.float16, tf.float32])
def test_the_gru_layers(kind, dtype):
    x, attention, h = normal(
        (STEPS, BATCH, INPUTS), (STEPS, BATCH), (BATCH, HIDDEN), dtype="float16"
    )
    lengths = [4, 2, 0]
    with tf.Graph().as_default(), tf.Session() as session:
        if kind == "dynamicgruv2":
            layer = layers.DynamicGRUV2(HIDDEN, dtype, gate_order="rzh", reset_after=False)
            outputs = layer(x, seq_length=lengths, init_h=h)
        else:
            layer = layers.DynamicAUGRU(HIDDEN, dtype, gate_order="rzh", reset_after=False)
            outputs = layer(x, attention, lengths, h)
        names = ["weight_input", "weight_hidden", "bias_input", "bias_hidden"]
        assert [one.name.split("/", 1)[1] for one in layer.variables] == [
            f"{kind}/{name}:0" for name in names
        ]
        session.run(tf.global_variables_initializer())
        w, u, b, c = values_of(layer.variables, session)
        got = session.run([tf.cast(one, tf.float64) for one in outputs])
    for one in (w, u, b, c):
        assert 0 < abs(one).max() <= 1 / np.sqrt(HIDDEN) + 1e-3
    attention = None if kind == "dynamicgruv2" else attention
    wanted = gru(x, w, u, b, c, h, lengths, "rzh", False, attention=attention)
    same(got, wanted, 3e-3 if dtype == tf.float16 else 1e-5)
    extra = () if attention is None else ("update_att",)
    fields = ("y", "output_h", "update", *extra, "reset", "new", "hidden_new")
    assert outputs._fields == fields


def test_a_layer_with_an_unknown_batch_and_length():
    x = np.ones((STEPS, BATCH, INPUTS), np.float32)
    with tf.Graph().as_default(), tf.Session() as session:
        placeholder = tf.placeholder(tf.float32, [None, None, INPUTS])
        y = layers.DynamicRNN(HIDDEN, tf.float32)(placeholder).y
        z = layers.DynamicGRUV2(HIDDEN, tf.float32)(placeholder).y
        session.run(tf.global_variables_initializer())
        for one in session.run([y, z], {placeholder: x}):
            assert one.shape == (STEPS, BATCH, HIDDEN)


@core
def test_a_layer_learns(control_flow):
    with tf.Graph().as_default(), tf.Session() as session:
        tf.set_random_seed(1)
        x = tf.constant(np.random.RandomState(1).normal(size=(STEPS, 8, INPUTS)), tf.float32)
        y = layers.DynamicRNN(8, tf.float32)(x).y[-1]
        loss = tf.reduce_mean(tf.square(tf.reduce_sum(y, 1) - x[0, :, 0]))
        step = tf.train.GradientDescentOptimizer(0.05).minimize(loss)
        session.run(tf.global_variables_initializer())
        before = session.run(loss)
        for _ in range(30):
            session.run(step)
        assert session.run(loss) < 0.5 * before


@core
def test_a_layer_eagerly():
    if not tf.executing_eagerly():
        pytest.skip("this TensorFlow has eager execution off")
    x = tf.ones([STEPS, BATCH, INPUTS])
    layer = layers.DynamicGRUV2(HIDDEN, tf.float32)
    with tf.GradientTape() as tape:
        y = layer(x).y
    assert y.shape == (STEPS, BATCH, HIDDEN)
    found = tape.gradient(y, [tf_variable(one) for one in layer.trainable_variables])
    assert len(found) == 4
    assert all(np.abs(one.numpy()).max() > 0 for one in found)


@core
@pytest.mark.parametrize("layer", [layers.DynamicRNN, layers.DynamicGRUV2, layers.DynamicAUGRU])
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"direction": "BIDIRECTIONAL"}, "BIDIRECTIONAL is not supported.*Use two layers"),
        ({"direction": "forward"}, "direction must be 'UNIDIRECTIONAL' or 'REDIRECTIONAL'"),
        ({"cell_depth": 2}, "cell_depth must be 1, got 2. Use a layer"),
        ({"keep_prob": 0.5}, "keep_prob must be 1, got 0.5.*dropout"),
        ({"cell_clip": 3.0}, "cell_clip must be below 0"),
        ({"num_proj": 4}, "num_proj must be 0, got 4"),
        ({"time_major": False}, "time_major must be True, got False. Use tf.transpose"),
        ({"activation": "relu"}, "activation must be 'tanh', got 'relu'"),
        ({"hidden_size": 0}, "hidden_size must be an integer above 0, got 0"),
        ({"dtype": tf.int32}, "dtype must be float16 or float32, got int32"),
        ({"cell_type": "GRU"}, "cell_type must be 'LSTM', got 'GRU'"),
        ({"use_peephole": True}, "use_peephole must be False, got True"),
        ({"gate_order": "hzr"}, "gate_order must be 'zrh' or 'rzh', got 'hzr'"),
    ],
)
def test_the_layers_say_what_they_do_not_do(layer, arguments, message):
    all_arguments = {"hidden_size": 4, "dtype": tf.float32}
    all_arguments.update(arguments)
    (name,) = arguments
    if (name in ("cell_type", "use_peephole")) != (layer is layers.DynamicRNN) and name in (
        "cell_type",
        "use_peephole",
        "gate_order",
    ):
        with pytest.raises(TypeError):
            layer(**all_arguments)
        return
    if name == "gate_order" and layer is layers.DynamicRNN:
        with pytest.raises(TypeError):
            layer(**all_arguments)
        return
    with pytest.raises(ValueError, match=f"{layer.__name__}: .*{message}"):
        layer(**all_arguments)


@core
def test_the_layers_keep_their_arguments():
    layer = layers.DynamicRNN(4, tf.float32, forget_bias=0.5, is_training=False)
    assert (layer.cell_type, layer.use_peephole, layer.forget_bias) == ("LSTM", False, 0.5)
    assert (layer.direction, layer.cell_depth, layer.keep_prob) == ("UNIDIRECTIONAL", 1, 1.0)
    assert (layer.cell_clip, layer.num_proj, layer.time_major) == (-1.0, 0, True)
    assert (layer.activation, layer.is_training) == ("tanh", False)
    layer.check_direction()
    gru_layer = layers.DynamicGRUV2(4, tf.float32, gate_order="rzh", reset_after=False)
    assert (gru_layer.gate_order, gru_layer.reset_after) == ("rzh", False)
    augru_layer = layers.DynamicAUGRU(4, tf.float32, gate_order="rzh", reset_after=False)
    assert (augru_layer.gate_order, augru_layer.reset_after) == ("rzh", False)


@core
def test_shapes_that_do_not_belong_together():
    x, w, b, h, c = (tf.zeros(shape) for shape in LSTM_SHAPES)
    with pytest.raises(ValueError, match=r"dynamic_rnn: x must have 3 dimensions \[num_step"):
        RAW.dynamic_rnn(x[0], w, b, None, h, c)
    with pytest.raises(ValueError, match=r"dynamic_rnn: dimension 0 of w must be 7"):
        RAW.dynamic_rnn(x, w[1:], b, None, h, c)
    with pytest.raises(ValueError, match=r"dynamic_rnn: dimension 0 of seq_length must be 3"):
        RAW.dynamic_rnn(x, w, b, [1, 2], h, c)
    with pytest.raises(ValueError, match=r"dynamic_rnn: dimension -2 of init_c must be 3"):
        RAW.dynamic_rnn(x, w, b, None, h, c[1:])
    with pytest.raises(TypeError, match=r"dynamic_rnn: x is float32 and b is float16"):
        RAW.dynamic_rnn(x, w, tf.cast(b, tf.float16), None, h, c)
    with pytest.raises(ValueError, match=r"x must be \[num_step, batch, input_size\].*\(4, 3\)"):
        layers.DynamicRNN(4, tf.float32).build([4, 3])
    with pytest.raises(ValueError, match=r"known input_size, got shape \(4, 3, None\)"):
        layers.DynamicGRUV2(4, tf.float32).build([4, 3, None])
    x, w, u, b, c, h = (tf.zeros(shape) for shape in GRU_SHAPES)
    with pytest.raises(ValueError, match=r"dynamic_gru_v2: dimension 0 of bias_hidden must be 6"):
        RAW.dynamic_gru_v2(x, w, u, b, c[1:], None, h)
    with pytest.raises(ValueError, match=r"dynamic_augru: dimension 0 of weight_att must be 4"):
        RAW.dynamic_augru(x, w, u, tf.zeros([3, 3]), b, c, None, h)
    with pytest.raises(ValueError, match=r"basic_lstm_cell: state_is_tuple must be True"):
        npu_ops.basic_lstm_cell(x[0], h, h, w, b, 1.0, 0.0, False, "tanh")
    with pytest.raises(ValueError, match=r"basic_lstm_cell: keep_prob must be 1, got 0.5"):
        npu_ops.basic_lstm_cell(x[0], h, h, w, b, 0.5, 0.0, True, "tanh")


class _Cell:
    """Makes a cell of TensorFlow 1's, in every version that has them."""

    @staticmethod
    def make():
        try:
            return tf.nn.rnn_cell.BasicRNNCell(HIDDEN)
        except AttributeError:
            pytest.skip("this TensorFlow has no RNN cells")


@core
@any_lengths
def test_npu_dynamic_rnn(lengths):
    x = np.random.RandomState(1).normal(size=(STEPS, BATCH, INPUTS)).astype(np.float32)
    with tf.Graph().as_default(), tf.Session() as session:
        outputs, state = npu_dynamic_rnn(
            _Cell.make(), tf.constant(x), dtype=tf.float32, sequence_length=lengths
        )
        kernel, bias = tf.trainable_variables()
        assert kernel.name == "rnn/basic_rnn_cell/kernel:0"
        session.run(tf.global_variables_initializer())
        outputs, state, w, b = session.run([outputs, state, kernel, bias])

    def step(x, states, _):
        return [np.tanh(np.concatenate([x, states[0]], 1) @ w + b)], []

    y, h = over_time(step, x, [np.zeros((BATCH, HIDDEN))], lengths, False)
    np.testing.assert_allclose(outputs, y, 1e-5, 1e-6)
    np.testing.assert_allclose(state, h[-1], 1e-5, 1e-6)


@core
def test_npu_dynamic_rnn_needs_a_known_length():
    with tf.Graph().as_default(), pytest.raises(ValueError, match=r"max_time, must be known"):
        npu_dynamic_rnn(None, tf.placeholder(tf.float32, [None, 2, 3]), dtype=tf.float32)
