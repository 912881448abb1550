"""A saver that first brings together the weights that are updated on different ranks."""

from __future__ import annotations

import collections
from typing import Any, Dict, List, Optional

import tensorflow.compat.v1 as tf
from tensorflow.core.protobuf import saver_pb2
from tensorflow.python.training.saver import BulkSaverBuilder, Saver

from npu_bridge.estimator.npu import util
from npu_bridge.hccl import hccl_ops

__all__ = ["NPUBulkSaverBuilder", "NPUSaver", "hccl_ops", "util"]


class NPUBulkSaverBuilder(BulkSaverBuilder):
    """Makes ops that save variables once each rank has the others' latest weights.

    Under weight update sharding (util.add_grads_and_vars) each weight is up to date on one rank
    only, until the next step. Saving then is a collective: all ranks save, or run
    `gathering_op`.

    Args:
        write_version: format of the files, an int: tf.train.SaverDef.V2 (the default), or V1, the
            older one.

    Source of the contract: CANN TF Adapter API, npu_saver.NPUBulkSaverBuilder.
    """

    def __init__(self, write_version: int = saver_pb2.SaverDef.V2) -> None:
        super().__init__(write_version)
        #: The op that brings the weights together; None where nothing is divided.
        self.gathering_op: Optional[tf.Operation] = None

    def _AddSaveOps(self, filename_tensor: Any, saveables: Any) -> Any:
        with tf.control_dependencies(self._gathered()):
            return super()._AddSaveOps(filename_tensor, saveables)

    def save_op(self, filename_tensor: Any, saveables: Any) -> Any:
        """Makes the op that writes a file.

        Args:
            filename_tensor: the file's name.
            saveables: what to write.

        Returns:
            The op.
        """
        if self.gathering_op is None or self._write_version != saver_pb2.SaverDef.V2:
            return super().save_op(filename_tensor, saveables)
        specs = [spec for saveable in saveables for spec in saveable.specs]
        return tf.raw_ops.SaveV2(
            prefix=filename_tensor,
            tensor_names=[spec.name for spec in specs],
            shape_and_slices=[spec.slice_spec for spec in specs],
            tensors=[_read_again(spec.tensor) for spec in specs],
        )

    def _gathered(self) -> List[tf.Operation]:
        if self.gathering_op is None:
            self.gathering_op = _gather_weights(tf.get_default_graph())
        return [] if self.gathering_op is None else [self.gathering_op]


class NPUSaver(Saver):
    """tf.train.Saver for scripts with weight update sharding, and any others.

    Args:
        var_list: what to save: a list or dict of variables; all global ones if None.
        reshape: whether a variable may be restored with another shape.
        sharded: whether there is a file for each device.
        max_to_keep: number of checkpoints to keep; None or 0 keeps all.
        keep_checkpoint_every_n_hours: hours after which one more is kept.
        name: prefix of the ops' names.
        restore_sequentially: whether variables are restored one after the other.
        saver_def: a SaverDef to take ops from, in place of making some.
        builder: has no effect: there is only one that knows of ranks.
        defer_build: whether ops are made when `build` is called.
        allow_empty: whether there may be no variable to save.
        write_version: format of the files.
        pad_step_number: whether step numbers in names of files have eight digits.
        save_relative_paths: whether the list of checkpoints has relative paths.
        filename: prefix of the files' names that the ops have.

    Source of the contract: CANN TF Adapter API, npu_saver.NPUSaver.
    """

    def __init__(
        self,
        var_list: Any = None,
        reshape: bool = False,
        sharded: bool = False,
        max_to_keep: Any = 5,
        keep_checkpoint_every_n_hours: float = 10000.0,
        name: Optional[str] = None,
        restore_sequentially: bool = False,
        saver_def: Any = None,
        builder: Any = None,
        defer_build: bool = False,
        allow_empty: bool = False,
        write_version: int = saver_pb2.SaverDef.V2,
        pad_step_number: bool = False,
        save_relative_paths: bool = False,
        filename: Optional[str] = None,
    ) -> None:
        self._ranks_builder = NPUBulkSaverBuilder(write_version)
        super().__init__(
            var_list=var_list,
            reshape=reshape,
            sharded=sharded,
            max_to_keep=max_to_keep,
            keep_checkpoint_every_n_hours=keep_checkpoint_every_n_hours,
            name=name,
            restore_sequentially=restore_sequentially,
            saver_def=saver_def,
            builder=self._ranks_builder,
            defer_build=defer_build,
            allow_empty=allow_empty,
            write_version=write_version,
            pad_step_number=pad_step_number,
            save_relative_paths=save_relative_paths,
            filename=filename,
        )

    @property
    def gathering_op(self) -> Optional[tf.Operation]:
        """What a rank runs that does not save while another does; None where there is nothing."""
        return self._ranks_builder.gathering_op


def _read_again(tensor: Any) -> Any:
    """Returns the value that a resource variable has now, where a tensor is a read of one.

    Saveables read such variables with an op that was made with the variable, and so comes before
    the weights are brought together.
    """
    source = tensor.op
    while source.type == "Identity" and len(source.inputs) == 1:
        source = source.inputs[0].op
    if source.type != "ReadVariableOp":
        return tensor
    return tf.raw_ops.ReadVariableOp(resource=source.inputs[0], dtype=tensor.dtype.base_dtype)


def _gather_weights(graph: tf.Graph) -> Optional[tf.Operation]:
    """Makes the op that broadcasts each divided weight from the rank that updates it."""
    by_rank: Dict[int, List[Any]] = collections.OrderedDict()
    for item in util.get_all_grad_item():
        if item.root_rank_id >= 0 and item.var.graph is graph:
            by_rank.setdefault(item.root_rank_id, []).append(item.var)
    if not by_rank:
        return None
    with tf.name_scope("Save_Weight_Update_Sharding"):
        done: List[tf.Operation] = []
        for rank, weights in by_rank.items():
            done += [result.op for result in hccl_ops.broadcast(weights, rank, 2, rank)]
        return tf.group(*done, name="gathered")
