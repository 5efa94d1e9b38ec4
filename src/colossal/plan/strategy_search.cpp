#include "colossal/plan/strategy_search.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <map>
#include <mutex>
#include <optional>
#include <thread>

#include "colossal/base/error.h"
#include "colossal/base/machine.h"
#include "colossal/base/units.h"
#include "colossal/booster/pipeline_config.h"
#include "colossal/memory/memory_ledger.h"
#include "colossal/mesh/rank_grid.h"
#include "colossal/plan/estimated_rank.h"
#include "colossal/plan/fit_memory.h"
#include "colossal/plan/place_tiers.h"
#include "colossal/plan/plan.h"

namespace colossal::plan {
namespace {

// Number of layouts whose other keys a round changes.
constexpr size_t kRefined = 4;
// Sequence parallelism pays off with more tokens than this on each rank.
constexpr int64_t kTokensOfRank = 1024;
// Schedules, and their numbers of stages of a rank; 0: the schedule's own.
constexpr std::pair<const char*, int64_t> kSchedules[] = {
    {"1f1b", 0}, {"interleaved", 2}, {"interleaved", 4}, {"zb-h1", 0},
    {"zb-v", 0}, {"v-half", 0},      {"v-min", 0}};

// The values of the keys that the search sets. Those of keys that the user has set have no meaning.
struct Layout {
  int64_t pp = 1, dp = 1, sp = 1, tp = 1, ep = 1;
  std::string tp_mode = "1d";
  int64_t tp_depth = 1;  // of 2.5d
  std::string sp_mode = "ring";
  int64_t zero = 0;
  std::string pp_schedule = "1f1b";
  int64_t pp_chunks = 0;  // 0: the default of the schedule
  int64_t micro_batch = 0;
  std::string recompute = "none";

  auto operator<=>(const Layout&) const = default;
};

std::vector<int64_t> divisors(int64_t number) {
  std::vector<int64_t> found;
  for (int64_t i = 1; i <= number; ++i) {
    if (number % i == 0) found.push_back(i);
  }
  return found;
}

// The result of a dry run.
struct Prediction {
  StrategyChoice choice;
  int64_t overrun = 0;  // bytes by which it exceeds the budgets
  bool exact = false;   // whether it is from a dry run of the whole model

  std::pair<int64_t, double> cost() const { return {overrun, choice.time.seconds}; }
};

class LayoutSearch {
 public:
  LayoutSearch(const RunConfig& config, const std::set<std::string>& keys, const Machine& machine,
               const ClusterSpecification& cluster,
               const std::function<Job(const Job&)>& dry_run_job, const SearchProgress& progress)
      : config_(config),
        keys_(keys),
        machine_(machine),
        cluster_(cluster),
        dry_run_job_(dry_run_job),
        progress_(progress) {
    config_.parallel.strategy = "manual";
  }

  StrategySearch run() {
    const auto start = std::chrono::steady_clock::now();
    estimate(divisions());
    if (tried_.empty()) resolve_job(config_, machine_, keys_);  // says which sizes do not divide
    if (predictions_.empty()) throw ConfigError(refusal());
    // Each round starts from what the last one has found; most changes help in the first.
    for (size_t known = 0; known < predictions_.size();) {
      known = predictions_.size();
      std::vector<Layout> changed;
      for (const Layout& layout : best(kRefined)) {
        const std::vector<Layout> near = changes(layout);
        changed.insert(changed.end(), near.begin(), near.end());
      }
      estimate(changed);
    }
    predict_best_exactly();
    StrategySearch result{.recorded = std::ssize(predictions_), .impossible = impossible_};
    for (const auto& [layout, prediction] : predictions_)
      result.too_large += prediction.overrun > 0;
    const std::vector<Layout> fastest = best(kMostChoices);
    if (const Prediction& first = predictions_.at(fastest.front()); first.overrun > 0) {
      throw ConfigError(too_large(first));
    }
    for (const Layout& layout : fastest) {
      Prediction& prediction = predictions_.at(layout);
      if (prediction.overrun == 0) result.choices.push_back(std::move(prediction.choice));
    }
    result.seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return result;
  }

 private:
  bool is_free(const std::string& key) const { return !keys_.contains(key); }

  // Returns the values to try for the size of an axis.
  std::vector<int64_t> sizes(const std::string& key, int64_t given, int64_t of) const {
    if (is_free(key)) return divisors(of);
    return of % given == 0 ? std::vector{given} : std::vector<int64_t>{};
  }

