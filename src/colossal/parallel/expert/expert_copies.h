// Copies of hot experts (J. He et al. 2022, "FasterMoE"): for one forward pass of a micro-batch and
// its backward pass, the weights of the experts with the most rows are sent to all ranks of `ep`.
// Each rank then computes its own rows of these experts instead of sending them. In backward, the
// copies' gradients are sent to the rank that holds the expert.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <cstdint>
#include <vector>

#include "colossal/comm/group.h"
#include "colossal/layout/partition.h"
#include "colossal/parallel/expert/routed_rows.h"

namespace colossal::parallel {

// Which experts are worth a copy.
struct CopyRule {
  int64_t most = 0;  // largest number of copied experts per layer; 0: no copies
  int64_t rows = 1;  // by which each copy must relieve the busiest rank (docs/experts.md)
};

// rows: for each rank of `ep`, its number of rows for each expert of the layer; experts: how
// experts are divided among these ranks. Adds copies greedily, each time of the expert for which
// the busiest rank computes most rows of other ranks. The gain of a number of copies is the
// decrease in the largest number of rows that a rank computes, minus rule.rows per copy. Returns
// the experts copied where the gain is greatest, ascending; empty if there is no gain.
std::vector<int64_t> choose_copies(const RowsByRank& rows, const Partition& experts,
                                   const CopyRule& rule);

// Returns how many rows each rank routes to each expert: [rank][expert], where the rank with
// position p in ranks.parts and e in ranks.experts has index p * experts.size() + e. counts: this
// rank's rows. Law: an all-gather of 8 bytes per expert over ranks.experts, then an all-gather of
// the result over ranks.parts. On device meta, every rank is assumed to have this rank's counts.
RowsByRank gather_rows_of_experts(const std::vector<int64_t>& counts, const ExpertRanks& ranks,
                                  at::Device device);

// The weights of some experts on their way to all ranks of `ep`; differentiable. All ranks of `ep`
// make the same calls in the same order.
class ExpertCopies {
 public:
  // copied: indices of the copied experts, ascending; experts: how experts are divided among the
  // ranks of `group`, which must outlive the backward pass.
  ExpertCopies(const std::vector<int64_t>& copied, const Partition& experts,
               const comm::Group& group);

  // weight: [experts on this rank, ..]. Starts to send the weights of this rank's copied experts.
  // Returns a view of `weight` that the computation on this rank must use instead of `weight`: its
  // gradient then includes that of the copies. Law: an all-gather of the copied experts' weights,
  // and in the backward pass a reduce-scatter of their gradients.
  at::Tensor send(const at::Tensor& weight);

  // Waits, and returns one tensor [copied experts, ..] for each send(), in the order of the calls.
  std::vector<at::Tensor> wait();

 private:
  struct State;
  struct Sent {
    c10::intrusive_ptr<torch::CustomClassHolder> state;  // shared with the backward pass
    at::Tensor tie;  // links send() and wait() in autograd's graph
  };

  std::vector<int64_t> here_;      // this rank's copied experts, counted on this rank
  std::vector<int64_t> per_rank_;  // how many copied experts each rank holds
  const comm::Group& group_;
  std::vector<Sent> sent_;
};

}  // namespace colossal::parallel
