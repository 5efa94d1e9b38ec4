#include "colossal/plan/strategy_search.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <exception>
#include <map>
#include <mutex>
#include <optional>
#include <thread>

#include "colossal/base/error.h"
#include "colossal/base/machine.h"
#include "colossal/base/units.h"
#include "colossal/memory/memory_ledger.h"
#include "colossal/plan/estimated_rank.h"
#include "colossal/plan/fit_memory.h"
#include "colossal/plan/layout_bound.h"
#include "colossal/plan/layout_space.h"
#include "colossal/plan/place_tiers.h"
#include "colossal/plan/plan.h"

namespace colossal::plan {
namespace {

// Number of entries of the queue that are worked on at once: a constant, so that the result does
// not depend on the number of cores.
constexpr size_t kAtOnce = 4;
// Bounds and estimates of memory are this exact; beyond it a layout is taken for too large.
constexpr double kMemoryError = 0.03;

enum class Stage : uint8_t { exact, estimate, layout, rough_layout, recomputation, division };

// A layout, or all layouts of a division, in the order in which the search looks at them.
struct Entry {
  double seconds = 0;  // bound, estimate or prediction
  Stage stage = Stage::division;
  Layout layout;

  auto operator<=>(const Entry&) const = default;
};

struct Estimate {
  StrategyChoice choice;
  int64_t overrun = 0;  // bytes by which it exceeds the budgets
  int fullest = 0;      // the recorded rank with the largest peak
};

// Returns the ranks that are recorded for an estimate: the first of each of up to three coordinates
// along pp: the first, the last, and the one with most blocks between them.
std::vector<int> ranks_of(const Job& job) {
  const Strategy& strategy = job.strategy;
  std::vector<int64_t> blocks(strategy.pp);
  for (int stage = 0; stage < strategy.num_stages(); ++stage) {
    blocks[strategy.stage_rank(stage)] +=
        strategy.blocks_of_stage(stage, job.model.facts.layers).size();
  }
  std::set<int> places{0, strategy.pp - 1};
  if (strategy.pp > 2) {
    places.insert(
        static_cast<int>(std::max_element(blocks.begin() + 1, blocks.end() - 1) - blocks.begin()));
  }
  const int apart = strategy.world_size() / strategy.pp;
  std::vector<int> ranks;
  for (const int place : places) ranks.push_back(place * apart);
  return ranks;
}

class LayoutSearch {
 public:
  LayoutSearch(const RunConfig& config, const std::set<std::string>& keys, const Machine& machine,
               const ClusterSpecification& cluster,
               const std::function<Job(const Job&)>& dry_run_job, const SearchProgress& progress)
      : space_(config, keys, machine, cluster),
        cluster_(cluster),
        dry_run_job_(dry_run_job),
        bounds_(space_, cluster, dry_run_job),
        progress_(progress) {}

  StrategySearch run() {
    const auto start = std::chrono::steady_clock::now();
    begin();
    while (!queue_.empty() && queue_.begin()->stage != Stage::exact) {
      if (queue_.begin()->stage == Stage::estimate) {
        check(take());
        continue;
      }
      std::vector<Entry> entries;
      while (entries.size() < kAtOnce && !queue_.empty() &&
             queue_.begin()->stage > Stage::estimate) {
        entries.push_back(take());
      }
      in_parallel(entries, [&](const Entry& entry) { refine(entry); });
    }
    if (queue_.empty()) throw ConfigError(too_large());
    result_.choices.push_back(std::move(estimates_.at(queue_.begin()->layout).choice));
    estimates_.erase(queue_.begin()->layout);
    add_others();
    result_.estimated = estimated_;
    result_.dry_runs = bounds_.recorded();
    result_.too_large = too_large_;
    result_.seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return std::move(result_);
  }

 private:
  Entry take() { return queue_.extract(queue_.begin()).value(); }

  void push(Entry entry) {
    const std::lock_guard lock(mutex_);
    queue_.insert(std::move(entry));
  }

  void tell(int64_t more) {
    const std::lock_guard lock(mutex_);
    done_ += more;
    if (progress_) progress_(done_);
  }

  // Enters all divisions of the ranks that work.
  void begin() {
    const std::vector<Layout>& divisions = space_.divisions();
    std::map<Layout, std::string> reasons;
    in_parallel(divisions, [&](const Layout& division) {
      try {
        Job job = space_.job(division);
        const double seconds = bounds_.of_division(division, job);
        const std::lock_guard lock(mutex_);
        jobs_.emplace(division, std::move(job));
        queue_.insert({seconds, Stage::division, division});
      } catch (const ConfigError& error) {
        const std::lock_guard lock(mutex_);
        reasons.emplace(division, error.what());
      }
      tell(1);
    });
    result_.impossible = std::ssize(reasons);
    if (!queue_.empty()) return;
    if (divisions.empty()) {  // says which sizes do not divide
      resolve_job(space_.given(), space_.machine(), space_.keys());
    }
    throw ConfigError(fmt::format(
        "parallel.strategy = \"auto\": none of {} layouts of {} ranks works with the other "
        "settings; the first is refused because {}",
        divisions.size(), space_.machine().ranks, reasons.begin()->second));
  }

