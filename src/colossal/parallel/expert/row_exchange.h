// Exchanges rows between the ranks of a group, any number from each rank to each other one, for
// experts on several ranks (D. Lepikhin et al. 2020, GShard). Booked as Reason::expert.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <cstdint>
#include <vector>

#include "colossal/comm/group.h"
#include "colossal/layout/partition.h"

namespace colossal::parallel {

// How many rows this rank sends to each rank of a group, and receives from each. The numbers of any
// two ranks must agree.
struct RowCounts {
  std::vector<int64_t> send;
  std::vector<int64_t> receive;
};

// Numbers of rows, [rank][expert].
using RowsByRank = std::vector<std::vector<int64_t>>;

// Returns [rank][expert on this rank]: how many rows each rank has for each of this rank's experts.
// counts: this rank's rows for each expert; experts: how experts are divided among the ranks of
// `group`. Collective. On device meta, where the numbers are unknown, every rank is assumed to have
// as many rows as this one for this rank's experts. Law: an all-to-all of 8 bytes per expert.
RowsByRank exchange_counts(const std::vector<int64_t>& counts, const Partition& experts,
                           const comm::Group& group, at::Device device);

// Rows on their way; differentiable: gradients travel back to the ranks that sent the rows. The
// exchange runs in the background from the constructor to wait(); in backward, it overlaps with the
// gradients of the operators called between the two. Every rank of the group must make each
// exchange, and run its backward pass if any rank does, even without rows.
class RowExchange {
 public:
  // x: [rows to send, width], sorted by receiving rank. The group must outlive the backward pass.
  RowExchange(const at::Tensor& x, RowCounts counts, const comm::Group& group);

  // Returns [rows received, width], sorted by sending rank. Called once.
  at::Tensor wait();

 private:
  struct State;
  c10::intrusive_ptr<torch::CustomClassHolder> state_;  // shared with the backward pass
  at::Tensor tie_;  // links the two ends in autograd's graph; in a group of one rank, x
};

}  // namespace colossal::parallel
