"""Ops that the NPU's processor computes beside its matrix units.

What TensorFlow's own ops can do is made of them, see npu_device._core.compute. The rest belongs to
the NPU's embedding service, queues and text recognition; it raises NotImplementedError when called.
"""

from __future__ import annotations

from typing import Any

import tensorflow.compat.v1 as tf

from npu_bridge.helper import helper
from npu_bridge.npu_cpu.embedding import (
    deinit_embedding_hashmap_v2,
    device_feature_mapping,
    embedding_hash_table_export,
    embedding_hash_table_import,
    embedding_hashmap_export_v2,
    embedding_hashmap_file_size_v2,
    embedding_hashmap_import_v2,
    embedding_hashmap_table_size_v2,
    embedding_hashtable_apply_adam_w,
    embedding_hashtable_lookup_or_insert,
    embedding_local_index,
    embeddingrankid,
    host_feature_mapping,
    init_embedding_hashmap_v2,
    init_embedding_hashtable,
    table_to_resource_v2,
)
from npu_device._core.compute import dropout, indexing, refused
from npu_device._core.compute.image import dense_image_warp
from npu_device._core.compute.op_gradients import dense_image_warp_grad

__all__ = [
    "batch_dilate_polys",
    "batch_enqueue",
    "deinit_embedding_hashmap_v2",
    "dense_image_warp",
    "dense_image_warp_grad",
    "dequeue",
    "device_feature_mapping",
    "embedding_hash_table_export",
    "embedding_hash_table_import",
    "embedding_hashmap_export_v2",
    "embedding_hashmap_file_size_v2",
    "embedding_hashmap_import_v2",
    "embedding_hashmap_table_size_v2",
    "embedding_hashtable_apply_adam_w",
    "embedding_hashtable_lookup_or_insert",
    "embedding_local_index",
    "embeddingrankid",
    "gen_npu_cpu_ops",
    "helper",
    "host_feature_mapping",
    "init_embedding_hashmap_v2",
    "init_embedding_hashtable",
    "non_zero_with_value_shape",
    "non_zero_with_value_shape_v2",
    "ocr_detection_post_handle",
    "ocr_detection_pre_handle",
    "ocr_find_contours",
    "ocr_identify_pre_handle",
    "ocr_recognition_pre_handle",
    "randomchoicewithmask",
    "resize_and_clip_polys",
    "resize_v2",
    "stateless_dropout",
    "stateless_random_choice_with_mask",
    "table_to_resource_v2",
    "warp_affine_v2",
]

#: The raw ops by name.
gen_npu_cpu_ops = helper.get_gen_ops()


def randomchoicewithmask(
    x: Any, count: int, seed: int = 0, seed2: int = 0
) -> indexing.RandomChoice:
    """Chooses positions of true elements at random, without putting any back.

    Args:
        x: a bool tensor of 1 to 5 dimensions.
        count: how many; 0 for all there are.
        seed: the graph's seed. If both are 0, the choice is another one in every run.
        seed2: the op's seed.

    Returns:
        (y int32 [count, x's rank], mask bool [count]). Where there are fewer true elements than
        count, the last rows of y are 0 and mask is false there.

    Raises:
        TypeError: x is not bool, or count is no integer.
        ValueError: count is below 0, or x has another number of dimensions.

    Source of the contract: CANN TF Adapter API, npu_cpu_ops.randomchoicewithmask.
    """
    return indexing.random_choice_with_mask(x, count, seed, seed2)


def stateless_random_choice_with_mask(
    x: Any, count: Any, seed: Any, offset: Any
) -> indexing.RandomChoice:
    """Like `randomchoicewithmask`, with a choice that depends on nothing but the arguments.

    Args:
        x: a bool tensor of 1 to 5 dimensions.
        count: how many, a number or an integer scalar; 0 for all there are.
        seed: an integer scalar. Equal seeds and offsets choose equally on every rank.
        offset: an integer scalar.

    Returns:
        (y int32 [count, x's rank], mask bool [count]).

    Raises:
        TypeError: x is not bool.
        ValueError: count is a number below 0, or x has another number of dimensions.

    Source of the contract: CANN TF Adapter API, npu_cpu_ops.stateless_random_choice_with_mask.
    """
    return indexing.stateless_random_choice_with_mask(x, count, seed, offset)


def stateless_dropout(x: Any, noise_shape: Any, p: Any, seed: Any, offset: Any) -> tf.Tensor:
    """Dropout whose mask depends on nothing but its arguments.

    Args:
        x: a floating-point tensor of any shape.
        noise_shape: the mask's shape, which broadcasts to x's; None for x's own.
        p: the probability that an element is set to 0: a number in [0, 1), or a tensor with one.
            The elements that are kept are divided by 1 - p.
        seed: an integer. Equal seeds and offsets give equal masks, on every rank and in every run.
        offset: an integer; another one gives another mask for the same seed.

    Returns:
        A tensor of x's shape and dtype.

    Raises:
        ValueError: x does not hold floating-point numbers, p is not in [0, 1), or noise_shape does
            not broadcast to x's shape.

    Source of the contract: CANN TF Adapter API, npu_cpu_ops.stateless_dropout.
    """
    return dropout.stateless_dropout(x, noise_shape, p, seed, offset)


def non_zero_with_value_shape(value: Any, index: Any, count: Any) -> indexing.NonZeroWithValueShape:
    """Cuts the results of nonzerowithvalue, with transpose=True, to the elements that there are.

    Args:
        value: its first result, of n elements.
        index: its second result, of 2 * n elements: first all rows, then all columns.
        count: its third result.

    Returns:
        (value [count], index [2 * count]): first all rows, then all columns.

    Source of the contract: CANN TF Adapter API, npu_cpu_ops.non_zero_with_value_shape.
    """
    return indexing.non_zero_with_value_shape(value, index, count)