  // Returns the layouts that divide the ranks into axes, without those that are hardly ever fast,
  // as far as others are left: tensor parallelism over several hosts, and few tokens of a sequence
  // on each rank.
  std::vector<Layout> divisions() const {
    std::vector<Layout> layouts = all_divisions(machine_.ranks);
    const auto keep = [&](const auto& is_usual) {
      std::vector<Layout> usual;
      std::ranges::copy_if(layouts, std::back_inserter(usual), is_usual);
      if (!usual.empty()) layouts = std::move(usual);
    };
    const int64_t local = cluster_.local_ranks(machine_.ranks);
    keep([&](const Layout& layout) { return layout.tp <= local; });
    const int64_t sequence = config_.data.sequence_length.value_or(0);
    keep([&](const Layout& layout) {
      const bool enough_sequences = config_.train.global_batch >= machine_.ranks;
      return layout.sp == 1 || !enough_sequences || sequence / layout.sp >= kTokensOfRank;
    });
    return layouts;
  }

  std::vector<Layout> all_divisions(int64_t ranks) const {
    const ParallelConfig& given = config_.parallel;
    std::vector<Layout> layouts;
    for (const int64_t pp : sizes("parallel.pp", given.pp, ranks)) {
      for (const int64_t tp : sizes("parallel.tp", given.tp, ranks / pp)) {
        for (const int64_t sp : sizes("parallel.sp", given.sp, ranks / pp / tp)) {
          const int64_t dp = ranks / pp / tp / sp;
          if (given.dp && *given.dp != dp) continue;
          for (const int64_t ep : expert_sizes(dp * sp * tp)) {
            add_modes({.pp = pp, .dp = dp, .sp = sp, .tp = tp, .ep = ep}, layouts);
          }
        }
      }
    }
    return layouts;
  }

  std::vector<int64_t> expert_sizes(int64_t ranks) const {
    if (!is_free("parallel.ep")) return {config_.parallel.ep};
    if (!has_experts()) return {1};
    return divisors(ranks / std::max<int64_t>(1, config_.parallel.expert_tp));
  }

  bool has_experts() const {
    if (!has_experts_) {
      try {
        RunConfig alone = config_;
        has_experts_ = models::resolve_model(alone.model).facts.experts > 0;
      } catch (const ConfigError&) {
        has_experts_ = false;  // the dry runs tell the reason
      }
    }
    return *has_experts_;
  }

  void add_modes(Layout layout, std::vector<Layout>& layouts) const {
    const bool fixed_mode = !is_free("parallel.tp_mode");
    const bool fixed_sequence = !is_free("parallel.sp_mode");
    std::vector<Layout> modes;
    const auto add = [&](const std::string& mode, int64_t depth) {
      if (fixed_mode && mode != config_.parallel.tp_mode) return;
      if (mode == "2.5d" && config_.parallel.tp_depth && *config_.parallel.tp_depth != depth)
        return;
      layout.tp_mode = mode;
      layout.tp_depth = depth;
      modes.push_back(layout);
    };
    add("1d", 1);
    for (int64_t side = 2; side * side <= layout.tp; ++side) {
      if (side * side == layout.tp) add("2d", 1);
      if (layout.tp % (side * side) == 0 && side * side < layout.tp) {
        add("2.5d", layout.tp / (side * side));
      }
      if (side * side * side == layout.tp) add("3d", 1);
    }
    for (Layout& of_mode : modes) {
      for (const char* const sequence : {"ring", "ulysses"}) {
        if (fixed_sequence ? sequence != config_.parallel.sp_mode
                           : layout.sp == 1 && std::string(sequence) != "ring") {
          continue;
        }
        of_mode.sp_mode = sequence;
        layouts.push_back(with_defaults(of_mode));
      }
    }
  }

  Layout with_defaults(Layout layout) const {
    layout.zero = layout.dp * layout.sp > 1 ? 1 : 0;
    Strategy strategy;
    strategy.pp = static_cast<int>(layout.pp);
    layout.micro_batch = default_micro_batch(share_of(layout), strategy);
    return layout;
  }

