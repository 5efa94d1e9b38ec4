// Sends rows to the ranks that hold their experts, computes the experts there, and sends the
// results back. A row is the hidden state of one token for one of its experts. The code does not
// depend on how tokens are routed or on what an expert computes.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "colossal/layout/partition.h"
#include "colossal/parallel/expert/row_exchange.h"

namespace colossal::parallel {

// The ranks that hold the experts of a layer. nn::ExpertPlaces lists the experts in some order.
// This list is divided among the ranks of `experts` as evenly as possible, so that each rank holds
// consecutive experts. The inner features of each expert are divided among the ranks of `parts`. In
// this header, row_exchange.h and expert_copies.h, the index of an expert is its place in the list,
// not its number in the model.
struct ExpertRanks {
  const comm::Group& experts;  // ParallelContext::expert_group()
  const comm::Group& parts;    // ParallelContext::expert_parts_group()

  Partition divide_experts(int64_t num_experts) const {
    return Partition(num_experts, experts.size());
  }
};

// Computes experts on this rank. rows: [rows, hidden], sorted by expert; counts: number of rows of
// each expert on this rank. Returns [rows, hidden], in the order of `rows`. If several ranks hold
// parts of each expert, the caller sums their results, so each rank must add only its share of the
// bias of the last linear layer: the shares sum to one bias. The function must run operators that
// autograd records even if there are no rows. Otherwise this rank's backward pass would not take
// part in the communication, and the other ranks would wait for it.
using ComputeExperts =
    std::function<at::Tensor(const at::Tensor& rows, const std::vector<int64_t>& counts)>;

// Concatenates the lists `mine` of all ranks of the group, in rank order. All ranks must pass the
// same number of lists, of the same lengths. Collective. Law: an all-gather of 8 bytes per number.
// device: where the numbers are exchanged. On the meta device, every rank is assumed to have this
// rank's lists.
RowsByRank gather_counts(const RowsByRank& mine, const comm::Group& group, at::Device device);

// Computes experts whose inner features are divided among the ranks of `parts`. Gathers the rows of
// all these ranks, sorts them by expert, calls compute() once, and reduce-scatters the results.
//   mine  this rank's rows, [rows on this rank, hidden]: blocks of rows, one after the other, such
//         as one block from each rank that sent rows. Each block is sorted by expert
//   came  [block][expert]: the number of rows of each expert in each block, for the blocks of all
//         ranks of `parts` in rank order; all ranks have the same number of blocks
// Returns the results for `mine`, [rows on this rank, hidden], in the order of `mine`. Collective.
at::Tensor compute_over_parts(const at::Tensor& mine, const RowsByRank& came,
                              const comm::Group& parts, const ComputeExperts& compute);

// Sends rows to the ranks of their experts and brings back the results.
//
//   RoutedRows routed(rows, counts, ranks);           // starts to send rows to the experts
//   const at::Tensor shared = shared_expert(x);       // runs while rows are sent
//   const at::Tensor y = routed.through(compute);     // [rows, hidden], in the order of `rows`
//
// All ranks of both groups of ExpertRanks must make the same calls, even without rows. The groups
// must outlive the backward pass. If both groups have only one rank, the result is compute(rows,
// counts), and nothing is sent.
class RoutedRows {
 public:
  // Starts to send the rows. rows: [rows, hidden], sorted by expert; counts: number of rows of each
  // expert of the layer.
  RoutedRows(const at::Tensor& rows, const std::vector<int64_t>& counts, const ExpertRanks& ranks);
  // Like the constructor above, but without exchange_counts(), by which that constructor learns how
  // many rows this rank receives. The caller knows these numbers. received: [rank of
  // ranks.experts][expert on this rank], the number of rows that each of these ranks has for each
  // of this rank's experts.
  RoutedRows(const at::Tensor& rows, const std::vector<int64_t>& counts, RowsByRank received,
             const ExpertRanks& ranks);

  // Computes this rank's experts for the rows that it has received. Returns the results for the
  // rows that this rank passed to the constructor, [rows, hidden], in their order. Call either
  // through() or start_through(), and only once.
  at::Tensor through(const ComputeExperts& compute) { return start_through(compute).wait(); }
  // Like through(), but does not wait until the results are back; RowExchange::wait() of the
  // returned object does and returns them.
  RowExchange start_through(const ComputeExperts& compute);

 private:
  ExpertRanks ranks_;
  RowsByRank received_;  // see the second constructor
  RowCounts counts_;
  RowExchange to_experts_;
};

}  // namespace colossal::parallel