def non_zero_with_value_shape_v2(
    value: Any, index: Any, count: Any
) -> indexing.NonZeroWithValueShape:
    """Does what `non_zero_with_value_shape` does.

    Args:
        value: the first result of nonzerowithvalue.
        index: the second.
        count: the third.

    Returns:
        (value [count], index [2 * count]).

    Source of the contract: CANN TF Adapter API, npu_cpu_ops.non_zero_with_value_shape_v2.
    """
    return indexing.non_zero_with_value_shape(value, index, count)


def batch_enqueue(
    x: Any,
    queue_id: Any = 0,
    batch_size: Any = 8,
    queue_name: Any = "",
    queue_depth: Any = 100,
    pad_mode: Any = "REPLICATE",
) -> Any:
    """Is not available on CPU ranks.

    Raises:
        NotImplementedError: always; says why and what to use.

    Source of the contract: CANN TF Adapter API, npu_cpu_ops.batch_enqueue.
    """
    raise refused.error("batch_enqueue")


def ocr_recognition_pre_handle(
    imgs_data: Any,
    imgs_offset: Any,
    imgs_size: Any,
    langs: Any,
    langs_score: Any,
    batch_size: Any = 8,
    data_format: Any = "NHWC",
    pad_mode: Any = "REPLICATE",
) -> Any:
    """Is not available on CPU ranks.

    Raises:
        NotImplementedError: always; says why and what to use.

    Source of the contract: CANN TF Adapter API, npu_cpu_ops.ocr_recognition_pre_handle.
    """
    raise refused.error("ocr_recognition_pre_handle")


def ocr_detection_pre_handle(img: Any, data_format: Any = "NHWC") -> Any:
    """Is not available on CPU ranks.

    Raises:
        NotImplementedError: always; says why and what to use.

    Source of the contract: CANN TF Adapter API, npu_cpu_ops.ocr_detection_pre_handle.
    """
    raise refused.error("ocr_detection_pre_handle")


def ocr_identify_pre_handle(
    imgs_data: Any, imgs_offset: Any, imgs_size: Any, size: Any, data_format: Any = "NHWC"
) -> Any:
    """Is not available on CPU ranks.

    Raises:
        NotImplementedError: always; says why and what to use.

    Source of the contract: CANN TF Adapter API, npu_cpu_ops.ocr_identify_pre_handle.
    """
    raise refused.error("ocr_identify_pre_handle")


def batch_dilate_polys(
    polys_data: Any,
    polys_offset: Any,
    polys_size: Any,
    score: Any,
    min_border: Any,
    min_area_thr: Any,
    score_thr: Any,
    expand_scale: Any,
) -> Any:
    """Is not available on CPU ranks.

    Raises:
        NotImplementedError: always; says why and what to use.

    Source of the contract: CANN TF Adapter API, npu_cpu_ops.batch_dilate_polys.
    """
    raise refused.error("batch_dilate_polys")


def ocr_find_contours(img: Any, value_mode: Any = 0) -> Any:
    """Is not available on CPU ranks.

    Raises:
        NotImplementedError: always; says why and what to use.

    Source of the contract: CANN TF Adapter API, npu_cpu_ops.ocr_find_contours.
    """
    raise refused.error("ocr_find_contours")


def dequeue(queue_id: Any, output_type: Any, output_shape: Any, queue_name: Any = "") -> Any:
    """Is not available on CPU ranks.

    Raises:
        NotImplementedError: always; says why and what to use.

    Source of the contract: CANN TF Adapter API, npu_cpu_ops.dequeue.
    """
    raise refused.error("dequeue")


def ocr_detection_post_handle(
    img: Any, polys_data: Any, polys_offset: Any, polys_size: Any, data_format: Any = "NHWC"
) -> Any:
    """Is not available on CPU ranks.

    Raises:
        NotImplementedError: always; says why and what to use.

    Source of the contract: CANN TF Adapter API, npu_cpu_ops.ocr_detection_post_handle.
    """
    raise refused.error("ocr_detection_post_handle")


def warp_affine_v2(
    x: Any,
    matrix: Any,
    dst_size: Any,
    interploation: Any = "INTEL_BILINEAR",
    border_type: Any = "BORDER_CONSTANT",
    border_value: Any = 0,
) -> Any:
    """Is not available on CPU ranks.

    Raises:
        NotImplementedError: always; says why and what to use.

    Source of the contract: CANN TF Adapter API, npu_cpu_ops.warp_affine_v2.
    """
    raise refused.error("warp_affine_v2")


def resize_v2(x: Any, dst_size: Any, interploation: Any = "INTEL_BILINEAR") -> Any:
    """Is not available on CPU ranks.

    Raises:
        NotImplementedError: always; says why and what to use.

    Source of the contract: CANN TF Adapter API, npu_cpu_ops.resize_v2.
    """
    raise refused.error("resize_v2")


def resize_and_clip_polys(
    polys_data: Any,
    polys_offset: Any,
    polys_size: Any,
    h_scale: Any,
    w_scale: Any,
    img_h: Any,
    img_w: Any,
) -> Any:
    """Is not available on CPU ranks.

    Raises:
        NotImplementedError: always; says why and what to use.

    Source of the contract: CANN TF Adapter API, npu_cpu_ops.resize_and_clip_polys.
    """
    raise refused.error("resize_and_clip_polys")
