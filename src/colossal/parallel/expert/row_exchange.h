// Rows that travel between the ranks of a group, from each to each as many as routing says: what
// experts on several ranks are made of (D. Lepikhin et al. 2020, GShard). Booked as Reason::expert.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <cstdint>
#include <vector>

#include "colossal/comm/group.h"
#include "colossal/layout/partition.h"

namespace colossal::parallel {

// By rank of a group. All ranks agree: what one sends to another is what that one receives.
struct RowCounts {
  std::vector<int64_t> send;
  std::vector<int64_t> receive;
};

// Rows of experts, rank by rank: [rank][expert here], in the order of the ranks and the experts.
using RowsByRank = std::vector<std::vector<int64_t>>;

// Returns how many rows of each rank are for the experts here. counts: rows here for each expert;
// experts: over the ranks. Collective. On meta nobody knows: every rank is taken to send to the
// experts here as many as this one does. Law: an all-to-all of 8 B an expert.
RowsByRank exchange_counts(const std::vector<int64_t>& counts, const Partition& experts,
                           const comm::Group& group, at::Device device);

// Rows under way, with gradients: these go back where the rows came from. Forward, what is computed
// between start and wait() runs meanwhile; backward the gradients of that same work do. Every rank
// calls, and differentiates, each exchange, rows or not: none is ever left out.
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
