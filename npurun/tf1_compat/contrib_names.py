"""Which names of tf.contrib have an equal, and where. Data only; contrib.py reads it.

Taken from TensorFlow 1.15: a name is here when its object there is also a public name of the core,
which compat.v1 still has, or when tf_slim took its code over.
"""

from __future__ import annotations

from typing import Dict

# Packages of tf.contrib for which an existing one stands in, with all modules inside it.
SAME_PACKAGES: Dict[str, str] = {
    "slim": "tf_slim",
    "slim.python.slim": "tf_slim",
    "layers.python.layers": "tf_slim.layers",
    "losses": "tf_slim.losses",
    "losses.python.losses": "tf_slim.losses",
    "training.python.training": "tf_slim.training",
}

# Modules for which an existing one stands in.
SAME_MODULES: Dict[str, str] = {
    "layers.summaries": "tf_slim.layers.summaries",
    "framework.nest": "tensorflow.python.util.nest",
    "framework.python.ops.arg_scope": "tf_slim.ops.arg_scope",
    "framework.python.ops.variables": "tf_slim.ops.variables",
}

_ARG_SCOPE = "add_arg_scope arg_scope arg_scoped_arguments current_arg_scope has_arg_scope"
_VARIABLES = """
    VariableDeviceChooser add_model_variable assert_global_step assert_or_get_global_step
    assign_from_checkpoint assign_from_checkpoint_fn assign_from_values assign_from_values_fn
    create_global_step filter_variables get_global_step get_local_variables get_model_variables
    get_or_create_global_step get_trainable_variables get_unique_variable get_variable_full_name
    get_variables get_variables_by_name get_variables_by_suffix get_variables_to_restore
    global_variable local_variable model_variable variable
"""

