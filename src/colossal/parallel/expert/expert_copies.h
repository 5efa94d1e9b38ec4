// Copies the weights of the experts with the most rows to all ranks of the expert group, for one
// forward pass of a micro-batch and its backward pass (J. He et al. 2022, "FasterMoE"). A row is
// one token for one of its experts. Each rank then computes its own rows of the copied experts
// instead of sending them. In the backward pass, the gradients of the copies are summed on the rank
// that holds the expert. parallel.expert_copies turns this on; ShardedExperts uses it. In this
// header, the index of an expert is its place (nn::ExpertPlaces).
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <cstdint>
#include <vector>

#include "colossal/comm/group.h"
#include "colossal/layout/partition.h"
#include "colossal/parallel/expert/routed_rows.h"

namespace colossal::parallel {

// Decides how many experts are copied.
struct CopyRule {
  int64_t most = 0;  // maximum number of copied experts of a layer; 0: no copies
  // The cost of a copy, in rows: copies must reduce the largest number of rows that a rank computes
  // by more than this number per copy (docs/experts.md).
  int64_t rows = 1;
};

// Returns the indices of the experts that are worth copying, ascending; empty if there are none.
//   rows     [rank][expert]: the number of rows that each rank of the expert group routes to each
//            expert of the layer. If each expert is divided among several ranks
//            (ExpertRanks::parts), each of these computes its part of the expert for the rows of
//            all of them. Element [i][expert] is then the sum over those ranks of the grid
//            parts x experts whose index in ExpertRanks::experts is i
//   experts  how the experts are divided among the ranks of the expert group
// Experts are put in a sequence one by one, as if they were copied. The next expert is always one
// of the rank that computes the most rows with the copies so far: of its experts that are not yet
// in the sequence, the one with the most rows from other ranks. The result is the beginning of this
// sequence, with as many experts, at most rule.most, as give the largest gain. The gain of n copies
// is the decrease in the largest number of rows that a rank computes, minus n * rule.rows.
std::vector<int64_t> choose_copies(const RowsByRank& rows, const Partition& experts,
                                   const CopyRule& rule);

// Returns [rank][expert]: the number of rows that each rank of the grid ranks.parts x ranks.experts
// routes to each expert. The list of the rank with index p in ranks.parts and index e in
// ranks.experts is number p * ranks.experts.size() + e, from 0; the caller sums over p for
// choose_copies(). counts: this rank's number of rows for each expert. Collective. Law: an
// all-gather of 8 bytes per expert over ranks.experts, then an all-gather of the result over
// ranks.parts. device: where the numbers are exchanged. On the meta device, every rank is assumed
// to have this rank's counts.
RowsByRank gather_rows_of_experts(const std::vector<int64_t>& counts, const ExpertRanks& ranks,
                                  at::Device device);

// Sends the weights of some experts to all ranks of a group. Differentiable. All ranks of the group
// must make the same calls in the same order. Use: construct; send() each weight of the layer;
// compute the rows that arrive for this rank's experts that are not copied; wait(); compute this
// rank's rows of all copied experts, its own included, with the results of wait().
class ExpertCopies {
 public:
  // copied: indices of the copied experts, ascending. experts: how the experts are divided among
  // the ranks of `group`, which must outlive the backward pass.
  ExpertCopies(const std::vector<int64_t>& copied, const Partition& experts,
               const comm::Group& group);

  // Starts to send the slices of this rank's copied experts of `weight` [experts on this rank, ..].
  // Returns a view of `weight`, which this rank must use in place of `weight` to compute the
  // experts that are not copied. The gradient of `weight` is then complete: it includes the
  // gradients of this rank's copied experts, summed over the ranks of the group. Law: an all-gather
  // of the copied experts' weights, and in the backward pass a reduce-scatter of their gradients.
  at::Tensor send(const at::Tensor& weight);

  // Waits until the weights have arrived. Returns one tensor [copied experts, ..] for each send(),
  // in the order of the calls.
  std::vector<at::Tensor> wait();

 private:
  struct State;
  // One call of send().
  struct Sent {
    c10::intrusive_ptr<torch::CustomClassHolder> state;  // a State, shared with the backward pass
    at::Tensor tie;  // empty tensor that connects send() and wait() in the autograd graph
  };

  std::vector<int64_t> here_;      // indices, among this rank's experts, of the copied ones
  std::vector<int64_t> per_rank_;  // number of copied experts that each rank holds
  const comm::Group& group_;
  std::vector<Sent> sent_;
};

}  // namespace colossal::parallel
