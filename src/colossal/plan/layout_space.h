// The layouts that a search for the fastest layout looks at (strategy_search.h).
#pragma once

#include <compare>
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "colossal/job/job.h"
#include "colossal/plan/cluster_specification.h"

namespace colossal::plan {

// The values of the keys that the search sets. Those of keys that the user has set have no meaning.
struct Layout {
  int64_t pp = 1, dp = 1, sp = 1, tp = 1, ep = 1;
  std::string tp_mode = "1d";
  int64_t tp_depth = 1;  // of 2.5d
  bool tp_sequence = true;
  std::string sp_mode = "ring";
  int64_t zero = 0;
  std::string pp_schedule = "1f1b";
  int64_t pp_chunks = 0;  // 0: the default of the schedule
  int64_t micro_batch = 0;
  std::string recompute = "none";

  auto operator<=>(const Layout&) const = default;
};

// All layouts of a job on machine.ranks ranks, within these limits. Keys that the user has set keep
// their values.
//
//   parallel.pp, dp, sp, tp, ep  all sizes that divide the ranks. tp only within hosts; and, if
//                                there are sequences for all ranks, sp only with at least
//                                kTokensOfRank tokens of a sequence on a rank. If no division is
//                                left, these two limits do not apply
//   parallel.tp_mode, tp_depth   all that fit tp
//   parallel.tp_sequence         true and false, of 1d
//   parallel.sp_mode             both
//   parallel.zero                0 to 3
//   parallel.pp_schedule         all but gpipe, which takes as long as 1f1b and more memory
//   parallel.pp_chunks           of interleaved: 2, 3, 4, 6, 8
//   train.micro_batch            the divisors of a replica's share of the batch
//   memory.recompute             none, selective, full
class LayoutSpace {
 public:
  static constexpr int64_t kTokensOfRank = 1024;

  // machine, cluster: must outlive this.
  LayoutSpace(RunConfig config, std::set<std::string> keys, const Machine& machine,
              const ClusterSpecification& cluster);

  // Returns the divisions of the ranks into axes, with their modes. Other keys have the values of
  // with_defaults().
  const std::vector<Layout>& divisions() const { return divisions_; }
  // Return the values of the other keys, for a division.
  std::vector<int64_t> micro_batches(const Layout& division) const;
  std::vector<std::string> recomputations() const;
  std::vector<int64_t> zero_stages(const Layout& division) const;
  // Schedules, each with its number of stages of a rank (0: the schedule's own).
  std::vector<std::pair<std::string, int64_t>> schedules(const Layout& division) const;
  // Returns all layouts with the division and the recomputation of `some`.
  std::vector<Layout> layouts_of(const Layout& some) const;
  // Returns the entry of divisions() to which a layout belongs.
  Layout division_of(Layout layout) const;

  // The keys that a layout sets, and their values as in flags: {"parallel.pp", "4"}. Together with
  // the user's keys they give config().
  using Settings = std::vector<std::pair<std::string, std::string>>;
  Settings settings(const Layout& layout) const;
  RunConfig config(const Layout& layout) const;
  // Returns the job of a layout. Throws ConfigError if the layout does not work.
  Job job(const Layout& layout) const;

  // Sequences of a replica in a step.
  int64_t share(const Layout& layout) const;
  const RunConfig& given() const { return config_; }
  const Machine& machine() const { return machine_; }
  const std::set<std::string>& keys() const { return keys_; }

 private:
  bool is_free(const std::string& key) const { return !keys_.contains(key); }
  std::vector<int64_t> sizes(const std::string& key, int64_t given, int64_t of) const;
  std::vector<Layout> all_divisions() const;
  std::vector<int64_t> expert_sizes(int64_t ranks) const;
  void add_modes(Layout layout, std::vector<Layout>& layouts) const;
  Layout with_defaults(Layout layout) const;
  template <class Set>
  void visit_settings(const Layout& layout, ParallelConfig& parallel, RunConfig& config,
                      const Set& set) const;

  RunConfig config_;
  std::set<std::string> keys_;
  const Machine& machine_;
  const ClusterSpecification& cluster_;
  int64_t experts_ = 0;  // of the model
  std::vector<Layout> divisions_;
};

}  // namespace colossal::plan
