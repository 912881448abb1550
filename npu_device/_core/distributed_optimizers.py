"""Makes an optimizer reduce its gradients over the ranks, in place.

An optimizer stays the object that the script made, with its variables and settings, and gets a
class derived from its own: the same class with one or two methods that reduce first. The new class
has the old one's name, and its configuration is the old one's. So what is saved with a model names
a class that TensorFlow knows, and loads in a process without this package.

Where the optimizers of the four generations have their gradients in hand:

* tf.train: compute_gradients.
* Keras in TensorFlow 1.15: get_gradients and _compute_gradients, which clip what they computed, and
  apply_gradients, which gets gradients that a script computed itself. Clipped is what was reduced,
  as in one process that sees the whole batch.
* Keras 2 in TensorFlow 2: _aggregate_gradients or aggregate_gradients, which is for this, and
  get_gradients for scripts that call it.
* Keras 3: apply.
"""

from __future__ import annotations

import contextlib
from typing import Any, Dict, Iterator, List, NamedTuple, Sequence, Tuple, Type

import tensorflow.compat.v1 as tf

from npu_device._core import gradient_reduction, groups, keras_compile, keras_loss_scaling
from npu_device._core.gradient_reduction import GradientAndVariable


class Settings(NamedTuple):
    """How gradients are reduced; see gradient_reduction.reduce_gradients."""

    reduction: str = "mean"
    fusion: int = 1
    fusion_id: int = -1
    group: str = groups.WORLD
    scope: str = "Npu_Distributed_optimizer_Allreduce"
    predivide: bool = False
    sparse_as_dense: bool = False


#: The attribute of a class made here that holds the class it stands for.
OWN_CLASS = "_npu_own_class"
_SETTINGS = "_npu_reduction_settings"
_REDUCED_OUTSIDE = "_npu_reduced_outside"

_classes: Dict[Tuple[Type[Any], ...], Type[Any]] = {}


def distribute(optimizer: Any, settings: Settings = Settings(), *bases: Type[Any]) -> Any:  # noqa: B008
    """Makes an optimizer reduce its gradients over the ranks.

    Args:
        optimizer: a tf.train optimizer, or one of Keras of any version. Changed in place; one that
            reduces already stays as it is.
        settings: how it reduces.
        *bases: classes that it is to be an instance of as well.

    Returns:
        The optimizer.

    Raises:
        TypeError: it is none of these.
    """
    if isinstance(optimizer, Reducing):
        return optimizer
    reducing = _reducing_class(optimizer)
    inner = getattr(optimizer, "inner_optimizer", None)
    keras_loss_scaling.let_it_reduce_first(optimizer, Reducing)
    keras_compile.let_auto_train(optimizer, Reducing)
    if reducing is not _Keras3 and inner is not None:
        # Loss scaling of Keras 2 lets the optimizer inside reduce, before it looks for overflows.
        distribute(inner, settings)
        return optimizer
    own = type(optimizer)
    key = (own, reducing, *bases)
    if key not in _classes:
        members = {
            "__module__": own.__module__,
            "__qualname__": own.__qualname__,
            "__doc__": own.__doc__,
            OWN_CLASS: own,
        }
        _classes[key] = type(own.__name__, (reducing, *bases, own), members)
    # Past __setattr__, in which optimizers may have their own ideas.
    optimizer.__dict__[_SETTINGS] = settings
    object.__setattr__(optimizer, "__class__", _classes[key])
    return optimizer


class Reducing:
    """What optimizers that reduce have in common."""

    def _npu_reduced(self, pairs: Sequence[GradientAndVariable]) -> List[GradientAndVariable]:
        # Absent in one that was made anew from a configuration.
        how: Settings = self.__dict__.get(_SETTINGS, Settings())
        if self.__dict__.get(_REDUCED_OUTSIDE):
            return list(pairs)
        return gradient_reduction.reduce_gradients(pairs, *how)

    def _npu_reduced_list(self, gradients: Sequence[Any], variables: Any) -> List[Any]:
        pairs = list(zip(gradients, tf.nest.flatten(variables)))
        return [gradient for gradient, _ in self._npu_reduced(pairs)]

    @contextlib.contextmanager
    def _npu_reduced_outside(self) -> Iterator[None]:
        """Lets another optimizer, which has reduced the gradients, have this one apply them."""
        self.__dict__[_REDUCED_OUTSIDE] = True
        try:
            yield
        finally:
            self.__dict__.pop(_REDUCED_OUTSIDE)


class _TrainOptimizer(Reducing):
    def compute_gradients(self, *args: Any, **kwargs: Any) -> Any:
        return self._npu_reduced(super().compute_gradients(*args, **kwargs))  # type: ignore[misc]


