/* The C interface of a transport: the library that moves the bytes of a collective.
 *
 * It is C, versioned, and speaks of whole collectives, so that a vendor's library fits behind it,
 * a transport may be a shared library with a C++ ABI of its own, and one may live outside this
 * repository: NPU_BRIDGE_TRANSPORT takes the path of a library that exports
 * npu_transport_interface.
 *
 * What has been done before a transport sees a request: the ranks of the group have met under one
 * key and agree on everything that npu_transport_request says of itself (collective, types,
 * counts, reduction, root); counts and displacements lie inside the buffers; send counts equal the
 * peer's receive counts. A transport need not check them again. Deadlines, stall reports and the
 * naming of culprits are the caller's too: a transport waits until it is done or cancelled.
 *
 * Exception: NPU_COLLECTIVE_SEND starts when the sender calls, whether or not the receiver has.
 *
 * Threads: every function may be called from any thread, several at once. Nothing throws or
 * longjmps across this boundary. Callbacks (allocate, done) may run inside start() or on any later
 * thread; a transport holds no lock of its own while it calls one.
 */
#ifndef NPU_BRIDGE_CSRC_TRANSPORT_TRANSPORT_H_
#define NPU_BRIDGE_CSRC_TRANSPORT_TRANSPORT_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Raised when a change breaks libraries built before it. Fields may be added at the end of structs
 * without raising it: struct_size says how much of a struct the other side knows. */
#define NPU_TRANSPORT_INTERFACE_VERSION 1

/* Canonical codes, as in csrc/common/status.h. */
typedef struct npu_transport_status {
  int32_t code; /* 0: ok */
  char message[1020];
} npu_transport_status;

/* Values of csrc/common/collective.h, csrc/common/data_type.h. All-to-all with a matrix arrives as
 * NPU_COLLECTIVE_ALL_TO_ALL_V. */
enum {
  NPU_COLLECTIVE_ALL_REDUCE = 0,
  NPU_COLLECTIVE_ALL_GATHER = 1,
  NPU_COLLECTIVE_BROADCAST = 2,
  NPU_COLLECTIVE_REDUCE = 3,
  NPU_COLLECTIVE_REDUCE_SCATTER = 4,
  NPU_COLLECTIVE_ALL_TO_ALL_V = 5,
  NPU_COLLECTIVE_SEND = 7,
  NPU_COLLECTIVE_RECEIVE = 8
};

enum {
  NPU_REDUCTION_SUM = 0,
  NPU_REDUCTION_PROD = 1,
  NPU_REDUCTION_MAX = 2,
  NPU_REDUCTION_MIN = 3
};

/* Flags of a transport. */
enum {
  /* Requests of a group must be started in the same order on all its ranks. The caller then sees to
   * that; without the flag requests arrive in any order. */
  NPU_TRANSPORT_NEEDS_ONE_ORDER = 1u << 0,
  /* Some results come in the transport's own memory (npu_transport_result.release is set). */
  NPU_TRANSPORT_HANDS_OUT_RESULTS = 1u << 1
};

/* What the caller offers a transport. Valid from open() to the return of close(). */
typedef struct npu_transport_services {
  size_t struct_size;
  void* context;

  /* A memory file that all ranks of this host share under `name` (at most 63 bytes): the same file
   * on every rank, at least `bytes` long (the largest that any rank asked for first), zero where
   * nobody has written, and never visible in a file system. Returns a descriptor that the transport
   * closes, or -1 with the reason in status. Blocks until the file is there; used in open() only.
   */
  int (*share_segment)(void* context, const char* name, uint64_t bytes,
                       npu_transport_status* status);

  /* 1 while the world rank may still act (alive), 0 once it has left or died. Cheap. */
  int (*rank_is_alive)(void* context, int32_t world_rank);

  /* severity 0 info, 1 warning, 2 error. */
  void (*log)(void* context, int32_t severity, const char* text);
} npu_transport_services;

typedef struct npu_transport_world {
  size_t struct_size;
  int32_t rank; /* this rank, in the world */
  int32_t size;
  /* World ranks on this host, ascending, this one included, and this rank's place among them. */
  const int32_t* host_ranks;
  int32_t host_size;
  int32_t host_rank;
  /* Most requests in flight at once: match_slot is below it. */
  uint32_t slot_count;
  /* Bytes that memory kept for reuse may hold once idle for 10 s, and the hard limit of all result
   * memory of this host (0: none). */
  uint64_t idle_buffer_bytes;
  uint64_t memory_limit_bytes;
} npu_transport_world;

typedef struct npu_transport_group {
  size_t struct_size;
  const char* name;     /* for messages */
  uint64_t identity;    /* equal on all members; differs between groups */
  const int32_t* ranks; /* world ranks in group order */
  int32_t size;
  int32_t rank; /* this rank's place in `ranks` */
} npu_transport_group;

