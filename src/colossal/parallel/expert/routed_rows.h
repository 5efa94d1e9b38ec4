// Experts that are divided among ranks: rows travel to the experts that they are routed to, and the
// results travel back. This file knows nothing of routing, nor of what an expert computes.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "colossal/layout/partition.h"
#include "colossal/parallel/expert/row_exchange.h"

namespace colossal::parallel {

// The ranks that hold a layer's experts: `experts` divides them into runs of whole experts, as even
// as they go, and `parts` divides each expert.
struct ExpertRanks {
  const comm::Group& experts;  // ParallelContext::expert_group()
  const comm::Group& parts;    // ParallelContext::expert_parts_group()

  Partition share_out(int64_t num_experts) const { return Partition(num_experts, experts.size()); }
};

// Computes the experts here. rows: [rows, hidden], those of the first expert first; counts: how
// many each has. Returns [rows, hidden]; where other ranks have parts of the same experts, a term
// of the sum over these: what is not cut (a bias of the second product) only one of them may add.
// Zero rows too must pass through operators that autograd sees: the backward pass of this rank then
// sends its gradients, none, when the others send theirs.
using ComputeExperts =
    std::function<at::Tensor(const at::Tensor& rows, const std::vector<int64_t>& counts)>;

// Returns the lists of all ranks of the group, one rank's after the other. All ranks have equally
// many, of equal lengths; on meta every rank counts as having this one's. Law: an all-gather of 8 B
// for each number.
RowsByRank gather_counts(const RowsByRank& mine, const comm::Group& group, at::Device device);

// Computes experts of which each rank of `parts` has a part. mine: [rows here, hidden]; came: how
// many rows of each expert came together, for each rank of `parts` one after the other, equally
// many lists each. Returns [rows here, hidden], in the order of `mine`.
at::Tensor compute_over_parts(const at::Tensor& mine, const RowsByRank& came,
                              const comm::Group& parts, const ComputeExperts& compute);

// Rows on their way through experts on other ranks.
//
//   RoutedRows routed(rows, counts, ranks);           // under way to the experts
//   const at::Tensor shared = shared_expert(x);       // meanwhile
//   const at::Tensor y = routed.through(compute);     // [rows, hidden], in the order of `rows`
//
// All ranks of both groups make the same calls, whatever rows they have. With one rank in each it
// is compute(rows, counts), and nothing is sent.
class RoutedRows {
 public:
  // rows: [rows, hidden], those of the first expert first; counts: of each expert of the layer.
  RoutedRows(const at::Tensor& rows, const std::vector<int64_t>& counts, const ExpertRanks& ranks);
  // The same where it is known how many rows each rank of `experts` has for the experts here.
  RoutedRows(const at::Tensor& rows, const std::vector<int64_t>& counts, RowsByRank received,
             const ExpertRanks& ranks);

  // Called once.
  at::Tensor through(const ComputeExperts& compute) { return start_through(compute).wait(); }
  // The same, with the results still on their way back.
  RowExchange start_through(const ComputeExperts& compute);

 private:
  ExpertRanks ranks_;
  RowsByRank received_;  // of the ranks of `experts`
  RowCounts counts_;
  RowExchange to_experts_;
};

}  // namespace colossal::parallel
