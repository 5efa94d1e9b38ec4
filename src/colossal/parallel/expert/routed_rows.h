// Sends rows to the ranks of the experts that they are routed to, and sends the results back.
// Independent of how rows are routed and of what an expert computes.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "colossal/layout/partition.h"
#include "colossal/parallel/expert/row_exchange.h"

namespace colossal::parallel {

// The ranks that hold a layer's experts: the ranks of `experts` each hold a run of experts, of
// sizes as even as possible, and the ranks of `parts` each hold a part of every expert in the same
// run.
struct ExpertRanks {
  const comm::Group& experts;  // ParallelContext::expert_group()
  const comm::Group& parts;    // ParallelContext::expert_parts_group()

  Partition divide_experts(int64_t num_experts) const {
    return Partition(num_experts, experts.size());
  }
};

// Computes this rank's experts. rows: [rows, hidden], sorted by expert; counts: number of rows of
// each expert. Returns [rows, hidden]. If other ranks hold parts of the same experts, the result is
// this rank's term of a sum over these ranks, so only one of them may add what is not divided (a
// bias of the second linear layer). Even with no rows, it must run operators that autograd records:
// otherwise this rank's backward pass would not take part in the exchanges of the other ranks.
using ComputeExperts =
    std::function<at::Tensor(const at::Tensor& rows, const std::vector<int64_t>& counts)>;

// Returns the lists `mine` of all ranks of the group, rank after rank. All ranks must pass equally
// many lists of equal lengths. On device meta, every rank is assumed to have this rank's lists.
// Law: an all-gather of 8 bytes per number.
RowsByRank gather_counts(const RowsByRank& mine, const comm::Group& group, at::Device device);

// Computes experts of which each rank of `parts` holds a part: gathers the rows of all these ranks,
// computes them, and reduce-scatters the results. mine: [rows on this rank, hidden], in groups that
// are each sorted by expert; came: for every group, the number of rows of each expert: first the
// groups of rank 0 of `parts`, then those of rank 1 and so on, equally many per rank. Returns [rows
// on this rank, hidden], in the order of `mine`.
at::Tensor compute_over_parts(const at::Tensor& mine, const RowsByRank& came,
                              const comm::Group& parts, const ComputeExperts& compute);

// Rows on their way to experts on other ranks and back.
//
//   RoutedRows routed(rows, counts, ranks);           // starts sending rows to the experts
//   const at::Tensor shared = shared_expert(x);       // runs meanwhile
//   const at::Tensor y = routed.through(compute);     // [rows, hidden], in the order of `rows`
//
// All ranks of both groups make the same calls, even without rows. If both groups have one rank,
// the result is compute(rows, counts), and nothing is sent.
class RoutedRows {
 public:
  // rows: [rows, hidden], sorted by expert; counts: number of rows of each expert of the layer.
  RoutedRows(const at::Tensor& rows, const std::vector<int64_t>& counts, const ExpertRanks& ranks);
  // The same without an exchange of counts. received: [rank of ranks.experts][expert on this rank],
  // the number of rows that each of these ranks has for each of this rank's experts.
  RoutedRows(const at::Tensor& rows, const std::vector<int64_t>& counts, RowsByRank received,
             const ExpertRanks& ranks);

  // Computes the experts and returns the results, [rows, hidden], in the order of the constructor's
  // rows. Call either through() or start_through(), once.
  at::Tensor through(const ComputeExperts& compute) { return start_through(compute).wait(); }
  // Like through(), but returns while the results are still on their way back.
  RowExchange start_through(const ComputeExperts& compute);

 private:
  ExpertRanks ranks_;
  RowsByRank received_;  // [rank of ranks_.experts][expert on this rank]
  RowCounts counts_;
  RowExchange to_experts_;
};

}  // namespace colossal::parallel