/* One tensor. A request has several when ops were fused or a broadcast takes a list; they are moved
 * in one exchange. Counts are in elements of data_type. */
typedef struct npu_transport_tensor {
  int32_t data_type;
  uint32_t element_size; /* bytes; lets types that are only moved pass unknown */
  const void* input;     /* NULL when input_count is 0, and for receive */
  uint64_t input_count;
  uint64_t result_count;
  /* All-to-all only, one entry a rank of the group. Receive blocks may overlap: they are written in
   * rank order, so that the highest rank's bytes stand; elements that no block covers are zero. */
  const int64_t* send_counts;
  const int64_t* send_displacements;
  const int64_t* receive_counts;
  const int64_t* receive_displacements;
} npu_transport_tensor;

typedef struct npu_transport_result {
  void* data; /* NULL when empty */
  /* NULL: `data` is what allocate() returned. Else the memory is the transport's, valid (also after
   * close()) until release(release_context) is called once, from any thread. It is this process's
   * own view: what is written there never reaches another rank. */
  void (*release)(void* release_context);
  void* release_context;
} npu_transport_result;

/* Everything a request points to stays valid until done() has been called. */
typedef struct npu_transport_request {
  size_t struct_size;
  int32_t collective;
  int32_t reduction; /* reducing collectives */
  int32_t root;      /* broadcast, reduce: rank in the group */
  int32_t peer;      /* send: destination, receive: source, rank in the group */

  /* The same number on every rank that takes part, never 0, and used once in a job. */
  uint64_t match_id;
  /* The same number on every rank of this host that takes part, and no other request in flight
   * there has it. Free again when all of those ranks have called done(). */
  uint32_t match_slot;

  uint32_t tensor_count;
  const npu_transport_tensor* tensors;

  /* Memory for result `tensor`, or NULL when there is none (the request then ends with
   * RESOURCE_EXHAUSTED). At most once a tensor. */
  void* (*allocate)(void* context, uint32_t tensor, uint64_t bytes);

  /* Exactly once if start() returned ok, never otherwise. `results` has tensor_count entries when
   * the status is ok (ignored for send) and is NULL otherwise; it need not outlive the call. */
  void (*done)(void* context, const npu_transport_status* status,
               const npu_transport_result* results);
  void* context;
} npu_transport_request;

typedef struct npu_transport_interface_v1 {
  uint32_t version; /* NPU_TRANSPORT_INTERFACE_VERSION */
  size_t struct_size;
  const char* name;
  uint32_t flags;

  /* Joins the world. Called on every rank, on a thread that may block. */
  void (*open)(const npu_transport_world* world, const npu_transport_services* services,
               void** transport, npu_transport_status* status);
  /* No request is in flight. Result memory that is still held stays valid. */
  void (*close)(void* transport);

  /* Called by the members only, each when it first needs the group; must not wait for the others.
   */
  void (*create_group)(void* transport, const npu_transport_group* description, void** group,
                       npu_transport_status* status);
  void (*destroy_group)(void* group);

  /* How well this transport serves the request: 0 not at all (then `status` says why), 100 what
   * shared memory does. Must give the same answer on every rank of the group. */
  int32_t (*score)(void* group, int32_t collective, int32_t data_type, int32_t reduction,
                   npu_transport_status* status);

  /* Starts a request. Never blocks beyond a short bounded spin, and may be done on return. When it
   * fails, the peers learn of it from the caller. `operation` stays valid until done() returns. */
  void (*start)(void* group, const npu_transport_request* request, void** operation,
                npu_transport_status* status);

  /* Ends a request early with `reason`: done() follows soon, with that status unless the request
   * was already done. The caller cancels it on the other ranks too. A receive may be cancelled that
   * was never started: what was sent to it may be dropped. Unknown ids are ignored. The same
   * match_slot may be used again only when all ranks of the host that take part have called
   * done(). */
  void (*cancel)(void* group, uint64_t match_id, const npu_transport_status* reason);

  /* Tells that a rank of this host has left or died: memory that it held is free, waiting for it is
   * in vain (the caller cancels those requests). */
  void (*rank_gone)(void* transport, int32_t world_rank);

  /* Counters for tests and reports, as "name=value" lines; returns the bytes needed, as snprintf.
   */
  size_t (*describe)(void* transport, char* text, size_t bytes);
} npu_transport_interface_v1;

/* A transport library exports this under the name npu_transport_interface; NULL when it does not
 * speak `version`. */
typedef const npu_transport_interface_v1* (*npu_transport_interface_function)(uint32_t version);

#ifdef __cplusplus
}
#endif

#endif /* NPU_BRIDGE_CSRC_TRANSPORT_TRANSPORT_H_ */