  // Replaces an entry by those that follow from it.
  void refine(const Entry& entry) {
    if (entry.stage == Stage::layout) return estimate(entry.layout);
    if (entry.stage == Stage::rough_layout) {
      const Job& job = jobs_.at(space_.division_of(entry.layout));
      const LayoutBound bound = bounds_.of(entry.layout, job, /*rough=*/false);
      push({std::max(entry.seconds, bound.seconds), Stage::layout, entry.layout});
      return;
    }
    if (entry.stage == Stage::recomputation) {
      bound(entry.layout);
      return;
    }
    Layout layout = entry.layout;
    const std::vector<std::string> recomputations = space_.recomputations();
    layout.recompute = recomputations.front();
    const double least = std::max(bound(layout), entry.seconds);
    for (size_t i = 1; i < recomputations.size(); ++i) {
      layout.recompute = recomputations[i];
      push({least, Stage::recomputation, layout});
    }
  }

  // Enters the layouts of a division with this recomputation, as far as they may fit the memory.
  // Returns the least bound of all of them.
  double bound(const Layout& some) {
    const Job& job = jobs_.at(space_.division_of(some));
    const auto limit = static_cast<double>(stricter_limit(job.device_budget, job.memory_budget));
    double least = INFINITY;
    int64_t number = 0, too_large = 0;
    std::optional<std::pair<double, Layout>> nearest;
    for (const Layout& layout : space_.layouts_of(some)) {
      LayoutBound bound;
      try {
        bound = bounds_.of(layout, job, /*rough=*/true);
      } catch (const ConfigError&) {
        continue;  // such as more stages than layers
      }
      ++number;
      least = std::min(least, bound.seconds);
      if (limit == 0 || bound.bytes * (1 - kMemoryError) <= limit) {
        push({bound.seconds, bound.rough ? Stage::rough_layout : Stage::layout, layout});
        continue;
      }
      ++too_large;
      const std::pair here(bound.bytes - limit, layout);
      if (!nearest || here < *nearest) nearest = here;
    }
    const std::lock_guard lock(mutex_);
    result_.layouts += number;
    too_large_ += too_large;
    if (nearest && (!nearest_ || *nearest < *nearest_)) nearest_ = nearest;
    done_ += number;
    if (progress_) progress_(done_);
    return least;
  }

  void estimate(const Layout& layout) {
    std::optional<Estimate> made;
    try {
      made = estimated(layout);
    } catch (const ConfigError&) {
      return;
    }
    const auto peak = static_cast<double>(made->choice.peak_bytes);
    const bool may_fit = static_cast<double>(made->overrun) <= kMemoryError * peak;
    const double seconds = made->choice.time.seconds;
    const std::lock_guard lock(mutex_);
    ++estimated_;
    if (may_fit) {
      queue_.insert({seconds, Stage::estimate, layout});
      estimates_.emplace(layout, *std::move(made));
    } else {
      reject(layout, made->overrun);
    }
  }

  // Counts a layout that does not fit.
  void reject(const Layout& layout, int64_t overrun) {
    ++too_large_;
    const std::pair here(static_cast<double>(overrun), layout);
    if (!nearest_ || here < *nearest_) nearest_ = here;
  }

  Estimate estimated(const Layout& layout) const {
    Estimate made;
    StrategyChoice& choice = made.choice;
    choice.settings = space_.settings(layout);
    choice.config = space_.config(layout);
    choice.job = space_.job(layout);
    const Job dry = dry_run_job_(choice.job);
    at::set_num_threads(dry.threads);
    predict(dry, made);
    if (made.overrun > 0 && (dry.recompute_undecided || !dry.undecided_tiers.empty())) {
      try {
        predict(fit_memory(dry), made);
      } catch (const ConfigError&) {
        // It does not fit with any recomputation or offloading either.
      }
    }
    return made;
  }

  // Sets the costs of an estimate to those of the job's step.
  void predict(const Job& job, Estimate& made) const {
    set_costs(job, estimated_ranks(job, ranks_of(job), cluster_), made);
  }

