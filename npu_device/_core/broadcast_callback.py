"""What a Keras callback does that lets all ranks begin with the weights of one."""

from __future__ import annotations

from typing import Any, Optional

import tensorflow.compat.v1 as tf

from npu_device._core import groups, keras_callback, model_broadcast


class BroadcastOnce(keras_callback.ForAnyKeras):
    """The methods of such a callback, apart from being one of Keras.

    Before the first batch, or after it if the model has no weights before, it broadcasts the
    model's weights, what batch normalization keeps, and the optimizer's variables: slots,
    iterations and learning rate.

    Args:
        root_rank: the rank whose values the others get.
        *args: of the next class.
    """

    model: Any

    def __init__(self, root_rank: int, *args: Any):
        super().__init__(*args)
        self.root_rank = root_rank
        self.broadcast_done = False

    def on_batch_begin(self, batch: int, logs: Optional[Any] = None) -> None:
        """Broadcasts before the first batch.

        Args:
            batch: its number.
            logs: not used.
        """
        if not self.broadcast_done and model_broadcast.is_built(self.model):
            self._broadcast()

    def on_batch_end(self, batch: int, logs: Optional[Any] = None) -> None:
        """Broadcasts after the first batch, if the model was built by it.

        Args:
            batch: its number.
            logs: not used.
        """
        if not self.broadcast_done:
            self._broadcast()

    def _broadcast(self) -> None:
        self.broadcast_done = True
        if groups.rank_size(groups.WORLD) == 1:
            return
        optimizer = getattr(self.model, "optimizer", None)
        if tf.executing_eagerly():
            if optimizer is not None:
                trainable = self.model.trainable_weights
                model_broadcast.create_optimizer_variables(optimizer, trainable)
            model_broadcast.broadcast(model_broadcast.model_variables(self.model), self.root_rank)
            return
        # Keras makes the optimizer's variables with the training function, before the first batch,
        # and get_session initializes what is not yet.
        session = tf.keras.backend.get_session()
        with session.graph.as_default():
            variables = model_broadcast.model_variables(self.model)
            session.run(model_broadcast.broadcast(variables, self.root_rank))
