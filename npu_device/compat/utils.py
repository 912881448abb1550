"""The configuration of a session that runs on the device."""

from __future__ import annotations

from typing import Any

import tensorflow.compat.v1 as tf
from tensorflow.core.protobuf import rewriter_config_pb2

__all__ = ["SessionConfigBuilder"]


class SessionConfigBuilder:
    """Puts NpuOptimizer into the configuration of a session.

        builder = npu_device.compat.v1.SessionConfigBuilder()
        builder.parameter_map["precision_mode"].s = b"allow_mix_precision"
        with tf.compat.v1.Session(config=builder.session_config) as session:

    Args:
        config: a tf.compat.v1.ConfigProto, which is changed; a new one with soft placement for
            anything else.

    Source of the contract: CANN TF Adapter, npu_device.compat.v1.SessionConfigBuilder.
    """

    def __init__(self, config: Any = None) -> None:
        if not isinstance(config, tf.ConfigProto):
            config = tf.ConfigProto(allow_soft_placement=True)
        rewriting = config.graph_options.rewrite_options
        rewriting.remapping = rewriter_config_pb2.RewriterConfig.OFF
        self._session_config = config
        self._optimizer = rewriting.custom_optimizers.add()
        self._optimizer.name = "NpuOptimizer"

    @property
    def parameter_map(self) -> Any:
        """The options of NpuOptimizer, see docs/session-options.md."""
        return self._optimizer.parameter_map

    @property
    def session_config(self) -> tf.ConfigProto:
        """The configuration, for tf.compat.v1.Session."""
        return self._session_config
