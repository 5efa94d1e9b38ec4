// Exchanges rows between the ranks of a group, as many from each to each as routing says, for
// experts on several ranks (D. Lepikhin et al. 2020, GShard). Booked as Reason::expert.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <cstdint>
#include <vector>

#include "colossal/comm/group.h"
#include "colossal/layout/partition.h"

namespace colossal::parallel {

// Numbers of rows by rank of a group. What one rank sends to another is what that one receives.
struct RowCounts {
  std::vector<int64_t> send;
  std::vector<int64_t> receive;
};

// Rows of experts, rank by rank: [rank][expert here], in the order of the ranks and the experts.
using RowsByRank = std::vector<std::vector<int64_t>>;

// Returns how many rows of each rank are for the experts here. counts: rows here for each expert;
// experts: over the ranks. Collective. On meta, where nobody knows, every rank counts as sending as
// many to the experts here as this one does. Law: an all-to-all of 8 B an expert.
RowsByRank exchange_counts(const std::vector<int64_t>& counts, const Partition& experts,
                           const comm::Group& group, at::Device device);

// Rows under way, with gradients, which go back where the rows came from. Work between the start
// and wait() runs meanwhile, and in backward the gradients of that work. Every rank must call, and
// differentiate, each exchange, also without rows.
class RowExchange {
 public:
  // x: [rows to send, width], in rank order. The group outlives the backward pass.
  RowExchange(const at::Tensor& x, RowCounts counts, const comm::Group& group);

  // Returns [rows received, width], in rank order. Called once.
  at::Tensor wait();

 private:
  struct State;
  c10::intrusive_ptr<torch::CustomClassHolder> state_;  // shared with the backward pass
  at::Tensor tie_;  // of the two ends; alone in the group, the rows themselves
};

}  // namespace colossal::parallel
