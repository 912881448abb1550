"""The NPU's cache for embedding tables in the host's memory."""

from __future__ import annotations

from typing import Any

import tensorflow.compat.v1 as tf

from npu_bridge.helper import helper
from npu_device._core.compute import refused

__all__ = ["LruCache", "gen_npu_cpu_ops", "helper"]

#: The raw ops by name.
gen_npu_cpu_ops = helper.get_gen_ops()


class LruCache:
    """Is not available on CPU ranks: making one raises.

    Source of the contract: CANN TF Adapter API, lru_cache.LruCache.
    """

    def __init__(
        self, cache_size: int = 100000, load_factor: float = 1, dtype: Any = tf.uint32
    ) -> None:
        """Refuses.

        Args:
            cache_size: entries of the cache.
            load_factor: how full its hash table may get.
            dtype: of the entries' ids.

        Raises:
            NotImplementedError: always; says why and what to use.
        """
        raise refused.error("LruCache")

    def cache_add(self, ids: Any) -> Any:
        """Would put ids into the cache.

        Args:
            ids: 1-D.
        """
        raise refused.error("LruCache")

    def cache_remote_index_to_local(self, ids: Any) -> Any:
        """Would return where ids are in the cache.

        Args:
            ids: 1-D.
        """
        raise refused.error("LruCache")

    def cache_all_index_to_local(self) -> Any:
        """Would return where all ids are in the cache."""
        raise refused.error("LruCache")
