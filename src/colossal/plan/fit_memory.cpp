#include "colossal/plan/fit_memory.h"

#include <algorithm>
#include <functional>
#include <future>

#include "colossal/base/error.h"
#include "colossal/base/units.h"
#include "colossal/booster/run_summary.h"

namespace colossal::plan {
namespace {

using memory::Recompute;

constexpr Recompute kFull{.full_blocks = Recompute::kAllBlocks};

Job with_recompute(Job job, const Recompute& recompute) {
  job.recompute = recompute;
  return job;
}

Job with_zero(Job job, int zero) {
  job.strategy.zero = zero;
  return job;
}

Job with_micro_batch(Job job, int64_t micro_batch) {
  job.micro_batch = micro_batch;
  // Gradients accumulate in another type where there are several.
  PrecisionConfig precision = job.config.precision;
  precision.compute = type_name(job.precision.compute);
  job.precision =
      resolve_precision(precision, /*bf16_instructions=*/false, job.num_micro_batches());
  return job;
}

// A setting that takes less memory than the job's.
struct Change {
  std::string text;  // "parallel.zero = 3"
  std::function<Job(Job)> apply;
};

std::vector<Change> less_kept(const Job& job) {
  std::vector<Change> changes;
  if (job.recompute_open) return changes;
  if (job.recompute == Recompute{}) {
    changes.push_back({"memory.recompute = \"selective\"",
                       [](Job j) { return with_recompute(std::move(j), {.selective = true}); }});
  }
  if (job.recompute.full_blocks < job.model.facts.layers) {
    changes.push_back(
        {"memory.recompute = \"full\"", [](Job j) { return with_recompute(std::move(j), kFull); }});
  }
  return changes;
}

std::vector<Change> more_sharded(const Job& job) {
  std::vector<Change> changes;
  if (job.strategy.dp * job.strategy.sp == 1) return changes;
  for (int zero = job.strategy.zero + 1; zero <= 3; ++zero) {
    changes.push_back({fmt::format("parallel.zero = {}", zero),
                       [zero](Job j) { return with_zero(std::move(j), zero); }});
  }
  return changes;
}

std::vector<Change> fewer_at_once(const Job& job) {
  std::vector<Change> changes;
  for (int64_t sequences = job.micro_batch; sequences > 1;) {
    sequences = (sequences + 1) / 2;
    changes.push_back({fmt::format("train.micro_batch = {}", sequences),
                       [sequences](Job j) { return with_micro_batch(std::move(j), sequences); }});
  }
  return changes;
}

struct Found {
  std::string text;
  RankPlan plan;
};

// Jobs with some of the settings changed.
class Search {
 public:
  explicit Search(const Job& job)
      : job_(job), settings_{less_kept(job), more_sharded(job), fewer_at_once(job)} {}

  // The least of any: a change does not always take less, fewer sequences at once, say, where
  // gradients then accumulate in a wider type.
  Found least() const {
    Found least{"", fullest_rank(job_)};
    find_less(job_, "", 0, least);
    return least;
  }

  // All with as few settings changed as any of them; of a micro-batch, the largest that fits.
  std::vector<Found> nearest() {
    for (int changed = 1; changed <= static_cast<int>(settings_.size()); ++changed) {
      visit(job_, "", 0, changed);
      if (!found_.empty()) break;
    }
    return std::move(found_);
  }

 private:
  static void add(std::string& text, const std::string& change) {
    text += (text.empty() ? "" : ", ") + change;
  }

  void visit(const Job& job, const std::string& text, size_t setting, int left) {
    if (left == 0) {
      RankPlan plan = fullest_rank(job);
      if (plan.memory_peak_bytes() <= job.device_budget) found_.push_back({text, std::move(plan)});
      return;
    }
    if (setting == settings_.size()) return;
    const bool is_micro_batch = setting + 1 == settings_.size();
    for (const Change& change : settings_[setting]) {
      std::string longer = text;
      add(longer, change.text);
      const size_t before = found_.size();
      visit(change.apply(job), longer, setting + 1, left - 1);
      if (is_micro_batch && found_.size() > before) break;
    }
    visit(job, text, setting + 1, left);
  }

  // Settings other than the ZeRO stage are left or changed as far as they go.
  void find_less(const Job& job, const std::string& text, size_t setting, Found& least) const {
    if (setting == settings_.size()) {
      RankPlan plan = fullest_rank(job);
      if (plan.memory_peak_bytes() < least.plan.memory_peak_bytes())
        least = {text, std::move(plan)};
      return;
    }
    find_less(job, text, setting + 1, least);
    const std::vector<Change>& changes = settings_[setting];
    for (size_t i = setting == 1 || changes.empty() ? 0 : changes.size() - 1; i < changes.size();
         ++i) {
      std::string longer = text;
      add(longer, changes[i].text);
      find_less(changes[i].apply(job), longer, setting + 1, least);
    }
  }

