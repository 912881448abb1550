// Element types that the ops accept, as text of an Attr() line.
#ifndef NPU_BRIDGE_CSRC_TF_OPS_TYPE_SETS_H_
#define NPU_BRIDGE_CSRC_TF_OPS_TYPE_SETS_H_

// What a collective moves.
#define NPU_BRIDGE_DATA_TYPES                                                              \
  "{int8, int16, int32, int64, uint8, uint16, uint32, uint64, float16, float32, float64, " \
  "bfloat16}"

// What a collective reduces. The same set today; the two are kept apart because the published ops
// keep them apart.
#define NPU_BRIDGE_REDUCE_TYPES NPU_BRIDGE_DATA_TYPES

#endif  // NPU_BRIDGE_CSRC_TF_OPS_TYPE_SETS_H_