  // Returns the layouts that differ from `layout` in one key that is not the size of an axis.
  std::vector<Layout> changes(const Layout& layout) const {
    std::vector<Layout> found;
    const auto add = [&](const auto& change) {
      Layout changed = layout;
      change(changed);
      found.push_back(changed);
    };
    if (is_free("train.micro_batch")) {
      for (const int64_t micro_batch : divisors(share_of(layout))) {
        add([&](Layout& l) { l.micro_batch = micro_batch; });
      }
    }
    if (is_free("memory.recompute")) {
      for (const char* const recompute : {"none", "selective", "full"}) {
        add([&](Layout& l) { l.recompute = recompute; });
      }
    }
    if (is_free("parallel.zero") && layout.dp * layout.sp > 1) {
      for (const int64_t zero : {1, 2, 3}) add([&](Layout& l) { l.zero = zero; });
    }
    if (is_free("parallel.pp_schedule") && layout.pp > 1) {
      for (const auto& [schedule, chunks] : kSchedules) {
        add([&](Layout& l) {
          l.pp_schedule = schedule;
          l.pp_chunks = is_free("parallel.pp_chunks") ? chunks : 0;
        });
      }
    }
    return found;
  }

  int64_t share_of(const Layout& layout) const {
    return std::max<int64_t>(1, config_.train.global_batch / layout.dp);
  }

  // Sets the keys of a layout; the search sets no key that the user has set.
  void apply(const Layout& layout, StrategyChoice& choice) const {
    choice.config = config_;
    ParallelConfig& parallel = choice.config.parallel;
    const auto set = [&](const char* key, auto& target, const auto& value, bool is_default) {
      if (!is_free(key) || is_default) return;
      target = value;
      choice.settings.emplace_back(key, text_of(value));
    };
    set("parallel.pp", parallel.pp, layout.pp, layout.pp == 1);
    set("parallel.dp", parallel.dp, layout.dp, false);
    set("parallel.sp", parallel.sp, layout.sp, layout.sp == 1);
    set("parallel.tp", parallel.tp, layout.tp, layout.tp == 1);
    set("parallel.ep", parallel.ep, layout.ep, layout.ep == 1);
    set("parallel.tp_mode", parallel.tp_mode, layout.tp_mode, layout.tp_mode == "1d");
    set("parallel.tp_depth", parallel.tp_depth, layout.tp_depth, layout.tp_mode != "2.5d");
    set("parallel.sp_mode", parallel.sp_mode, layout.sp_mode, layout.sp_mode == "ring");
    set("parallel.zero", parallel.zero, layout.zero, false);
    set("parallel.pp_schedule", parallel.pp_schedule, layout.pp_schedule, layout.pp == 1);
    set("parallel.pp_chunks", parallel.pp_chunks, layout.pp_chunks, layout.pp_chunks == 0);
    set("train.micro_batch", choice.config.train.micro_batch, layout.micro_batch, false);
    set("memory.recompute", choice.config.memory.recompute, layout.recompute,
        layout.recompute == "none");
  }

  static std::string text_of(int64_t value) { return std::to_string(value); }
  static std::string text_of(const std::string& value) { return value; }

  // Returns the recorded ranks: the first of each of up to three coordinates along pp: the first,
  // the last, and the one with most blocks between them.
  static std::vector<int> ranks_of(const Job& job) {
    const Strategy& strategy = job.strategy;
    std::vector<int64_t> blocks(strategy.pp);
    for (int stage = 0; stage < strategy.num_stages(); ++stage) {
      blocks[strategy.stage_rank(stage)] +=
          strategy.blocks_of_stage(stage, job.model.facts.layers).size();
    }
    std::set<int> places{0, strategy.pp - 1};
    if (strategy.pp > 2) {
      places.insert(static_cast<int>(std::max_element(blocks.begin() + 1, blocks.end() - 1) -
                                     blocks.begin()));
    }
    std::vector<int> ranks;
    for (const int place : places) ranks.push_back(place * (strategy.world_size() / strategy.pp));
    return ranks;
  }

  Prediction predict(const Layout& layout, bool exactly) const {
    Prediction prediction{.choice = {}, .exact = exactly};
    StrategyChoice& choice = prediction.choice;
    apply(layout, choice);
    std::set<std::string> keys = keys_;
    for (const auto& [key, value] : choice.settings) keys.insert(key);
    choice.job = resolve_job_as_given(choice.config, machine_, keys);
    const Job dry = dry_run_job_(choice.job);
    at::set_num_threads(dry.threads);
    predict_step(dry, prediction);
    if (prediction.overrun > 0 && (dry.recompute_undecided || !dry.undecided_tiers.empty())) {
      try {
        predict_step(fit_memory(dry), prediction);
      } catch (const ConfigError&) {
        // It does not fit with any recomputation or offloading either.
      }
    }
    return prediction;
  }

