// Copies of hot experts: for one pass of a micro-batch the weights of the experts that most rows
// are routed to go to all ranks of `ep`, so that each computes its own rows for them (J. He et al.
// 2022, "FasterMoE"). No copy outlives the pass and its backward pass, whose gradients go to the
// rank that has the expert.
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
  int64_t most = 0;  // experts of a layer at a time
  int64_t rows = 1;  // that each copy must take from the rank that has most (docs/experts.md)
};

// rows: of each rank of `ep`, for each expert of the layer; experts: over those ranks. Returns the
// experts to copy, ascending: the fewest that take most rows, less rule.rows for each copy, from
// the rank that computes most. Every rank finds the same.
std::vector<int64_t> choose_copies(const RowsByRank& rows, const Partition& experts,
                                   const CopyRule& rule);

// Returns how many rows each rank routes to each expert, the ranks of ranks.parts one after the
// other, and of each those of ranks.experts. Law: an all-gather of 8 B an expert over `experts`,
// and one of what that makes over `parts`. On meta every rank counts as having this one's rows.
RowsByRank gather_rows_of_experts(const std::vector<int64_t>& counts, const ExpertRanks& ranks,
                                  at::Device device);

// The weights of some experts on their way to all ranks of `ep`, with gradients. All ranks make the
// same calls.
class ExpertCopies {
 public:
  // copied: ascending; experts: over the ranks of the group, which outlives the backward pass.
  ExpertCopies(const std::vector<int64_t>& copied, const Partition& experts,
               const comm::Group& group);

  // weight: [experts here, ..]. Starts sending those that are copied; returns the weight, for the
  // products with the experts here. Law: an all-gather of the copied experts' weights, and in the
  // backward pass a reduce-scatter of their gradients.
  at::Tensor send(const at::Tensor& weight);

  // Returns the copies of each weight that was sent, in that order: [copied experts, ..].
  std::vector<at::Tensor> wait();

 private:
  struct State;
  struct Sent {
    c10::intrusive_ptr<torch::CustomClassHolder> state;  // shared with the backward pass
    at::Tensor tie;                                      // of the two ends
  };

  std::vector<int64_t> here_;      // indices of the copied experts among those here
  std::vector<int64_t> per_rank_;  // how many of the copied each rank has
  const comm::Group& group_;
  std::vector<Sent> sent_;
};

}  // namespace colossal::parallel
