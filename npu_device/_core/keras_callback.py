"""A base for our callbacks, so that models of tf-keras take them where tf.keras is Keras 3."""

from __future__ import annotations

from typing import Any


class ForAnyKeras:
    """What Keras 2 asks its callbacks and Keras 3 does not have: which batches they wait for."""

    def _implements_train_batch_hooks(self) -> bool:
        return self._npu_implements("train", True)

    def _implements_test_batch_hooks(self) -> bool:
        return self._npu_implements("test", False)

    def _implements_predict_batch_hooks(self) -> bool:
        return self._npu_implements("predict", False)

    def _npu_implements(self, what: str, otherwise: bool) -> bool:
        own: Any = getattr(super(), f"_implements_{what}_batch_hooks", None)
        return otherwise if own is None else bool(own())
