// Bounds of what a step costs with a layout, from the costs of single blocks (block_costs.h): a
// step takes hardly less time and memory. They take microseconds, and say of most layouts of a
// search that a dry run is not worth its time.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>

#include "colossal/plan/block_costs.h"
#include "colossal/plan/layout_space.h"

namespace colossal::plan {

struct LayoutBound {
  double seconds = 0;
  double bytes = 0;  // on the device, of the rank with most; 0: no bound
  // Whether the layout has a closer bound, which needs dry runs of its own: because it has a single
  // micro-batch a step, or splits backward passes.
  bool rough = false;
};

// May be used by several threads at once.
class LayoutBounds {
 public:
  // space, cluster, dry_run_job: must outlive this.
  LayoutBounds(const LayoutSpace& space, const ClusterSpecification& cluster,
               const std::function<Job(const Job&)>& dry_run_job);

  // Returns a bound of the seconds of all layouts of a division. job: of the division's layout.
  double of_division(const Layout& division, const Job& job);
  // Returns the bounds of a layout. job: of the division's layout (LayoutSpace::divisions()).
  // rough: whether a bound from the dry runs for other layouts will do.
  LayoutBound of(const Layout& layout, const Job& job, bool rough);

  int64_t recorded() const { return recorded_; }  // number of dry runs so far

 private:
  // What the costs of blocks depend on: the layout with other keys at fixed values; the sequences
  // of a micro-batch, and of the last; whether there are several micro-batches; whether backward
  // passes are split; whether the exchange of tokens with experts takes no time.
  using Key = std::tuple<Layout, int64_t, int64_t, bool, bool, bool>;
  // The stages of a pipeline, and what its ranks hold at once.
  struct Shape {
    std::vector<int64_t> first_blocks;  // by stage, and the number of blocks
    std::vector<int> rank_of_stage;
    std::vector<int> held;  // by rank: the most micro-batches, times stages, in flight
    bool split = false;     // whether backward passes are split
  };
  struct Sums;

  BlockCosts made_costs(const Key& key, const Job& job);
  const BlockCosts& costs(const Layout& layout, const Job& job, bool several, bool split,
                          bool free_experts);
  const BlockCosts& costs(const Key& key, const Job& job);
  const Shape& shape(const Layout& layout, const Job& job);
  std::vector<Sums> sums_of_ranks(const Layout& layout, const Job& job, const Shape& shape,
                                  const BlockCosts& costs) const;
  std::pair<std::vector<double>, std::vector<double>> ways(const Layout& layout, const Job& job,
                                                           const Shape& pipeline,
                                                           const BlockCosts& blocks,
                                                           const RankRates& rates) const;

  const LayoutSpace& space_;
  const ClusterSpecification& cluster_;
  const std::function<Job(const Job&)>& dry_run_job_;
  int64_t most_ep_ = 1;  // the largest ep of the space
  std::atomic<int64_t> recorded_ = 0;
  std::mutex mutex_;  // of the maps
  std::map<Key, std::shared_ptr<BlockCosts>> costs_;
  std::map<std::tuple<int64_t, std::string, int64_t, int64_t>, std::shared_ptr<Shape>> shapes_;
};

}  // namespace colossal::plan
