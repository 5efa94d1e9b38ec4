// A Group: some ranks, usually those along one or more axes of the mesh, with the backend that
// connects them and this rank's ledger. Ranks in arguments are ranks within the group.
//
// Collectives are free functions over flat, contiguous, one-dimensional tensors. Parts may be
// uneven: `counts[i]` is the number of elements of rank i's part; parts lie in rank order.
// Collectives
//   - must be called by all ranks of the group in the same order, with the same sizes and types;
//   - send and book nothing in a group of one rank;
//   - sum in rank order, host by host (hierarchical_backend.h), in fp32 (fp64 and int64 in their
//     own type): all ranks get the same bits, and so do repeated runs, whatever the timing;
//   - throw CommError, naming rank, axis, operation and reason, if a peer dies or the group's
//     timeout passes.
// The *_async forms return at once. The calls of one group, including blocking calls, run in the
// order in which they were issued. Until wait() returns, the caller must not read results, nor
// modify or free tensors.
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

// Handle of a running collective. Copies refer to the same collective. The destructor does not
// wait.
class Work {
 public:
  Work() = default;  // a finished collective
  void wait();       // rethrows the collective's error
  bool done() const;

  struct State;
  explicit Work(std::shared_ptr<State> state);

 private:
  std::shared_ptr<State> state_;
};

class Group {
 public:
  struct Impl;
  Group();  // a group of one rank without an axis
  explicit Group(std::shared_ptr<Impl> impl);

  int rank() const;  // within the group
  int size() const;
  const std::string& axis() const;
  const std::vector<int>& ranks() const;  // global ranks, in group order
  const char* backend() const;  // "single", "local", "shm", "gloo", "shm+gloo", "nccl", "dry"
  at::Device device() const;    // device of the tensors that it communicates
  Ledger& ledger() const;

  Impl& impl() const { return *impl_; }

 private:
  std::shared_ptr<Impl> impl_;
};

// tensor <- sum over ranks. Law: a reduce-scatter and an all-gather of even parts.
void all_reduce(const at::Tensor& tensor, const Group& group, Reason reason);
Work all_reduce_async(const at::Tensor& tensor, const Group& group, Reason reason);

// part [counts[rank]] <- sum over ranks of this rank's part of `full`. `part` may be a view of that
// range of `full`, or have another type than `full` (fp32 for bf16: the unrounded sum). Law:
// bytes(full) - bytes of this rank's part.
void reduce_scatter(const at::Tensor& full, const at::Tensor& part, std::span<const int64_t> counts,
                    const Group& group, Reason reason);
Work reduce_scatter_async(const at::Tensor& full, const at::Tensor& part,
                          std::span<const int64_t> counts, const Group& group, Reason reason);

// full <- all parts in rank order. On entry, this rank's part is in its place in `full`. Law:
// (group size - 1) times the bytes of this rank's part.
void all_gather(const at::Tensor& full, std::span<const int64_t> counts, const Group& group,
                Reason reason);
Work all_gather_async(const at::Tensor& full, std::span<const int64_t> counts, const Group& group,
                      Reason reason);

// Sends part i of `send` (send_counts[i] elements) to rank i, and receives the parts for this rank
// into `receive` in rank order. Law: bytes of the parts for other ranks.
void all_to_all(const at::Tensor& send, std::span<const int64_t> send_counts,
                const at::Tensor& receive, std::span<const int64_t> receive_counts,
                const Group& group, Reason reason);
Work all_to_all_async(const at::Tensor& send, std::span<const int64_t> send_counts,
                      const at::Tensor& receive, std::span<const int64_t> receive_counts,
                      const Group& group, Reason reason);

// One hop of a ring: sends `send` to the next rank, and fills `receive`, whose size may differ,
// from the previous rank. Law: bytes(send).
Work rotate_async(const at::Tensor& send, const at::Tensor& receive, const Group& group,
                  Reason reason);

// tensor <- root's tensor, along a chain of the ranks that starts at root. Law: each rank except
// the chain's last sends the tensor once.
void broadcast(const at::Tensor& tensor, int root, const Group& group, Reason reason);
Work broadcast_async(const at::Tensor& tensor, int root, const Group& group, Reason reason);

// Point-to-point messages. Law: bytes(tensor) for send; receive books nothing. Sends and receives
// between two ranks match in order. A send can block until its receive has begun: two ranks that
// send to each other at the same time need one group per direction.
void send(const at::Tensor& tensor, int to, const Group& group, Reason reason);
Work send_async(const at::Tensor& tensor, int to, const Group& group, Reason reason);
void receive(const at::Tensor& tensor, int from, const Group& group, Reason reason);
Work receive_async(const at::Tensor& tensor, int from, const Group& group, Reason reason);

void barrier(const Group& group);

// Returns an uninitialized tensor in memory that all ranks of the group can read. This group's
// all_reduce, reduce_scatter (`full`) and all_gather over such tensors, or views of them, read
// peers' memory directly instead of copying. Collective: all ranks call it with the same arguments,
// in the same order as their other calls. Books nothing. If the ranks share no memory (another
// backend or device, a group of one rank), returns a plain tensor. Each rank frees the tensor like
// any other, at any time; the memory is released when the last rank has freed its own.
//
// Peers' memory that a rank has read also counts in that rank's resident memory: in an all-reduce
// of 2 ranks, the size of the tensor once more. Chunks of parameters are therefore plain tensors.
// With 4 layers of hidden size 256 and 2 ranks, gradients in shared memory made resident memory
// exceed counted memory by 7 % instead of 3 %, without a measurable gain in step time.
at::Tensor shared_empty(int64_t elements, const at::TensorOptions& options, const Group& group);

// Returns each rank's `bytes`, in rank order. Collective. For manifests, error messages and the
// like, not for tensors.
std::vector<std::string> gather_bytes(const std::string& bytes, const Group& group, Reason reason);

// Returns the distinct values of the ranks' `bytes`. Collective. If there are few distinct values,
// little is sent, however many ranks there are.
std::set<std::string> gather_distinct_bytes(const std::string& bytes, const Group& group,
                                            Reason reason);

}  // namespace colossal::comm