  const Job& job_;
  std::vector<std::vector<Change>> settings_;  // the weakest change first
  std::vector<Found> found_;
};

std::string describe_largest_kind(const RankPlan& plan) {
  const auto& bytes = plan.memory_at_peak.bytes;
  const auto largest = std::ranges::max_element(bytes) - bytes.begin();
  return fmt::format("{} of it are {}", format_bytes(bytes[largest]),
                     memory_kind_name(static_cast<memory::MemoryKind>(largest)));
}

[[noreturn]] void refuse(const Job& job, const RankPlan& plan) {
  const int64_t need = plan.memory_peak_bytes();
  std::string text = fmt::format(
      "memory.device_budget = {}{}: the tensors of a rank take {} at the peak of a step{}, {} too "
      "many; {}",
      exact_bytes({job.device_budget}),
      job.config.memory.device_budget ? "" : " (the memory of this host / local ranks)",
      format_bytes(need), job.recompute_open ? ", all layers computed again" : "",
      format_bytes(need - job.device_budget), describe_largest_kind(plan));
  Search search(job);
  const Found least = search.least();
  if (least.plan.memory_peak_bytes() > job.device_budget) {
    throw ConfigError(
        fmt::format("{}. {} they take {}: use more ranks (parallel.tp, parallel.sp), a shorter "
                    "data.sequence_length, or a larger budget",
                    text, least.text.empty() ? "At the least" : "Even with " + least.text,
                    format_bytes(least.plan.memory_peak_bytes())));
  }
  text += ". What fits:";
  bool any_full = false;
  for (const Found& found : search.nearest()) {
    text += fmt::format("\n  {}: {}; {} FLOPs, {} bytes sent", found.text,
                        format_bytes(found.plan.memory_peak_bytes()),
                        describe_growth(plan.flops, found.plan.flops),
                        describe_growth(static_cast<double>(plan.bytes_sent()),
                                        static_cast<double>(found.plan.bytes_sent())));
    any_full |= found.text.find("memory.recompute = \"full\"") != std::string::npos;
  }
  if (any_full) {
    text += "\n  memory.recompute = \"auto\" computes no more layers again than it must";
  }
  throw ConfigError(text);
}

struct Choice {
  Recompute recompute;
  RankPlan plan;
};

// The least that fits; where none does, the last that was tried. The first layers are computed
// again last, when the memory of the others is free: each more takes less until the last one does,
// whose own takes its place at the peak.
Choice least_recompute(const Job& job, const RankPlan& without) {
  const auto fits = [&](const RankPlan& plan) {
    return plan.memory_peak_bytes() <= job.device_budget;
  };
  const auto plan_with = [&](const Recompute& recompute) {
    return Choice{recompute, fullest_rank(with_recompute(job, recompute))};
  };
  if (fits(without)) return {{}, without};
  Choice best = plan_with({.selective = true});
  if (fits(best.plan)) return best;
  const int64_t layers = job.model.facts.layers;
  int64_t too_few = 0, enough = layers - 1;
  if (enough > 0) best = plan_with({.selective = true, .full_blocks = enough});
  if (!fits(best.plan)) return plan_with(kFull);
  while (enough - too_few > 1) {
    const int64_t middle = (too_few + enough) / 2;
    Choice tried = plan_with({.selective = true, .full_blocks = middle});
    const bool is_enough = fits(tried.plan);
    (is_enough ? enough : too_few) = middle;
    if (is_enough) best = std::move(tried);
  }
  return best;
}

Job find_recompute(const Job& job) {
  if (job.device_budget == 0) {
    throw ConfigError(
        "memory.recompute = \"auto\" recomputes as little as fits memory.device_budget: set "
        "that to what a rank has, \"12GiB\"");
  }
  const RankPlan without = fullest_rank(with_recompute(job, {}));
  const Choice choice = least_recompute(job, without);
  Job found = with_recompute(job, choice.recompute);
  if (choice.plan.memory_peak_bytes() > job.device_budget) refuse(found, choice.plan);
  found.recompute_reason = fmt::format(
      "memory.recompute = \"auto\" is {}: {} at the peak, {} less than without, {} FLOPs",
      describe_recompute(choice.recompute, job.model.facts.layers),
      format_bytes(choice.plan.memory_peak_bytes()),
      format_bytes(without.memory_peak_bytes() - choice.plan.memory_peak_bytes()),
      describe_growth(without.flops, choice.plan.flops));
  return found;
}

}  // namespace

std::string describe_growth(double from, double to) {
  if (from == to) return "as many";
  if (from == 0) return "more";
  const double growth = 100 * (to / from - 1);
  return fmt::format("{:.1f} % {}", std::abs(growth), growth > 0 ? "more" : "fewer");
}

Job fit_memory(const Job& job) {
  if (job.recompute_open) return find_recompute(job);
  if (job.device_budget == 0) return job;
  const RankPlan plan = fullest_rank(job);
  if (plan.memory_peak_bytes() > job.device_budget) refuse(job, plan);
  return job;
}

std::vector<RecomputeCost> compare_recompute(const Job& job, const RankPlan& own) {
  std::vector<Recompute> settings{{}, {.selective = true}, kFull};
  if (std::ranges::find(settings, job.recompute) == settings.end()) {
    settings.insert(settings.end() - 1, job.recompute);
  }
  std::vector<std::future<RankPlan>> plans;
  for (const Recompute& recompute : settings) {
    plans.push_back(std::async(std::launch::async, [&] {
      return recompute == job.recompute ? own : fullest_rank(with_recompute(job, recompute));
    }));
  }
  std::vector<RecomputeCost> costs;
  for (size_t i = 0; i < settings.size(); ++i) {
    costs.push_back({describe_recompute(settings[i], job.model.facts.layers), plans[i].get()});
  }
  return costs;
}

}  // namespace colossal::plan
