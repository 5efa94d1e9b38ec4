#include "colossal/parallel/expert/routed_rows.h"

#include <ATen/ATen.h>

#include <numeric>
#include <utility>

#include "colossal/comm/law.h"
#include "colossal/ops/expert_order.h"
#include "colossal/ops/upload.h"
#include "colossal/parallel/collectives.h"

namespace colossal::parallel {
namespace {

RowCounts counts_of(const std::vector<int64_t>& counts, const Partition& experts,
                    const RowsByRank& received) {
  RowCounts rows;
  for (int rank = 0; rank < experts.parts(); ++rank) {
    const Range run = experts.range(rank);
    rows.send.push_back(
        std::accumulate(counts.begin() + run.begin, counts.begin() + run.end, int64_t{0}));
    rows.receive.push_back(comm::total(received[rank]));
  }
  return rows;
}

std::vector<int64_t> sum_over_ranks(const RowsByRank& rows, int64_t num_experts) {
  std::vector<int64_t> counts(num_experts, 0);
  for (const std::vector<int64_t>& of_rank : rows) {
    for (int64_t expert = 0; expert < num_experts; ++expert) counts[expert] += of_rank[expert];
  }
  return counts;
}

// Sorts rows by expert that arrive sorted by rank. Within an expert the rows keep the order of the
// ranks, so sums over the rows do not depend on timing.
class OrderOfExperts {
 public:
  OrderOfExperts(const RowsByRank& rows, int64_t num_experts, at::Device device) {
    if (rows.size() == 1 || num_experts <= 1) return;  // already sorted
    std::vector<int64_t> begins;                       // for each rank, its next row
    int64_t total = 0;
    for (const std::vector<int64_t>& of_rank : rows) {
      begins.push_back(total);
      total += comm::total(of_rank);
    }
    if (device.is_meta()) {
      order_ = at::empty({total}, at::TensorOptions(at::kLong).device(device));
      inverse_ = at::empty_like(order_);
      return;
    }
    std::vector<int64_t> order;
    for (int64_t expert = 0; expert < num_experts; ++expert) {
      for (size_t rank = 0; rank < rows.size(); ++rank) {
        for (int64_t row = 0; row < rows[rank][expert]; ++row) order.push_back(begins[rank]++);
      }
    }
    std::vector<int64_t> inverse(order.size());
    for (size_t place = 0; place < order.size(); ++place) {
      inverse[order[place]] = static_cast<int64_t>(place);
    }
    order_ = ops::upload(at::tensor(order, at::kLong), device);
    inverse_ = ops::upload(at::tensor(inverse, at::kLong), device);
  }

  at::Tensor by_expert(const at::Tensor& rows) const {
    return order_.defined() ? ops::permuted_rows(rows, order_, inverse_) : rows;
  }
  at::Tensor by_rank(const at::Tensor& rows) const {
    return order_.defined() ? ops::permuted_rows(rows, inverse_, order_) : rows;
  }

 private:
  at::Tensor order_, inverse_;
};

// Computes this rank's experts on rows that arrived from the ranks. Returns the results in the
// order of arrival.
at::Tensor compute_here(const at::Tensor& rows, const RowsByRank& came, int64_t num_experts,
                        const ComputeExperts& compute) {
  const OrderOfExperts order(came, num_experts, rows.device());
  return order.by_rank(compute(order.by_expert(rows), sum_over_ranks(came, num_experts)));
}

}  // namespace

RowsByRank gather_counts(const RowsByRank& mine, const comm::Group& group, at::Device device) {
  if (group.size() == 1) return mine;
  std::vector<int64_t> flat;
  for (const std::vector<int64_t>& of_rank : mine) {
    flat.insert(flat.end(), of_rank.begin(), of_rank.end());
  }
  const auto size = std::ssize(flat);
  at::Tensor all = at::empty({group.size(), size}, at::TensorOptions(at::kLong).device(device));
  all.select(0, group.rank()).copy_(ops::upload(at::tensor(flat, at::kLong), device));
  comm::all_gather(all.view(-1), std::vector<int64_t>(group.size(), size), group,
                   comm::Reason::expert);
  RowsByRank gathered;
  if (device.is_meta()) {
    for (int rank = 0; rank < group.size(); ++rank) {
      gathered.insert(gathered.end(), mine.begin(), mine.end());
    }
    return gathered;
  }
  all = comm::on_host(all, group);
  const int64_t* next = all.const_data_ptr<int64_t>();
  for (int rank = 0; rank < group.size(); ++rank) {
    for (const std::vector<int64_t>& of_rank : mine) {
      gathered.emplace_back(next, next + of_rank.size());
      next += of_rank.size();
    }
  }
  return gathered;
}

at::Tensor compute_over_parts(const at::Tensor& mine, const RowsByRank& came,
                              const comm::Group& parts, const ComputeExperts& compute) {
  const auto num_experts = std::ssize(came[0]);
  if (parts.size() == 1) return compute_here(mine, came, num_experts, compute);
  const size_t lists = came.size() / parts.size();
  Shares shares{&parts, std::vector<int64_t>(parts.size(), 0)};
  for (size_t i = 0; i < came.size(); ++i) shares.sizes[i / lists] += comm::total(came[i]);
  return reduce_scatter_rows(compute_here(gather_rows(mine, shares), came, num_experts, compute),
                             shares);
}

RoutedRows::RoutedRows(const at::Tensor& rows, const std::vector<int64_t>& counts,
                       const ExpertRanks& ranks)
    : RoutedRows(rows, counts,
                 exchange_counts(counts, ranks.divide_experts(std::ssize(counts)), ranks.experts,
                                 rows.device()),
                 ranks) {}

RoutedRows::RoutedRows(const at::Tensor& rows, const std::vector<int64_t>& counts,
                       RowsByRank received, const ExpertRanks& ranks)
    : ranks_(ranks),
      received_(std::move(received)),
      counts_(counts_of(counts, ranks.divide_experts(std::ssize(counts)), received_)),
      to_experts_(rows, counts_, ranks.experts) {}

RowExchange RoutedRows::start_through(const ComputeExperts& compute) {
  const at::Tensor mine = to_experts_.wait();
  const RowsByRank came = gather_counts(received_, ranks_.parts, mine.device());
  return RowExchange(compute_over_parts(mine, came, ranks_.parts, compute),
                     {counts_.receive, counts_.send}, ranks_.experts);
}

}  // namespace colossal::parallel