# Module of tf.contrib: {where the equals are: their names, or name=name there}. "tensorflow" means
# the compat.v1 API.
MODULES: Dict[str, Dict[str, str]] = {
    "layers": {
        "tf_slim.layers": """
            GDN OPTIMIZER_CLS_NAMES OPTIMIZER_SUMMARIES RevBlock apply_regularization avg_pool2d
            avg_pool3d batch_norm bias_add conv1d conv2d conv2d_in_plane conv2d_transpose conv3d
            conv3d_transpose convolution convolution1d convolution2d convolution2d_in_plane
            convolution2d_transpose convolution3d convolution3d_transpose dense_to_sparse dropout
            elu flatten fully_connected gdn group_norm images_to_sequence instance_norm
            l1_l2_regularizer l1_regularizer l2_regularizer layer_norm legacy_fully_connected
            legacy_linear legacy_relu linear max_pool2d max_pool3d maxout one_hot_encoding
            optimize_loss recompute_grad relu relu6 repeat rev_block scale_gradient
            separable_conv2d separable_convolution2d sequence_to_images softmax spatial_softmax
            stack sum_regularizer summarize_activation summarize_activations summarize_collection
            summarize_tensor summarize_tensors unit_norm variance_scaling_initializer
            xavier_initializer xavier_initializer_conv2d
        """,
        "tensorflow.nn": "safe_embedding_lookup_sparse",
    },
    "framework": {
        "tf_slim.ops.arg_scope": _ARG_SCOPE,
        "tf_slim.ops.variables": _VARIABLES,
        "tf_slim.ops.framework_ops": "get_name_scope",
        "tensorflow.python.framework.ops": "prepend_name_scope strip_name_scope",
        "tensorflow": """
            TensorSpec argsort assert_same_float_dtype assert_scalar
            convert_to_tensor_or_sparse_tensor is_tensor py_func sort
        """,
        "tensorflow.train": "init_from_checkpoint list_variables load_checkpoint load_variable",
        "tensorflow.python.framework.smart_cond": "smart_case smart_cond smart_constant_value",
        "tensorflow.python.util.deprecation": "deprecated deprecated_arg_values deprecated_args",
    },
    "framework.python.ops": {
        "tf_slim.ops.arg_scope": _ARG_SCOPE,
        "tf_slim.ops.variables": _VARIABLES,
    },
    "training": {
        "tf_slim.training.training": """
            add_gradients_summaries clip_gradient_norms clip_gradient_norms_fn create_train_op
            multiply_gradients train
        """,
        "tf_slim.training.evaluation": """
            StopAfterNEvalsHook SummaryAtEndHook checkpoints_iterator evaluate_once
            evaluate_repeatedly get_or_create_eval_step wait_for_new_checkpoint
        """,
        "tensorflow.data.experimental": "bucket_by_sequence_length",
    },
    "data": {
        "tensorflow.data.experimental": """
            AUTOTUNE CheckpointInputPipelineHook Counter CsvDataset Optional RandomDataset Reducer
            SqlDataset TFRecordWriter bucket_by_sequence_length choose_from_datasets copy_to_device
            dense_to_sparse_batch enumerate_dataset get_next_as_optional
            get_single_element group_by_reducer group_by_window ignore_errors
            make_batched_features_dataset make_csv_dataset make_saveable_from_iterator
            map_and_batch parallel_interleave parse_example_dataset prefetch_to_device
            rejection_resample sample_from_datasets scan shuffle_and_repeat unbatch unique
        """,
        "npurun.tf1_compat.contrib_functions": """
            batch_and_drop_remainder padded_batch_and_drop_remainder
        """,
    },
    "tpu": {
        "tensorflow.estimator.tpu": """
            InputPipelineConfig RunConfig TPUConfig TPUEstimator TPUEstimatorSpec
        """,
        "tensorflow.tpu": """
            CrossShardOptimizer batch_parallel bfloat16_scope core cross_replica_sum
            initialize_system outside_compilation replicate rewrite shard shutdown_system
        """,
        "tensorflow.tpu.experimental": "DeviceAssignment",
    },
    # Names of other modules whose objects are the core's own in TensorFlow 1.15.
    "checkpoint": {
        "tensorflow.train": "CheckpointManager",
        "tensorflow.train.experimental": "PythonStateWrapper=PythonState",
    },
    "cluster_resolver": {
        "tensorflow.distribute.cluster_resolver": """
            ClusterResolver GCEClusterResolver KubernetesClusterResolver SimpleClusterResolver
            SlurmClusterResolver TFConfigClusterResolver TPUClusterResolver
            UnionClusterResolver=UnionResolver
        """,
    },
    "distribute": {
        "tensorflow.distribute": """
            CrossDeviceOps DistributionStrategy=Strategy OneDeviceStrategy ReplicaContext
            get_distribution_strategy=get_strategy get_loss_reduction get_replica_context
            get_strategy has_distribution_strategy=has_strategy has_strategy
            in_cross_replica_context
        """,
        "tensorflow.tpu.experimental": "initialize_tpu_system",
    },
    "distributions": {
        "tensorflow.distributions": """
            Bernoulli Beta Categorical Dirichlet DirichletMultinomial Distribution Exponential Gamma
            Laplace Multinomial Normal RegisterKL ReparameterizationType StudentT Uniform
            kl_divergence
        """,
    },
    "eager": {
        "tensorflow": """
            GradientTape TensorSpec custom_gradient enable_eager_execution executing_eagerly
            function in_eager_mode=executing_eagerly py_func=py_function
        """,
        "tensorflow.train": "Checkpoint",
    },
    "lookup": {
        "tensorflow.lookup": "KeyValueTensorInitializer TextFileIndex TextFileInitializer",
        "tensorflow.lookup.experimental": "MutableDenseHashTable=DenseHashTable",
    },
    "metrics": {
        "tf_slim.metrics": """
            accuracy aggregate_metric_map aggregate_metrics auc_using_histogram
            auc_with_confidence_intervals cohen_kappa count f1_score precision_at_recall
            precision_recall_at_equal_thresholds recall_at_precision sparse_recall_at_top_k
            streaming_accuracy streaming_auc streaming_concat streaming_covariance
            streaming_curve_points streaming_dynamic_auc streaming_false_negative_rate
            streaming_false_negative_rate_at_thresholds streaming_false_negatives
            streaming_false_negatives_at_thresholds streaming_false_positive_rate
            streaming_false_positive_rate_at_thresholds streaming_false_positives
            streaming_false_positives_at_thresholds streaming_mean streaming_mean_absolute_error
            streaming_mean_cosine_distance streaming_mean_iou streaming_mean_relative_error
            streaming_mean_squared_error streaming_mean_tensor streaming_pearson_correlation
            streaming_percentage_less streaming_precision streaming_precision_at_thresholds
            streaming_recall streaming_recall_at_k streaming_recall_at_thresholds
            streaming_root_mean_squared_error streaming_sensitivity_at_specificity
            streaming_sparse_average_precision_at_k streaming_sparse_average_precision_at_top_k
            streaming_sparse_precision_at_k streaming_sparse_precision_at_top_k
            streaming_sparse_recall_at_k streaming_specificity_at_sensitivity
            streaming_true_negatives streaming_true_negatives_at_thresholds
            streaming_true_positives streaming_true_positives_at_thresholds
        """,
        "tensorflow.sets": """
            set_difference=difference set_intersection=intersection set_size=size set_union=union
        """,
    },
    "proto": {"tensorflow.io": "decode_proto encode_proto"},
    "rnn": {
        "tensorflow.nn.rnn_cell": """
            BasicLSTMCell BasicRNNCell DeviceWrapper DropoutWrapper GRUCell LSTMCell LSTMStateTuple
            MultiRNNCell RNNCell ResidualWrapper
        """,
        "tensorflow.nn": "static_bidirectional_rnn static_rnn static_state_saving_rnn",
    },
    "signal": {
        "tensorflow.signal": """
            frame hamming_window hann_window inverse_stft inverse_stft_window_fn
            linear_to_mel_weight_matrix mfccs_from_log_mel_spectrograms overlap_and_add stft
        """,
    },
    "stateless": {
        "tensorflow.random": """
            stateless_multinomial stateless_random_normal=stateless_normal
            stateless_random_uniform=stateless_uniform
            stateless_truncated_normal
        """,
    },
    "util": {
        "tensorflow": "constant_value=get_static_value make_ndarray make_tensor_proto",
    },
}
