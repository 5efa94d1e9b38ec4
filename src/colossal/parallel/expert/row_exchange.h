// A differentiable all-to-all of rows: each rank of a group sends any number of rows to each other
// rank. Used to send tokens to experts on other ranks (D. Lepikhin et al. 2020, "GShard"). The
// ledger counts the bytes under Reason::expert.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <cstdint>
#include <vector>

#include "colossal/comm/group.h"
#include "colossal/layout/partition.h"

namespace colossal::parallel {

// Numbers of rows that this rank exchanges with each rank of a group. What rank a sends to rank b
// must equal what b receives from a.
struct RowCounts {
  std::vector<int64_t> send;     // [ranks]: number of rows sent to each rank
  std::vector<int64_t> receive;  // [ranks]: number of rows received from each rank
};

// Numbers of rows for experts, [rank][expert]. Each function says which ranks and experts.
using RowsByRank = std::vector<std::vector<int64_t>>;

// Returns [rank][expert on this rank]: the number of rows that each rank of the group has for each
// of this rank's experts. counts: this rank's number of rows for each expert of the layer. experts:
// how the experts are divided among the ranks of `group`. Collective. Law: an all-to-all of 8 bytes
// per expert. device: where the numbers are exchanged. On the meta device, where the numbers of
// other ranks are unknown, every rank is assumed to have this rank's numbers.
RowsByRank exchange_counts(const std::vector<int64_t>& counts, const Partition& experts,
                           const comm::Group& group, at::Device device);

// One exchange of rows. It starts in the constructor and ends in wait(); the caller computes
// something else between the two. Differentiable: the backward pass sends the gradients back to the
// ranks that sent the rows, while it computes the gradients of the operators between the two calls.
// All ranks of the group must make each exchange, even without rows, and its backward pass must run
// on all ranks or on none.
class RowExchange {
 public:
  // x: [rows to send, width], sorted by receiving rank. The group must outlive the backward pass.
  RowExchange(const at::Tensor& x, RowCounts counts, const comm::Group& group);

  // Returns the received rows, [rows, width], sorted by sending rank. Call it once.
  at::Tensor wait();

 private:
  struct State;
  c10::intrusive_ptr<torch::CustomClassHolder> state_;  // a State, shared with the backward pass
  // An empty tensor that connects constructor and wait() in the autograd graph. In a group of one
  // rank: x.
  at::Tensor tie_;
};

}  // namespace colossal::parallel
