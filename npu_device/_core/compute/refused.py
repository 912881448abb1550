"""What cannot be computed on CPU ranks: why, and what to use instead.

Importing and looking up these names works; calling them raises NotImplementedError with the
sentence that `error` makes of the table. Nothing stands here that TensorFlow's ops can do.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, NamedTuple


class Reason(NamedTuple):
    """A line of the table.

    Attributes:
        why: completes "<name> is not available on CPU ranks: ".
        instead: what to do, a sentence.
    """

    why: str
    instead: str


_OCR = Reason(
    "it is a stage of the NPU's text recognition pipeline, whose results are not published",
    "Do this step outside of the graph, for example with OpenCV in tf.numpy_function.",
)
_RESIZE = Reason(
    "its interpolation (INTEL_BILINEAR) is not published",
    "Use tf.image.resize, or dense_image_warp of npu_cpu_ops.",
)
_MOLECULES = Reason(
    "it is a part of DeePMD-kit that is made for the NPU",
    "Use DeePMD-kit's own ops for the CPU.",
)
_TABLE_ON_DEVICE = Reason(
    "the hash table lives in the NPU's memory",
    "Use tf.nn.embedding_lookup on a variable, with tf.strings.to_hash_bucket_fast for the keys.",
)
_CACHE = Reason(
    "it manages a cache in the NPU's memory for a table in the host's",
    "Use tf.nn.embedding_lookup on a variable: on CPU both are the host's memory.",
)
_QUEUE = Reason(
    "it talks to a queue of the NPU's runtime",
    "Use tf.data.",
)
_OUTFEED = Reason(
    "it sends tensors from the NPU to the host while a session runs",
    "Fetch them in Session.run, or use tf.print.",
)
_CHANNEL = Reason(
    "it reads from a channel between host and NPU",
    "Use tf.data's iterator.get_next().",
)
_RDMA = Reason(
    "it computes with addresses of memory that is registered for remote access by the NPU",
    "Use hccl_ops.all_to_all_v to exchange rows of a table between ranks.",
)
_MODEL = Reason(
    "it runs an ONNX model that the NPU's compiler builds",
    "Convert the model to TensorFlow.",
)
_FEATURES = Reason(
    "it numbers features in a table of the NPU's embedding service",
    "Use tf.lookup.StaticHashTable or tf.strings.to_hash_bucket_fast.",
)
_OVERFLOW = Reason(
    "the CPU has no register that remembers overflows",
    "Use NPULossScaleOptimizer, or tf.reduce_all(tf.is_finite(gradient)).",
)
_GRADIENT = Reason(
    "it needs what the NPU's forward op keeps for it",
    "Use tf.gradients: TensorFlow differentiates the forward op by itself.",
)

#: By published name.
TABLE: Dict[str, Reason] = {
    # Text recognition
    "ocr_recognition_pre_handle": _OCR,
    "ocr_detection_pre_handle": _OCR,
    "ocr_identify_pre_handle": _OCR,
    "ocr_find_contours": _OCR,
    "ocr_detection_post_handle": _OCR,
    "batch_dilate_polys": _OCR,
    "resize_and_clip_polys": _OCR,
    "warp_affine_v2": _RESIZE,
    "resize_v2": _RESIZE,
    # Molecular dynamics
    "prod_env_mat_a": _MOLECULES,
    "prodvirialsea": _MOLECULES,
    "prodforcesea": _MOLECULES,
    "tabulatefusionsea": _MOLECULES,
    "tabulatefusionseagrad": _MOLECULES,
    "tabulatefusion": _MOLECULES,
    "tabulatefusiongrad": _MOLECULES,
    # Embedding tables and caches
    "embedding_hashtable_lookup_or_insert": _TABLE_ON_DEVICE,
    "init_embedding_hashmap_v2": _TABLE_ON_DEVICE,
    "deinit_embedding_hashmap_v2": _TABLE_ON_DEVICE,
    "table_to_resource_v2": _TABLE_ON_DEVICE,
    "embedding_hashmap_table_size_v2": _TABLE_ON_DEVICE,
    "embedding_hashmap_export_v2": _TABLE_ON_DEVICE,
    "embedding_hashmap_file_size_v2": _TABLE_ON_DEVICE,
    "embedding_hashmap_import_v2": _TABLE_ON_DEVICE,
    "init_embedding_hashtable": _TABLE_ON_DEVICE,
    "embedding_hash_table_import": _TABLE_ON_DEVICE,
    "embedding_hash_table_export": _TABLE_ON_DEVICE,
    "embedding_hashtable_apply_adam_w": _TABLE_ON_DEVICE,
    "LruCache": _CACHE,
    "lru_cache_v2": _CACHE,
    "host_feature_mapping": _FEATURES,
    "device_feature_mapping": _FEATURES,
    "embeddingrankid": _RDMA,
    "embedding_local_index": _RDMA,
    # Queues and channels
    "batch_enqueue": _QUEUE,
    "dequeue": _QUEUE,
    "outfeed_dequeue_op": _OUTFEED,
    "outfeed_enqueue_op": _OUTFEED,
    "stop_outfeed_dequeue_op": _OUTFEED,
    "channel_get_next": _CHANNEL,
    # Others
    "npu_onnx_graph_op": _MODEL,
    "file_constant with file_id": Reason(
        "file_id names a file in the configuration of the NPU's compiler",
        "Pass file_path.",
    ),
    "libhcom_graph_adaptor.so": Reason(
        "the library is a part of CANN",
        "Use hccl.manage.api.",
    ),
}

#: By raw name: those of gen_npu_ops that have no published name, or another one.
RAW_TABLE: Dict[str, Reason] = {
    "prod_virial_se_a": _MOLECULES,
    "prod_force_se_a": _MOLECULES,
    "tabulate_fusion_se_a": _MOLECULES,
    "tabulate_fusion_se_a_grad": _MOLECULES,
    "tabulate_fusion": _MOLECULES,
    "tabulate_fusion_grad": _MOLECULES,
    "lru_cache": _CACHE,
    "cache_add": _CACHE,
    "cache_remote_index_to_local": _CACHE,
    "cache_all_index_to_local": _CACHE,
    "embedding_rank_id": _RDMA,
    "get_next": _CHANNEL,
    "npu_alloc_float_status": _OVERFLOW,
    "npu_get_float_status": _OVERFLOW,
    "npu_clear_float_status": _OVERFLOW,
    "npu_get_float_status_v2": _OVERFLOW,
    "npu_clear_float_status_v2": _OVERFLOW,
    "dynamic_gru_v2_grad": _GRADIENT,
    "dynamic_augru_grad": _GRADIENT,
}


def error(name: str) -> NotImplementedError:
    """Makes the exception for a name of one of the tables.

    Args:
        name: the published or raw name.

    Returns:
        The exception, to be raised.
    """
    reason = TABLE.get(name) or RAW_TABLE[name]
    return NotImplementedError(
        f"{name} is not available on CPU ranks: {reason.why}. {reason.instead}"
    )


def function(name: str) -> Callable[..., Any]:
    """Makes a function that raises the exception for a name, whatever it is called with.

    Args:
        name: the published or raw name.

    Returns:
        The function, called `name`.
    """

    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise error(name)

    refuse.__name__ = refuse.__qualname__ = name
    refuse.__doc__ = f"Raises NotImplementedError: {error(name)}"
    return refuse