class _KerasOfTensorFlow1(Reducing):
    def get_gradients(self, loss: Any, params: Any) -> Any:
        with self._npu_unclipped() as clip:
            gradients = super().get_gradients(loss, params)  # type: ignore[misc]
        return clip(self._npu_reduced_list(gradients, params))

    def _compute_gradients(self, *args: Any, **kwargs: Any) -> Any:
        with self._npu_unclipped() as clip:
            pairs = super()._compute_gradients(*args, **kwargs)  # type: ignore[misc]
        pairs = self._npu_reduced(pairs)
        return list(zip(clip([gradient for gradient, _ in pairs]), [v for _, v in pairs]))

    def apply_gradients(self, grads_and_vars: Any, *args: Any, **kwargs: Any) -> Any:
        reduced = self._npu_reduced(list(grads_and_vars))
        return super().apply_gradients(reduced, *args, **kwargs)  # type: ignore[misc]

    @contextlib.contextmanager
    def _npu_unclipped(self) -> Iterator[Any]:
        """Lets gradients be computed without clipping them; gives what clips them."""
        set_ones = {
            k: self.__dict__.pop(k) for k in ("clipnorm", "clipvalue") if k in self.__dict__
        }
        group = self.__dict__.get(_SETTINGS, Settings()).group

        def clip(gradients: List[Any]) -> List[Any]:
            norm, value = set_ones.get("clipnorm") or 0, set_ones.get("clipvalue") or 0
            if norm > 0:
                gradients = [g if g is None else tf.clip_by_norm(g, norm) for g in gradients]
            if value > 0:
                gradients = [
                    g if g is None else tf.clip_by_value(g, -value, value) for g in gradients
                ]
            return [gradient_reduction.mark_reduced(g, group) for g in gradients]

        try:
            yield clip
        finally:
            self.__dict__.update(set_ones)


class _KerasOfTensorFlow2(Reducing):
    def get_gradients(self, loss: Any, params: Any) -> Any:
        gradients = super().get_gradients(loss, params)  # type: ignore[misc]
        return self._npu_reduced_list(gradients, params)

    def apply_gradients(self, grads_and_vars: Any, *args: Any, **kwargs: Any) -> Any:
        pairs = list(grads_and_vars)
        aggregates = kwargs.get("experimental_aggregate_gradients", args[1:2] != (False,))
        if aggregates:
            # Before Keras drops those that are None, which ranks compare.
            pairs = self._npu_reduced(pairs)
        # Past the bases, whose published methods take fewer arguments than Keras passes.
        own = getattr(self, OWN_CLASS)
        return own.apply_gradients(self, pairs, *args, **kwargs)

    def _aggregate_gradients(self, grads_and_vars: Any) -> Any:
        return super()._aggregate_gradients(self._npu_reduced(grads_and_vars))  # type: ignore[misc]


class _KerasSince211(Reducing):
    def aggregate_gradients(self, grads_and_vars: Any) -> Any:
        return super().aggregate_gradients(self._npu_reduced(grads_and_vars))  # type: ignore[misc]


class _Keras3(Reducing):
    def __deepcopy__(self, memo: Dict[int, Any]) -> Any:
        # Keras copies by saving and loading, which gives one of the class that was wrapped.
        make, arguments = super().__reduce__()[:2]  # type: ignore[misc]
        settings = self.__dict__.get(_SETTINGS, Settings())
        memo[id(self)] = copied = distribute(make(*arguments), settings)
        return copied

    def apply(self, grads: Any, trainable_variables: Any = None) -> Any:
        variables = trainable_variables
        if variables is None:
            variables = self._trainable_variables  # type: ignore[attr-defined]
        reduced = self._npu_reduced_list(list(grads), list(variables))
        # Keras 2 sums rows with equal indices; Keras 3 squares each of them, in Adam and others.
        merged = [gradient_reduction.with_merged_rows(gradient) for gradient in reduced]
        return super().apply(merged, trainable_variables)  # type: ignore[misc]


def _reducing_class(optimizer: Any) -> Type[Any]:
    if isinstance(optimizer, tf.train.Optimizer):
        return _TrainOptimizer
    for method, reducing in (
        ("_aggregate_gradients", _KerasOfTensorFlow2),
        ("aggregate_gradients", _KerasSince211),
        ("get_gradients", _KerasOfTensorFlow1),
        ("_backend_apply_gradients", _Keras3),
    ):
        if callable(getattr(type(optimizer), method, None)):
            return reducing
    raise TypeError(
        f"optimizer must be a tf.train.Optimizer or a Keras optimizer, got {optimizer!r}."
    )