  // Sets the costs of a prediction to those of the job's step.
  void predict_step(const Job& job, Prediction& prediction) const {
    StrategyChoice& choice = prediction.choice;
    choice.peak_bytes = choice.sent_bytes = prediction.overrun = 0;
    std::vector<RankSeconds> seconds;
    for (const int rank : ranks_of(job)) {
      const RankPlan plan = prediction.exact ? recorded_rank(job, rank, &cluster_)
                                             : estimated_rank(job, rank, cluster_);
      seconds.push_back(*plan.seconds);
      choice.peak_bytes = std::max(choice.peak_bytes, plan.memory_peak_bytes());
      choice.sent_bytes = std::max(choice.sent_bytes, plan.bytes_sent());
      prediction.overrun = std::max(prediction.overrun, overrun_of(job, plan).sum());
    }
    choice.time = step_time(seconds, job, cluster_);
  }

  // Estimates the layouts that are not tried yet.
  void estimate(std::vector<Layout> layouts) {
    std::ranges::sort(layouts);
    layouts.erase(std::ranges::unique(layouts).begin(), layouts.end());
    std::erase_if(layouts, [&](const Layout& layout) { return !tried_.insert(layout).second; });
    predict(layouts, false);
  }

  // Predicts the best layouts exactly. Others may then be better, so this goes on until all of the
  // best are exact.
  void predict_best_exactly() {
    while (true) {
      std::vector<Layout> layouts = best(kMostChoices);
      std::erase_if(layouts, [&](const Layout& layout) { return predictions_.at(layout).exact; });
      if (layouts.empty()) return;
      predict(layouts, true);
    }
  }

  // Predicts layouts on several threads.
  void predict(const std::vector<Layout>& layouts, bool exactly) {
    total_ += std::ssize(layouts);
    std::mutex mutex;
    size_t next = 0;
    std::exception_ptr failure;
    const auto work = [&] {
      std::unique_lock lock(mutex);
      while (next < layouts.size() && !failure) {
        const Layout layout = layouts[next++];
        lock.unlock();
        std::optional<Prediction> made;
        std::string reason;
        std::exception_ptr thrown;
        try {
          made = predict(layout, exactly);
        } catch (const ConfigError& error) {
          reason = error.what();
        } catch (...) {
          thrown = std::current_exception();
        }
        lock.lock();
        if (thrown) failure = thrown;
        if (made) predictions_.insert_or_assign(layout, *std::move(made));
        if (!reason.empty()) {
          ++impossible_;
          reasons_.emplace(layout, reason);
        }
        if (progress_) progress_(++done_, total_);
      }
    };
    {
      std::vector<std::jthread> threads;
      const auto wanted = std::min<size_t>(layouts.size(), machine::available_cores());
      for (size_t i = 0; i < wanted; ++i) threads.emplace_back(work);
    }
    if (failure) std::rethrow_exception(failure);
  }

  // Returns the best layouts so far, best first.
  std::vector<Layout> best(size_t most) const {
    std::vector<const std::pair<const Layout, Prediction>*> sorted;
    for (const auto& entry : predictions_) sorted.push_back(&entry);
    std::ranges::stable_sort(sorted, {}, [](const auto* entry) { return entry->second.cost(); });
    std::vector<Layout> layouts;
    for (size_t i = 0; i < std::min(most, sorted.size()); ++i) layouts.push_back(sorted[i]->first);
    return layouts;
  }

  std::string refusal() const {
    std::string message = fmt::format(
        "parallel.strategy = \"auto\": none of {} layouts of {} ranks works with the other "
        "settings",
        impossible_, machine_.ranks);
    if (!reasons_.empty()) {
      message += fmt::format("; the first is refused because {}", reasons_.begin()->second);
    }
    return message;
  }

  std::string too_large(const Prediction& nearest) const {
    std::string settings;
    for (const auto& [key, value] : nearest.choice.settings) {
      settings += fmt::format("{}{} = {}", settings.empty() ? "" : ", ", key, value);
    }
    return fmt::format(
        "parallel.strategy = \"auto\": none of {} layouts of {} ranks fits the memory budgets; the "
        "nearest exceeds them by {}: {}. Use more ranks, larger budgets (memory.device_budget), or "
        "memory.offload_* = \"auto\" with a layout of your own",
        predictions_.size(), machine_.ranks, format_bytes(nearest.overrun), settings);
  }

  RunConfig config_;
  const std::set<std::string>& keys_;
  const Machine& machine_;
  const ClusterSpecification& cluster_;
  const std::function<Job(const Job&)>& dry_run_job_;
  const SearchProgress& progress_;
  mutable std::optional<bool> has_experts_;
  std::set<Layout> tried_;
  std::map<Layout, Prediction> predictions_;
  std::map<Layout, std::string> reasons_;  // of refused layouts
  int64_t impossible_ = 0, done_ = 0, total_ = 0;
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
