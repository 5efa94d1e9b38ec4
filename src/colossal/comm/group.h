// Collectives and point-to-point messages between the ranks of a Group: the ranks along one or more
// axes of the grid, or any other ranks. World::group() (world.h) makes groups. "Rank i" below means
// the rank within the group.
//
// Tensors are contiguous and are treated as flat arrays of elements. Several calls divide a tensor
// into one part per rank, in rank order: `counts[i]` is the number of elements of rank i's part.
// Parts may be uneven or empty.
//
// All ranks of the group must make the same calls in the same order, with equal sizes, types,
// counts and reasons, except where a function says otherwise. The calls of one group run one after
// the other, in the order in which this rank issues them. Any thread may issue them, as long as
// their order is the same on all ranks.
//
// Blocking calls return when the tensors may be read and reused. The *_async forms return at once;
// until Work::wait() returns, the caller must not read results or modify any tensor of the call.
//
// A call throws CommError if a peer is lost, the group's timeout passes, or the ranks' calls do not
// match. The error names rank, axis, call and reason. After such an error the group cannot be used.
// The *_async forms throw it in Work::wait(). Wrong arguments, such as counts that do not sum to
// the tensor's size, throw InternalError before anything is sent, also from the *_async forms.
//
// On GPUs over NCCL, nothing but a barrier waits on the host. A call runs on the GPU after what the
// issuing thread has launched in its current stream before; a blocking call or Work::wait() makes
// the current stream wait for it. So work on the GPU may use the results, but the host reads them
// with on_host() only: a call that fails ends on the GPU like any other, with nonsense in its
// tensors, and on_host() throws the error. One thread issues the calls of all groups, and all ranks
// issue those that they share in the same order. A receive_async() begins when it is waited for, or
// with the next call of its group. A call that waits for a rank that made another one fails when
// its time is over; ranks whose different calls end all the same are not told.
//
// Sums are made in rank order, host by host (sum.h): bf16 and fp16 in fp32, other types in their
// own type. So all ranks get the same bits, and repeated runs do, too. NCCL's own collectives
// choose order and precision themselves. can_sum() (sum.h) lists the types that can be summed.
//
// Calls with an argument `reason` book the bytes that this rank sends; the ledger counts them under
// this reason (ledger.h). In a group of one rank, collectives send and book nothing. "Law" below is
// the number of bytes that a call books in the ledger's column `law` on this rank.
#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "colossal/comm/ledger.h"

namespace colossal::comm {

// Handle of an asynchronous call. Copies refer to the same call. The destructor does not wait.
class Work {
 public:
  Work() = default;   // a finished call
  void wait();        // rethrows the call's error
  bool done() const;  // whether the call has ended, with or without an error

  struct State;
  explicit Work(std::shared_ptr<State> state);

 private:
  std::shared_ptr<State> state_;
};

// One rank's handle of a group. Copies refer to the same group. Destroying the last copy waits for
// asynchronous calls that have not ended.
class Group {
 public:
  struct Impl;
  Group();  // a group of one rank without an axis
  explicit Group(std::shared_ptr<Impl> impl);

  int rank() const;  // this rank, within the group
  int size() const;
  const std::string& axis() const;        // the group's name in the ledger and in errors
  const std::vector<int>& ranks() const;  // the members' global ranks, by rank within the group
  // Returns "single" (the world has one rank, or Group() made the group), "local" (the ranks are
  // threads of one process), "shm" (shared memory), "gloo", "shm+gloo" (shared memory on each host,
  // Gloo between hosts), "nccl" or "dry" (a dry run). In a larger world, a group of one rank has
  // one of the other names, too.
  const char* backend() const;
  // Returns where tensors of this group's calls must be. In a group of one rank they may be
  // anywhere; it returns the CPU.
  at::Device device() const;
  Ledger& ledger() const;  // books this rank's traffic in the group

  Impl& impl() const { return *impl_; }