  void set_costs(const Job& job, const std::vector<RankPlan>& plans, Estimate& made) const {
    StrategyChoice& choice = made.choice;
    choice.peak_bytes = choice.sent_bytes = made.overrun = 0;
    std::vector<RankSeconds> seconds;
    for (const RankPlan& plan : plans) {
      seconds.push_back(*plan.seconds);
      if (plan.memory_peak_bytes() > choice.peak_bytes) {
        choice.peak_bytes = plan.memory_peak_bytes();
        made.fullest = plan.rank;
      }
      choice.sent_bytes = std::max(choice.sent_bytes, plan.bytes_sent());
      made.overrun = std::max(made.overrun, overrun_of(job, plan).sum());
    }
    choice.time = step_time(seconds, job, cluster_);
  }

  // Replaces an estimate by the exact prediction, or rejects its layout if it does not fit.
  void check(const Entry& entry) {
    Estimate made = std::move(estimates_.at(entry.layout));
    estimates_.erase(entry.layout);
    Job job = dry_run_job_(made.choice.job);
    try {
      if (job.recompute_undecided || !job.undecided_tiers.empty()) job = fit_memory(job);
    } catch (const ConfigError&) {
      return reject(entry.layout, made.overrun);
    }
    std::vector<int> ranks = ranks_with_peaks(job);
    std::erase(ranks, made.fullest);
    std::vector<RankPlan> plans = record_ranks(job, {made.fullest}, &cluster_);
    if (fits_budgets(job, plans.front())) {
      std::ranges::move(record_ranks(job, ranks, &cluster_), std::back_inserter(plans));
    }
    if (plans.size() <= ranks.size()) {
      return reject(entry.layout, overrun_of(job, plans.front()).sum());
    }
    set_costs(job, plans, made);
    if (made.overrun > 0) return reject(entry.layout, made.overrun);
    queue_.insert({made.choice.time.seconds, Stage::exact, entry.layout});
    estimates_.emplace(entry.layout, std::move(made));
  }

  // Adds the best of the layouts that were estimated besides.
  void add_others() {
    std::vector<Estimate*> others;
    for (auto& [layout, made] : estimates_) {
      if (made.overrun == 0) others.push_back(&made);
    }
    std::ranges::stable_sort(others, {},
                             [](const Estimate* made) { return made->choice.time.seconds; });
    for (Estimate* made : others) {
      if (result_.choices.size() == kMostChoices) return;
      if (made->choice.time.seconds < result_.choices.front().time.seconds) continue;
      result_.choices.push_back(std::move(made->choice));
    }
  }

  // Works on all entries on several threads.
  template <class Values, class Work>
  void in_parallel(const Values& values, const Work& work) {
    std::atomic<size_t> next = 0;
    std::exception_ptr failure;
    std::mutex of_failure;
    const auto run = [&] {
      try {
        for (size_t i = next++; i < values.size(); i = next++) work(values[i]);
      } catch (...) {
        const std::lock_guard lock(of_failure);
        failure = std::current_exception();
      }
    };
    {
      std::vector<std::jthread> threads;
      const auto wanted = std::min<size_t>(values.size(), machine::available_cores());
      for (size_t i = 0; i < wanted; ++i) threads.emplace_back(run);
    }
    if (failure) std::rethrow_exception(failure);
  }

  std::string too_large() {
    std::string text = fmt::format(
        "parallel.strategy = \"auto\": none of {} layouts of {} ranks fits the memory budgets",
        result_.layouts, space_.machine().ranks);
    if (nearest_) {
      std::string settings;
      for (const auto& [key, value] : space_.settings(nearest_->second)) {
        settings += fmt::format("{}{} = {}", settings.empty() ? "" : ", ", key, value);
      }
      text += fmt::format("; the nearest exceeds them by {}: {}",
                          format_bytes(static_cast<int64_t>(nearest_->first)), settings);
    }
    return text +
           ". Use more ranks, larger budgets (memory.device_budget), or memory.offload_* = "
           "\"auto\" with a layout of your own";
  }

  const LayoutSpace space_;
  const ClusterSpecification& cluster_;
  const std::function<Job(const Job&)>& dry_run_job_;
  LayoutBounds bounds_;
  const SearchProgress& progress_;
  std::mutex mutex_;                                  // of all below
  std::set<Entry> queue_;                             // the first has the least seconds
  std::map<Layout, Job> jobs_;                        // of divisions
  std::map<Layout, Estimate> estimates_;              // of the layouts that may fit
  std::optional<std::pair<double, Layout>> nearest_;  // that does not fit: by how many bytes
  int64_t estimated_ = 0, too_large_ = 0, done_ = 0;
  StrategySearch result_;
};

}  // namespace

StrategySearch search_strategies(const RunConfig& config, const std::set<std::string>& keys,
                                 const Machine& machine, const ClusterSpecification& cluster,
                                 const std::function<Job(const Job&)>& dry_run_job,
                                 const SearchProgress& progress) {
  memory::install_allocators();  // before other threads start
  return LayoutSearch(config, keys, machine, cluster, dry_run_job, progress).run();
}

}  // namespace colossal::plan
