"""Steps of optimizers as single calls: Adam and LAMB.

float16 and bfloat16 are computed in float32 and rounded once. Variables are updated where they are:
what a graph makes is an op to run; eagerly the update has happened on return.
"""

from __future__ import annotations

from typing import Any, List, NamedTuple, Optional, Sequence, Tuple

import tensorflow.compat.v1 as tf

# What all kinds of variables have in common; the public name is that of one kind in some versions.
from tensorflow.python.ops.variables import Variable

from npu_device._core.compute.arguments import floating, like, scalars, select, widened


class LambStep(NamedTuple):
    """What lamb_apply_optimizer_assign returns."""

    update: tf.Tensor
    output1: tf.Tensor
    output2: tf.Tensor


def adam_apply_one(
    input0: Any,
    input1: Any,
    input2: Any,
    input3: Any,
    input4: Any,
    mul0_x: Any,
    mul1_x: Any,
    mul2_x: Any,
    mul3_x: Any,
    add2_y: Any,
    mul4_x: Any = 0.0,
    op: str = "adam_apply_one",
) -> Tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Computes a step of Adam, without bias correction, and with decoupled weight decay.

    v = mul2_x v + mul3_x g^2; m = mul0_x m + mul1_x g;
    w = w - rate (m / (sqrt(v) + add2_y) + mul4_x w).

    Args:
        input0: the gradient g.
        input1: the second moment v, of g's shape.
        input2: the first moment m, of g's shape.
        input3: the weight w, of g's shape.
        input4: the learning rate, a scalar.
        mul0_x: beta1, a scalar.
        mul1_x: 1 - beta1, a scalar.
        mul2_x: beta2, a scalar.
        mul3_x: 1 - beta2, a scalar.
        add2_y: epsilon, a scalar.
        mul4_x: the weight decay, a scalar.
        op: what error texts call it.

    Returns:
        The new v, m and w.

    Raises:
        ValueError: shapes differ.
        TypeError: something does not hold floating-point numbers.

    Source of the contract: CANN TF Adapter API, ops AdamApplyOne and AdamApplyOneWithDecay.
    """
    grad = floating(op, "input0", input0)
    dtype = grad.dtype.base_dtype
    g = widened(grad)
    v, m, w = (
        widened(like(op, what, value, grad))
        for what, value in (("input1", input1), ("input2", input2), ("input3", input3))
    )
    rate, beta1, rest1, beta2, rest2, epsilon, decay = scalars(
        op, g.dtype, input4=input4, mul0_x=mul0_x, mul1_x=mul1_x, mul2_x=mul2_x, mul3_x=mul3_x,
        add2_y=add2_y, mul4_x=mul4_x,
    )  # fmt: skip
    next_v = beta2 * v + rest2 * tf.square(g)
    next_m = beta1 * m + rest1 * g
    next_w = w - rate * (next_m / (tf.sqrt(next_v) + epsilon) + decay * w)
    return tf.cast(next_v, dtype), tf.cast(next_m, dtype), tf.cast(next_w, dtype)


def adam_apply_one_assign(
    input0: Any,
    input1: Any,
    input2: Any,
    input3: Any,
    input4: Any,
    mul0_x: Any,
    mul1_x: Any,
    mul2_x: Any,
    mul3_x: Any,
    add2_y: Any,
    name: Optional[str] = None,
) -> Any:
    """Applies a step of Adam to variables; see `adam_apply_one` for arguments and formula.

    Args:
        input0: the gradient.
        input1: the variable of the second moment.
        input2: the variable of the first moment.
        input3: the variable of the weight.
        input4: the learning rate.
        mul0_x: beta1.
        mul1_x: 1 - beta1.
        mul2_x: beta2.
        mul3_x: 1 - beta2.
        add2_y: epsilon.
        name: a name for the op.

    Returns:
        The op that updates all three, None eagerly.

    Raises:
        ValueError: shapes differ.
        TypeError: input1, input2 or input3 is not a variable, or something does not hold
            floating-point numbers.

    Source of the contract: CANN TF Adapter API, npu_ops.adam_apply_one_assign.
    """
    op = "adam_apply_one_assign"
    _need_variables(op, input1=input1, input2=input2, input3=input3)
    with tf.name_scope(name, op):
        values = adam_apply_one(input0, input1, input2, input3, input4, mul0_x, mul1_x, mul2_x,
                                mul3_x, add2_y, op=op)  # fmt: skip
        return _assign_all((input1, input2, input3), values)


def adam_apply_one_with_decay_assign(
    input0: Any,
    input1: Any,
    input2: Any,
    input3: Any,
    input4: Any,
    mul0_x: Any,
    mul1_x: Any,
    mul2_x: Any,
    mul3_x: Any,
    mul4_x: Any,
    add2_y: Any,
    name: Optional[str] = None,
) -> Any:
    """Applies a step of Adam with weight decay to variables.

    Args:
        input0: the gradient.
        input1: the variable of the second moment.
        input2: the variable of the first moment.
        input3: the variable of the weight.
        input4: the learning rate.
        mul0_x: beta1.
        mul1_x: 1 - beta1.
        mul2_x: beta2.
        mul3_x: 1 - beta2.
        mul4_x: the weight decay.
        add2_y: epsilon.
        name: a name for the op.

    Returns:
        The op that updates all three, None eagerly.

    Raises:
        ValueError: shapes differ.
        TypeError: input1, input2 or input3 is not a variable, or something does not hold
            floating-point numbers.

    Source of the contract: CANN TF Adapter API, npu_ops.adam_apply_one_with_decay_assign.
    """
    op = "adam_apply_one_with_decay_assign"
    _need_variables(op, input1=input1, input2=input2, input3=input3)
    with tf.name_scope(name, op):
        values = adam_apply_one(input0, input1, input2, input3, input4, mul0_x, mul1_x, mul2_x,
                                mul3_x, add2_y, mul4_x, op=op)  # fmt: skip
        return _assign_all((input1, input2, input3), values)


def lamb_apply_optimizer_assign(
    input0: Any,
    input1: Any,
    input2: Any,
    input3: Any,
    mul0_x: Any,
    mul1_x: Any,
    mul2_x: Any,
    mul3_x: Any,
    add2_y: Any,
    steps: Any,
    do_use_weight: Any,
    weight_decay_rate: Any,
    name: Optional[str] = None,
) -> LambStep:
    """Computes the first half of a step of LAMB, with bias correction.

    v = mul2_x v + mul3_x g^2; m = mul0_x m + mul1_x g;
    update = (m / (1 - mul0_x^steps)) / (sqrt(v / (1 - mul2_x^steps)) + add2_y)
    + do_use_weight weight_decay_rate w.

    Args:
        input0: the gradient g.
        input1: the second moment v, of g's shape; a variable is updated.
        input2: the first moment m, of g's shape; a variable is updated.
        input3: the weight w, of g's shape.
        mul0_x: beta1, a scalar.
        mul1_x: 1 - beta1, a scalar.
        mul2_x: beta2, a scalar.
        mul3_x: 1 - beta2, a scalar.
        add2_y: epsilon, a scalar.
        steps: the number of this step, from 1 on, a scalar.
        do_use_weight: 1 to apply the weight decay, 0 not to, a scalar.
        weight_decay_rate: the weight decay, a scalar.
        name: a name for the results.

    Returns:
        (update, v, m). Reading any of them in a graph updates the variables.

    Raises:
        ValueError: shapes differ.
        TypeError: something does not hold floating-point numbers.

    Source of the contract: CANN TF Adapter API, npu_vector_ops.lamb_apply_optimizer_assign.
    """
    op = "lamb_apply_optimizer_assign"
    grad = floating(op, "input0", input0)
    dtype = grad.dtype.base_dtype
    with tf.name_scope(name, op):
        g = widened(grad)
        v, m, w = (
            widened(like(op, what, value, grad))
            for what, value in (("input1", input1), ("input2", input2), ("input3", input3))
        )
        beta1, rest1, beta2, rest2, epsilon, step, use, decay = scalars(
            op, g.dtype, mul0_x=mul0_x, mul1_x=mul1_x, mul2_x=mul2_x, mul3_x=mul3_x,
            add2_y=add2_y, steps=steps, do_use_weight=do_use_weight,
            weight_decay_rate=weight_decay_rate,
        )  # fmt: skip
        next_v = beta2 * v + rest2 * tf.square(g)
        next_m = beta1 * m + rest1 * g
        unbiased_m = next_m / (1.0 - tf.pow(beta1, step))
        unbiased_v = next_v / (1.0 - tf.pow(beta2, step))
        update = unbiased_m / (tf.sqrt(unbiased_v) + epsilon) + use * decay * w
        results = [tf.cast(one, dtype) for one in (update, next_v, next_m)]
        targets = [(input1, results[1]), (input2, results[2])]
        return LambStep(*_after_assigning([t for t in targets if is_variable(t[0])], results))


def lamb_apply_weight_assign(
    input0: Any,
    input1: Any,
    input2: Any,
    input3: Any,
    input4: Any,
    name: Optional[str] = None,
) -> tf.Tensor:
    """Computes the second half of a step of LAMB.

    w = w - ratio rate update, where ratio is |w| / |update| if both norms are above 0, else 1.

    Args:
        input0: the norm of the weight, a scalar.
        input1: the norm of the update, a scalar.
        input2: the learning rate, a scalar.
        input3: the update, as `lamb_apply_optimizer_assign` gives it.
        input4: the weight w, of the update's shape; a variable is updated.
        name: a name for the result.

    Returns:
        The new weight. Reading it in a graph updates the variable.

    Raises:
        ValueError: shapes differ.
        TypeError: something does not hold floating-point numbers.

    Source of the contract: CANN TF Adapter API, npu_vector_ops.lamb_apply_weight_assign.
    """
    op = "lamb_apply_weight_assign"
    step = floating(op, "input3", input3)
    with tf.name_scope(name, op):
        update = widened(step)
        w = widened(like(op, "input4", input4, step, "input3"))
        w_norm, g_norm, rate = scalars(
            op, update.dtype, input0=input0, input1=input1, input2=input2
        )
        both = tf.logical_and(w_norm > 0, g_norm > 0)
        # The divisor is never 0, whichever is selected: gradients pass both.
        ratio = select(both, w_norm / select(both, g_norm, tf.ones_like(g_norm)), 1.0)
        result = tf.cast(w - ratio * (rate * update), step.dtype.base_dtype)
        targets = [(input4, result)] if is_variable(input4) else []
        return _after_assigning(targets, [result])[0]


def is_variable(value: Any) -> bool:
    """Returns whether something can be assigned to: a variable of TensorFlow or of Keras."""
    return isinstance(value, Variable) or (
        hasattr(value, "assign") and not isinstance(value, tf.Tensor)
    )


def _need_variables(op: str, **values: Any) -> None:
    for what, value in values.items():
        if not is_variable(value):
            raise TypeError(
                f"{op}: {what} must be a variable, since the op updates it, "
                f"not {type(value).__name__}. Pass the variable itself, not its value."
            )


def _assign_all(variables: Sequence[Any], values: Sequence[tf.Tensor]) -> Any:
    if tf.executing_eagerly():
        for variable, value in zip(variables, values):
            variable.assign(value)
        return None
    # All are read before any is written: the assignments wait for all values.
    with tf.control_dependencies(values):
        return tf.group(*[v.assign(tf.identity(value)) for v, value in zip(variables, values)])


def _after_assigning(
    targets: Sequence[Tuple[Any, tf.Tensor]], results: Sequence[tf.Tensor]
) -> List[tf.Tensor]:
    if not targets:
        return list(results)
    done = _assign_all([t for t, _ in targets], [v for _, v in targets])
    if done is None:
        return list(results)
    with tf.control_dependencies([done]):
        return [tf.identity(one) for one in results]
