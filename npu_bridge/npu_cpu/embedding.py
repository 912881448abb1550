"""The names of npu_cpu_ops that belong to the NPU's embedding service, none of which is here."""

from __future__ import annotations

from typing import Any

from npu_device._core.compute import refused


def embedding_hashtable_lookup_or_insert(
    table_handle: Any,
    keys: Any,
    bucket_size: Any,
    embedding_dim: Any,
    filter_mode: Any,
    filter_freq: Any,
    default_key_or_value: Any,
    default_key: Any,
    default_value: Any,
    filter_key_flag: Any,
    filter_key: Any,
) -> Any:
    """Is not available on CPU ranks.

    Raises:
        NotImplementedError: always; says why and what to use.

    Source of the contract: CANN TF Adapter API, npu_cpu_ops.embedding_hashtable_lookup_or_insert.
    """
    raise refused.error("embedding_hashtable_lookup_or_insert")


def embeddingrankid(addr_tensor: Any, index: Any, row_memory: Any = 320, mode: Any = "mod") -> Any:
    """Is not available on CPU ranks.

    Raises:
        NotImplementedError: always; says why and what to use.

    Source of the contract: CANN TF Adapter API, npu_cpu_ops.embeddingrankid.
    """
    raise refused.error("embeddingrankid")


def embedding_local_index(
    addr_tensor: Any, index: Any, row_memory: Any = 320, mode: Any = "mod"
) -> Any:
    """Is not available on CPU ranks.

    Raises:
        NotImplementedError: always; says why and what to use.

    Source of the contract: CANN TF Adapter API, npu_cpu_ops.embedding_local_index.
    """
    raise refused.error("embedding_local_index")


def host_feature_mapping(
    feature_id: Any, threshold: Any = 1, table_name: Any = "default_table_name"
) -> Any:
    """Is not available on CPU ranks.

    Raises:
        NotImplementedError: always; says why and what to use.

    Source of the contract: CANN TF Adapter API, npu_cpu_ops.host_feature_mapping.
    """
    raise refused.error("host_feature_mapping")


def device_feature_mapping(feature_id: Any) -> Any:
    """Is not available on CPU ranks.

    Raises:
        NotImplementedError: always; says why and what to use.

    Source of the contract: CANN TF Adapter API, npu_cpu_ops.device_feature_mapping.
    """
    raise refused.error("device_feature_mapping")


def init_embedding_hashmap_v2(
    table_id: Any, bucket_size: Any, load_factor: Any, embedding_dim: Any, dtype: Any
) -> Any:
    """Is not available on CPU ranks.

    Raises:
        NotImplementedError: always; says why and what to use.

    Source of the contract: CANN TF Adapter API, npu_cpu_ops.init_embedding_hashmap_v2.
    """
    raise refused.error("init_embedding_hashmap_v2")


def deinit_embedding_hashmap_v2(table_id: Any) -> Any:
    """Is not available on CPU ranks.

    Raises:
        NotImplementedError: always; says why and what to use.

    Source of the contract: CANN TF Adapter API, npu_cpu_ops.deinit_embedding_hashmap_v2.
    """
    raise refused.error("deinit_embedding_hashmap_v2")


def table_to_resource_v2(
    table_id: Any, bucket_size: Any, load_factor: Any, embedding_dim: Any, dtype: Any
) -> Any:
    """Is not available on CPU ranks.

    Raises:
        NotImplementedError: always; says why and what to use.

    Source of the contract: CANN TF Adapter API, npu_cpu_ops.table_to_resource_v2.
    """
    raise refused.error("table_to_resource_v2")


def embedding_hashmap_table_size_v2(
    table_ids: Any, filter_export_flag: Any, export_mode: Any
) -> Any:
    """Is not available on CPU ranks.

    Raises:
        NotImplementedError: always; says why and what to use.

    Source of the contract: CANN TF Adapter API, npu_cpu_ops.embedding_hashmap_table_size_v2.
    """
    raise refused.error("embedding_hashmap_table_size_v2")


def embedding_hashmap_export_v2(
    file_path: Any,
    table_ids: Any,
    table_names: Any,
    global_step: Any,
    keys: Any,
    counters: Any,
    filter_flag: Any,
    values: Any,
    num: Any,
) -> Any:
    """Is not available on CPU ranks.

    Raises:
        NotImplementedError: always; says why and what to use.

    Source of the contract: CANN TF Adapter API, npu_cpu_ops.embedding_hashmap_export_v2.
    """
    raise refused.error("embedding_hashmap_export_v2")


def embedding_hashmap_file_size_v2(
    file_path: Any, table_ids: Any, table_names: Any, global_step: Any, embedding_dims: Any
) -> Any:
    """Is not available on CPU ranks.

    Raises:
        NotImplementedError: always; says why and what to use.

    Source of the contract: CANN TF Adapter API, npu_cpu_ops.embedding_hashmap_file_size_v2.
    """
    raise refused.error("embedding_hashmap_file_size_v2")


def embedding_hashmap_import_v2(
    file_path: Any,
    table_ids: Any,
    table_sizes: Any,
    table_names: Any,
    global_step: Any,
    embedding_dims: Any,
    num: Any,
) -> Any:
    """Is not available on CPU ranks.

    Raises:
        NotImplementedError: always; says why and what to use.

    Source of the contract: CANN TF Adapter API, npu_cpu_ops.embedding_hashmap_import_v2.
    """
    raise refused.error("embedding_hashmap_import_v2")


def init_embedding_hashtable(
    table_handle: Any,
    sampled_values: Any,
    bucket_size: Any,
    embedding_dim: Any,
    initializer_mode: Any,
    constant_value: Any,
) -> Any:
    """Is not available on CPU ranks.

    Raises:
        NotImplementedError: always; says why and what to use.

    Source of the contract: CANN TF Adapter API, npu_cpu_ops.init_embedding_hashtable.
    """
    raise refused.error("init_embedding_hashtable")


def embedding_hash_table_import(
    table_handles: Any,
    embedding_dims: Any,
    bucket_sizes: Any,
    keys: Any,
    counters: Any,
    filter_flags: Any,
    values: Any,
) -> Any:
    """Is not available on CPU ranks.

    Raises:
        NotImplementedError: always; says why and what to use.

    Source of the contract: CANN TF Adapter API, npu_cpu_ops.embedding_hash_table_import.
    """
    raise refused.error("embedding_hash_table_import")


def embedding_hash_table_export(
    table_handles: Any,
    table_sizes: Any,
    embedding_dims: Any,
    bucket_sizes: Any,
    export_mode: Any = "all",
    filter_export_flag: Any = False,
) -> Any:
    """Is not available on CPU ranks.

    Raises:
        NotImplementedError: always; says why and what to use.

    Source of the contract: CANN TF Adapter API, npu_cpu_ops.embedding_hash_table_export.
    """
    raise refused.error("embedding_hash_table_export")


def embedding_hashtable_apply_adam_w(
    table_handle: Any,
    keys: Any,
    m: Any,
    v: Any,
    beta1_power: Any,
    beta2_power: Any,
    lr: Any,
    weight_decay: Any,
    beta1: Any,
    beta2: Any,
    epsilon: Any,
    grad: Any,
    max_grad_norm: Any,
    embedding_dim: Any,
    bucket_size: Any,
    amsgrad: Any,
    maximize: Any,
) -> Any:
    """Is not available on CPU ranks.

    Raises:
        NotImplementedError: always; says why and what to use.

    Source of the contract: CANN TF Adapter API, npu_cpu_ops.embedding_hashtable_apply_adam_w.
    """
    raise refused.error("embedding_hashtable_apply_adam_w")
