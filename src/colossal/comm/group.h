// A Group is the ranks along one axis of the mesh, a backend that joins them, and the ledger.
//
// Collectives are free functions over flat, contiguous, one-dimensional tensors. Parts may be
// uneven: `counts[i]` is the number of elements of rank i's part, parts lie in rank order.
// Every collective
//   - is the same sequence on all ranks of the group (same order, sizes and types);
//   - returns at once, having moved and booked nothing, in a group of size 1;
//   - sums in rank order, host by host (hierarchical_backend.h), in fp32 (fp64 and int64: as such),
//     so that all ranks hold the same bits and two runs give the same bits, whatever the timing;
//   - throws CommError, naming rank, axis, operation and reason, when a peer dies or the group's
//     timeout passes.
// The *_async forms return at once; calls of one group run in the order in which they were issued,
// blocking ones included. The tensors must stay alive and untouched until wait() returns.
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

// A collective under way. Copies share it. Dropping it does not wait.
class Work {
 public:
  Work() = default;  // already done
  void wait();       // throws what the collective threw
  bool done() const;

  struct State;
  explicit Work(std::shared_ptr<State> state);

 private:
  std::shared_ptr<State> state_;
};

class Group {
 public:
  struct Impl;
  Group();  // a group of one rank that has no axis: every collective is the identity
  explicit Group(std::shared_ptr<Impl> impl);

  int rank() const;  // within the group
  int size() const;
  const std::string& axis() const;
  const std::vector<int>& ranks() const;  // global ranks, in group order
  const char* backend() const;            // "local", "shm", "gloo", "shm+gloo", "nccl", "dry"
  at::Device device() const;              // where its tensors must live
  Ledger& ledger() const;

  Impl& impl() const { return *impl_; }

 private:
  std::shared_ptr<Impl> impl_;
};

// tensor <- sum over ranks. Law: a reduce-scatter and an all-gather of even parts.
void all_reduce(const at::Tensor& tensor, const Group& group, Reason reason);
Work all_reduce_async(const at::Tensor& tensor, const Group& group, Reason reason);

// part [counts[rank]] <- sum over ranks of each one's full[part of this rank]. `part` may be a view
// of that range of `full`, or of another type than `full` (fp32 for bf16: the sum unrounded).
// Law: bytes(full) - bytes of the own part.
void reduce_scatter(const at::Tensor& full, const at::Tensor& part, std::span<const int64_t> counts,
                    const Group& group, Reason reason);
Work reduce_scatter_async(const at::Tensor& full, const at::Tensor& part,
                          std::span<const int64_t> counts, const Group& group, Reason reason);

// full <- all parts in rank order; on entry the own part is in its place in `full`.
// Law: (n-1) * bytes of the own part.
void all_gather(const at::Tensor& full, std::span<const int64_t> counts, const Group& group,
                Reason reason);
Work all_gather_async(const at::Tensor& full, std::span<const int64_t> counts, const Group& group,
                      Reason reason);

// Rank i's part of `send` (send_counts[i] elements) goes to rank i; what it sends us lands in our
// `receive` in rank order. Law: the parts for others.
void all_to_all(const at::Tensor& send, std::span<const int64_t> send_counts,
                const at::Tensor& receive, std::span<const int64_t> receive_counts,
                const Group& group, Reason reason);
Work all_to_all_async(const at::Tensor& send, std::span<const int64_t> send_counts,
                      const at::Tensor& receive, std::span<const int64_t> receive_counts,
                      const Group& group, Reason reason);

// One hop of a ring: `send` goes to the next rank, and `receive`, of any size, is filled by the
// previous one. Law: bytes(send).
Work rotate_async(const at::Tensor& send, const at::Tensor& receive, const Group& group,
                  Reason reason);

// tensor <- root's. A chain starting at root: each rank but the last sends it once.
void broadcast(const at::Tensor& tensor, int root, const Group& group, Reason reason);
Work broadcast_async(const at::Tensor& tensor, int root, const Group& group, Reason reason);

// Law of send: bytes(tensor); receive books nothing. Matching pairs run in order. A send may end
// only when its receive has begun: two ranks that send to each other at once need a group for each
// way.
void send(const at::Tensor& tensor, int to, const Group& group, Reason reason);
Work send_async(const at::Tensor& tensor, int to, const Group& group, Reason reason);
void receive(const at::Tensor& tensor, int from, const Group& group, Reason reason);
Work receive_async(const at::Tensor& tensor, int from, const Group& group, Reason reason);

void barrier(const Group& group);

// Returns a tensor of arbitrary values in memory that all ranks of the group can read. This group's
// all_reduce, reduce_scatter (`full`) and all_gather over such tensors, or views of them, copy
// nothing to where peers can read it. All ranks make it alike, in the same order as their other
// calls; books nothing. Where ranks share no memory (another backend or device, a group of one) it
// is a plain tensor. Freed like any tensor, by each rank when it likes; the memory goes when the
// last rank has freed its own.
//
// What a rank reads of its peers counts as resident in it too: of an all-reduce of 2 ranks as much
// as the tensor again. So chunks of parameters are plain tensors: at 4 layers of 256, 2 ranks,
// gradients in such memory took what is resident beyond what is counted from 3 % to 7 %, for no
// gain in the time of a step that could be measured.
at::Tensor shared_empty(int64_t elements, const at::TensorOptions& options, const Group& group);

// Each rank's bytes, in rank order: for manifests, error messages and the like, not for tensors.
std::vector<std::string> gather_bytes(const std::string& bytes, const Group& group, Reason reason);

// Returns the distinct texts that the ranks give: few, if few differ, however many ranks there are.
std::set<std::string> gather_distinct_bytes(const std::string& bytes, const Group& group,
                                            Reason reason);

}  // namespace colossal::comm
