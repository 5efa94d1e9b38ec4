#include "colossal/parallel/pipeline/stage_cut.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>

#include "colossal/base/error.h"

namespace colossal::parallel::pipeline {
namespace {

// Computes the cost of a stage with the blocks [begin, end).
class StageCost {
 public:
  StageCost(std::span<const double> blocks, double embedding, double head, int num_stages)
      : embedding_(embedding), head_(head), num_stages_(num_stages) {
    sums_.push_back(0);
    for (const double cost : blocks) sums_.push_back(sums_.back() + cost);
  }

  int num_blocks() const { return static_cast<int>(sums_.size()) - 1; }
  int num_stages() const { return num_stages_; }

  double operator()(int stage, int begin, int end) const {
    return sums_[end] - sums_[begin] + (stage == 0 ? embedding_ : 0) +
           (stage == num_stages_ - 1 ? head_ : 0);
  }

 private:
  double embedding_, head_;
  int num_stages_;
  std::vector<double> sums_;
};

struct Cut {
  double value = 0;
  std::vector<int> blocks_of_stage;
};

// Returns the cut with the smallest value, by dynamic programming. A stage has the value own(cost);
// joined() combines the value of the stages before with that of the next stage. Neither may
// decrease when a cost increases.
Cut best_cut(const StageCost& cost, const std::function<double(double)>& own,
             const std::function<double(double, double)>& joined) {
  constexpr double kNone = std::numeric_limits<double>::infinity();
  const int stages = cost.num_stages(), blocks = cost.num_blocks();
  // [stage][end]: smallest value of stages 0 to `stage` with the first `end` blocks, and where the
  // last of these stages begins.
  std::vector<std::vector<double>> value(stages, std::vector<double>(blocks + 1, kNone));
  std::vector<std::vector<int>> begin(stages, std::vector<int>(blocks + 1, 0));
  for (int stage = 0; stage < stages; ++stage) {
    for (int end = stage + 1; end <= blocks; ++end) {
      for (int from = stage; from < (stage == 0 ? 1 : end); ++from) {
        const double here = own(cost(stage, from, end));
        const double all = stage == 0 ? here : joined(value[stage - 1][from], here);
        if (all >= value[stage][end]) continue;
        value[stage][end] = all;
        begin[stage][end] = from;
      }
    }
  }
  Cut cut{value[stages - 1][blocks], std::vector<int>(stages)};
  for (int stage = stages, end = blocks; stage-- > 0;) {
    cut.blocks_of_stage[stage] = end - begin[stage][end];
    end = begin[stage][end];
  }
  return cut;
}

std::vector<int> even_cut(int num_blocks, int num_stages) {
  std::vector<int> blocks(num_stages, num_blocks / num_stages);
  for (int stage = 0; stage < num_blocks % num_stages; ++stage) ++blocks[stage];
  return blocks;
}

void refuse_more_stages_than_blocks(int num_blocks, int num_stages) {
  if (num_stages <= num_blocks) return;
  throw ConfigError(fmt::format(
      "a pipeline of {} stages (parallel.pp x parallel.pp_chunks) for a model of {} block{}: every "
      "stage needs a block; use at most {} stage{}",
      num_stages, num_blocks, num_blocks == 1 ? "" : "s", num_blocks, num_blocks == 1 ? "" : "s"));
}

}  // namespace

std::vector<int> cut_stages(std::span<const double> block_costs, double embedding_cost,
                            double head_cost, int num_stages) {
  COLOSSAL_CHECK(num_stages >= 1, "{} stages", num_stages);
  refuse_more_stages_than_blocks(static_cast<int>(block_costs.size()), num_stages);
  const StageCost cost(block_costs, embedding_cost, head_cost, num_stages);
  const auto largest = [](double a, double b) { return std::max(a, b); };
  const double bound = best_cut(
                           cost, [](double one) { return one; }, largest)
                           .value;
  // The sum of the costs is fixed, so the sum of squares is smallest for the most even cut.
  const auto square_within_bound = [bound](double one) {
    return one <= bound ? one * one : std::numeric_limits<double>::infinity();
  };
  return best_cut(cost, square_within_bound, std::plus<>()).blocks_of_stage;
}

void check_stage_cut(std::span<const int> blocks_of_stage, int num_blocks, int num_stages) {
  refuse_more_stages_than_blocks(num_blocks, num_stages);
  const auto refuse = [&](const std::string& reason) {
    throw ConfigError(
        fmt::format("parallel.pp_layers = [{}]: {}; use \"auto\", or for example [{}]",
                    fmt::join(blocks_of_stage, ", "), reason,
                    fmt::join(even_cut(num_blocks, num_stages), ", ")));
  };
  if (static_cast<int>(blocks_of_stage.size()) != num_stages) {
    refuse(fmt::format("{} entries for {} stages (parallel.pp x parallel.pp_chunks)",
                       blocks_of_stage.size(), num_stages));
  }
  for (size_t stage = 0; stage < blocks_of_stage.size(); ++stage) {
    if (blocks_of_stage[stage] >= 1) continue;
    refuse(fmt::format("stage {} has {} blocks, but needs at least one", stage,
                       blocks_of_stage[stage]));
  }
  const int64_t sum = std::accumulate(blocks_of_stage.begin(), blocks_of_stage.end(), int64_t{0});
  if (sum != num_blocks) {
    refuse(fmt::format("they sum to {} blocks, the model has {}", sum, num_blocks));
  }
}

}  // namespace colossal::parallel::pipeline