 private:
  std::shared_ptr<Impl> impl_;
};

// tensor <- sum of all ranks' tensors. Law: let the tensor be divided into one part per rank, as
// evenly as possible. The law is the bytes of all other ranks' parts, plus (group size - 1) times
// the bytes of this rank's part.
void all_reduce(const at::Tensor& tensor, const Group& group, Reason reason);
Work all_reduce_async(const at::Tensor& tensor, const Group& group, Reason reason);

// part [counts[rank]] <- this rank's part of the sum of all ranks' `full` [sum of counts]. `part`
// may be the view of this rank's part in `full`; nothing else of `full` is changed. `part` may also
// have another type than `full`; for example, an fp32 `part` of bf16 tensors gets the unrounded
// sum. Law: bytes of all other ranks' parts.
void reduce_scatter(const at::Tensor& full, const at::Tensor& part, std::span<const int64_t> counts,
                    const Group& group, Reason reason);
Work reduce_scatter_async(const at::Tensor& full, const at::Tensor& part,
                          std::span<const int64_t> counts, const Group& group, Reason reason);

// full [sum of counts] <- the parts of all ranks. On entry, this rank's part must be in its place
// in `full`. Law: (group size - 1) times the bytes of this rank's part.
void all_gather(const at::Tensor& full, std::span<const int64_t> counts, const Group& group,
                Reason reason);
Work all_gather_async(const at::Tensor& full, std::span<const int64_t> counts, const Group& group,
                      Reason reason);

// Sends part i of `send` (send_counts[i] elements) to rank i. Fills part i of `receive`
// (receive_counts[i] elements) from rank i. Sizes and counts may differ between ranks, but what a
// rank sends must be what its peer expects. `send` and `receive` must not overlap. Law: bytes of
// the parts for other ranks.
void all_to_all(const at::Tensor& send, std::span<const int64_t> send_counts,
                const at::Tensor& receive, std::span<const int64_t> receive_counts,
                const Group& group, Reason reason);
Work all_to_all_async(const at::Tensor& send, std::span<const int64_t> send_counts,
                      const at::Tensor& receive, std::span<const int64_t> receive_counts,
                      const Group& group, Reason reason);

// One hop of a ring: sends `send` to rank i + 1 and fills `receive` from rank i - 1, where i is
// this rank and the ring wraps around at the group's size. Ranks may send tensors of different
// sizes, but a rank's `receive` must be as large as the previous rank's `send`. `send` and
// `receive` must not overlap. Law: bytes of `send`.
Work rotate_async(const at::Tensor& send, const at::Tensor& receive, const Group& group,
                  Reason reason);

// tensor <- the tensor of rank `root`. The ranks form a chain root, root + 1, ..., which wraps
// around at the group's size. Law: bytes of `tensor`, but 0 on the last rank of the chain.
void broadcast(const at::Tensor& tensor, int root, const Group& group, Reason reason);
Work broadcast_async(const at::Tensor& tensor, int root, const Group& group, Reason reason);

// Point-to-point messages between this rank and rank `to` or `from`; other ranks do not take part.
// Sends and receives between two ranks match in order. A send can block until the peer's receive
// has begun, and blocks the group's later calls meanwhile, even if it is asynchronous. Two ranks
// that send to each other at the same time therefore need one group per direction. Law: bytes of
// `tensor` for send; receive books nothing.
void send(const at::Tensor& tensor, int to, const Group& group, Reason reason);
Work send_async(const at::Tensor& tensor, int to, const Group& group, Reason reason);
void receive(const at::Tensor& tensor, int from, const Group& group, Reason reason);
Work receive_async(const at::Tensor& tensor, int from, const Group& group, Reason reason);

// Returns when all ranks have called it, and on GPUs have carried out the calls of this group
// before it. Books nothing.
void barrier(const Group& group);

// Returns `tensor`, which calls of the group's ranks have computed, in host memory. Throws
// CommError if any call that this rank has issued before, in any group of its world, has failed.
at::Tensor on_host(const at::Tensor& tensor, const Group& group);
// Likewise, but also throws if a call of another rank has failed, which may have left nonsense in
// this rank's tensors, too: before what no rank may compute from nonsense, such as an update of
// weights. On GPUs over NCCL it asks a server, which takes some 0.1 ms.
at::Tensor on_host_checked(const at::Tensor& tensor, const Group& group);

// Returns an uninitialized tensor [elements] in memory that all ranks of the group can read.
// options: dtype and device. This group's all_reduce, reduce_scatter (`full`) and all_gather read
// such tensors, or views of them, directly in peers' memory instead of copying them first, if they
// are larger than 256 KiB. Collective. Books nothing. Returns a plain tensor if `elements` is 0 or
// the ranks share no memory: on a backend other than "shm", on a GPU, in a group of one rank. A
// rank may free its tensor at any time; the memory is released when all ranks have freed their
// tensors.
//
// Not used for chunks (memory/chunk.h): peers' memory that a rank has read also counts in that
// rank's resident memory. In a group of 2 ranks, an all-reduce of a shared tensor thus adds the
// tensor's size to the resident memory of each rank. With 4 layers of hidden size 256 and 2 ranks,
// gradients in shared memory made resident memory exceed counted memory by 7 % instead of 3 %,
// without a measurable gain in step time.
at::Tensor shared_empty(int64_t elements, const at::TensorOptions& options, const Group& group);

// Returns the `bytes` of all ranks, in rank order. Sizes may differ between ranks. Collective. For
// manifests, error messages and other small data that is not in tensors. A dry run assumes that all
// ranks give this rank's `bytes`. Law: that of an all_gather() of one int64 of each rank, the size,
// and of an all_gather() of the bytes.
std::vector<std::string> gather_bytes(const std::string& bytes, const Group& group, Reason reason);

// Like gather_bytes(), with the same law, but returns each distinct value once. Needs less memory
// than gather_bytes() if many ranks give equal values.
std::set<std::string> gather_distinct_bytes(const std::string& bytes, const Group& group,
                                            Reason reason);

}  // namespace colossal::comm
