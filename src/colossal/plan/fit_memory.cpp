#include "colossal/plan/fit_memory.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <future>

#include "colossal/base/error.h"
#include "colossal/base/units.h"
#include "colossal/plan/place_tiers.h"
#include "colossal/training/run_summary.h"

namespace colossal::plan {
namespace {

using memory::Recompute;
using memory::Tier;

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
  // The type of gradients depends on whether a step has several micro-batches.
  PrecisionConfig precision = job.config.precision;
  precision.compute = type_name(job.precision.compute);
  job.precision =
      resolve_precision(precision, /*bf16_instructions=*/false, job.num_micro_batches());
  return job;
}

// A change of a setting that usually saves memory.
struct Change {
  std::string text;  // "parallel.zero = 3"
  std::function<Job(Job)> apply;
  bool is_fallback = false;  // to be tried only if no earlier change of the setting fits
};

std::vector<Change> less_kept(const Job& job) {
  std::vector<Change> changes;
  if (job.recompute_undecided) return changes;
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
  const bool in_groups =
      job.strategy.zero_group > 0 && job.strategy.zero_group < job.strategy.dp * job.strategy.sp;
  if (in_groups) {
    changes.push_back({"parallel.zero_group = \"all\"", [](Job j) {
                         j.strategy.zero_group = 0;
                         return j;
                       }});
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

// Cuts tables if a rank has at least kFewestBlocks blocks of a chunk's size. Smaller tables are not
// what fills its memory.
std::vector<Change> cut_tables(const Job& job) {
  constexpr int64_t kBlockBytes = memory::ChunkOptions{}.chunk_bytes, kFewestBlocks = 4;
  const Strategy& strategy = job.strategy;
  if (strategy.table_rows > 0) return {};
  const int64_t row_bytes =
      job.model.facts.hidden * static_cast<int64_t>(c10::elementSize(job.precision.compute));
  const auto rows = static_cast<int64_t>(
      std::bit_floor(static_cast<uint64_t>(std::max<int64_t>(1, kBlockBytes / row_bytes))));
  if (job.model.facts.vocabulary / strategy.tp < kFewestBlocks * rows) return {};
  return {{fmt::format("memory.table_rows = {}", rows), [rows](Job j) {
             j.strategy.table_rows = rows;
             return j;
           }}};
}

using Kinds = std::vector<memory::MemoryKind>;

Change to_tier(const Kinds& kinds, Tier tier, bool is_fallback) {
  std::string text;
  for (const memory::MemoryKind kind : kinds) {
    text += fmt::format("{}memory.offload_{} = \"{}\"", text.empty() ? "" : ", ",
                        memory_kind_name(kind), tier == Tier::device ? "none" : tier_name(tier));
  }
  const memory::TierShares shares{.host = tier == Tier::host ? 1.0 : 0.0,
                                  .nvme = tier == Tier::nvme ? 1.0 : 0.0};
  return {text,
          [kinds, shares](Job j) {
            for (const memory::MemoryKind kind : kinds) j.tiers.of(kind) = shares;
            return j;
          },
          is_fallback};
}

bool is_open(const Job& job, memory::MemoryKind kind) {
  return std::ranges::find(job.undecided_tiers, kind) != job.undecided_tiers.end();
}

// Moves kinds of memory off the device: first single kinds, then all but parameters (whose weights
// in use are wholly on the device anyway), then all; to the host before NVMe, which needs a folder.
std::vector<Change> moved_off(const Job& job) {
  using memory::MemoryKind;
  Kinds all;
  for (const MemoryKind kind : {MemoryKind::optimizer, MemoryKind::gradients,
                                MemoryKind::activations, MemoryKind::parameters}) {
    if (!is_open(job, kind)) all.push_back(kind);
  }
  std::vector<Change> changes;
  for (const Tier tier : memory::kTiersOffDevice) {
    if (tier == Tier::nvme && job.tiers.nvme_path.empty()) continue;
    for (const MemoryKind kind : all) changes.push_back(to_tier({kind}, tier, tier == Tier::nvme));
  }
  const Tier last = job.tiers.nvme_path.empty() ? Tier::host : Tier::nvme;
  for (const Tier tier : memory::kTiersOffDevice) {
    if (tier > last || all.size() < 2) continue;
    Kinds but_weights = all;
    std::erase(but_weights, MemoryKind::parameters);
    changes.push_back(to_tier(but_weights, tier, /*is_fallback=*/true));
    changes.push_back(to_tier(all, tier, /*is_fallback=*/true));
  }
  return changes;
}

// Moves kinds of memory off the host: back to the device, or on to NVMe.
std::vector<Change> moved_off_host(const Job& job) {
  std::vector<Change> changes;
  for (const memory::MemoryKind kind : memory::kTieredKinds) {
    if (job.tiers.of(kind).host == 0) continue;
    changes.push_back(to_tier({kind}, Tier::device, false));
    if (!job.tiers.nvme_path.empty()) changes.push_back(to_tier({kind}, Tier::nvme, false));
  }
  return changes;
}

struct Found {
  std::string text;
  RankPlan plan;
};

// Changes of one setting, the weakest first.
struct Setting {
  std::vector<Change> changes;
  bool one_is_enough = false;  // stop at the first change that fits
  size_t tried_for_least = 1;  // number of changes, from the last, that least() tries
};

// Searches for changes of the settings that fit the budgets.
class Search {
 public:
  explicit Search(const Job& job, const Overrun& over)
      : job_(job),
        settings_{{less_kept(job)},
                  {more_sharded(job), false, 3},
                  {cut_tables(job)},
                  over.device > 0 ? Setting{moved_off(job), false, 2}
                                  : Setting{moved_off_host(job), false, 8},
                  {fewer_at_once(job), true}} {}

  // Returns the plan with the smallest overrun. A change does not always save memory: with smaller
  // micro-batches, for example, gradients accumulate in a wider type.
  Found least() const {
    Found least{"", rank_with_largest_peak(job_)};
    find_less(job_, "", 0, least);
    return least;
  }

  // Returns all plans that fit with `settings` settings changed; of micro-batches, the largest.
  std::vector<Found> with_changes(size_t settings) {
    visit(job_, "", 0, settings);
    return std::move(found_);
  }
  size_t num_settings() const { return settings_.size(); }

 private:
  static void add(std::string& text, const std::string& change) {
    text += (text.empty() ? "" : ", ") + change;
  }

  void visit(const Job& job, const std::string& text, size_t setting, size_t left) {
    if (left == 0) {
      RankPlan plan = rank_with_largest_peak(job);
      if (fits_budgets(job, plan)) found_.push_back({text, std::move(plan)});
      return;
    }
    if (setting == settings_.size()) return;
    const size_t before = found_.size();
    for (const Change& change : settings_[setting].changes) {
      if (change.is_fallback && found_.size() > before) continue;
      std::string longer = text;
      add(longer, change.text);
      visit(change.apply(job), longer, setting + 1, left - 1);
      if (settings_[setting].one_is_enough && found_.size() > before) break;
    }
    visit(job, text, setting + 1, left);
  }

  // Leaves each setting, or applies one of its strongest changes.
  void find_less(const Job& job, const std::string& text, size_t setting, Found& least) const {
    if (setting == settings_.size()) {
      RankPlan plan = rank_with_largest_peak(job);
      if (is_less(plan, least.plan)) least = {text, std::move(plan)};
      return;
    }
    find_less(job, text, setting + 1, least);
    const auto& [changes, one_is_enough, tried] = settings_[setting];
    for (size_t i = changes.size() - std::min(changes.size(), tried); i < changes.size(); ++i) {
      std::string longer = text;
      add(longer, changes[i].text);
      find_less(changes[i].apply(job), longer, setting + 1, least);
    }
  }

  bool is_less(const RankPlan& a, const RankPlan& b) const {
    const int64_t over_a = overrun_of(job_, a).sum(), over_b = overrun_of(job_, b).sum();
    return over_a != over_b ? over_a < over_b : a.memory_peak_bytes() < b.memory_peak_bytes();
  }

  const Job& job_;
  std::vector<Setting> settings_;
  std::vector<Found> found_;
};

const char* describe_tier(Tier tier) {
  return tier == Tier::host ? "the host" : "NVMe";
}

// Returns "; 240 MiB to and from the host a step"; empty if no tier is used.
std::string describe_tier_traffic(const RankPlan& plan) {
  std::string text;
  for (const Tier tier : memory::kTiersOffDevice) {
    const int64_t rest = plan.bytes_at_rest(tier), moved = plan.tier_bytes(tier);
    if (rest == 0 && moved == 0) continue;
    text += fmt::format("; {} to and from {} a step", format_bytes(moved), describe_tier(tier));
  }
  return text;
}

// Returns "none" or {host = 0.5, nvme = 0.25}, as in a configuration.
std::string describe_shares(const memory::TierShares& shares) {
  if (shares.all_on_device()) return "\"none\"";
  if (shares.host == 1) return "\"host\"";
  if (shares.nvme == 1) return "\"nvme\"";
  if (shares.nvme == 0) return fmt::format("{{host = {}}}", shares.host);
  if (shares.host == 0) return fmt::format("{{nvme = {}}}", shares.nvme);
  return fmt::format("{{host = {}, nvme = {}}}", shares.host, shares.nvme);
}

std::string describe_largest_kind(const memory::BytesByKind& kinds) {
  const auto& bytes = kinds.bytes;
  const auto largest = std::ranges::max_element(bytes) - bytes.begin();
  return fmt::format("{} of it are {}", format_bytes(bytes[largest]),
                     memory_kind_name(static_cast<memory::MemoryKind>(largest)));
}

// Returns ", 237 MiB on the host, 119 MiB on NVMe"; empty if nothing is stored there.
std::string describe_at_rest(const RankPlan& plan) {
  std::string text;
  for (const Tier tier : memory::kTiersOffDevice) {
    if (const int64_t bytes = plan.bytes_at_rest(tier); bytes > 0) {
      text += fmt::format(", {} on {}", format_bytes(bytes), describe_tier(tier));
    }
  }
  return text;
}

// Describes which budget is exceeded, by how much, and what takes the most of it.
std::string describe_overrun(const Job& job, const RankPlan& plan) {
  const Overrun over = overrun_of(job, plan);
  const MemoryConfig& given = job.config.memory;
  const int64_t device = plan.memory_peak_bytes(), host = plan.bytes_at_rest(Tier::host);
  std::string moved = job.recompute_undecided ? ", all layers computed again" : "";
  if (!job.undecided_tiers.empty())
    moved += ", with as much offloading as memory.offload_* = \"auto\" can do";
  if (over.device > 0) {
    return fmt::format(
        "memory.device_budget = {}{}: the tensors of a rank take {} at the peak of a step{}, {} "
        "too many; {}",
        exact_bytes({job.device_budget}),
        given.device_budget ? "" : " (this host's memory / local ranks, less the process itself)",
        format_bytes(device), moved, format_bytes(over.device),
        describe_largest_kind(plan.memory_at_peak));
  }
  const std::string largest = describe_largest_kind(plan.at_rest.at(Tier::host));
  if (over.host > 0) {
    return fmt::format(
        "memory.host_budget = {}: {} of the tensors of a rank are stored on the host{}, {} too "
        "many; {}",
        exact_bytes({job.host_budget}), format_bytes(host), moved, format_bytes(over.host),
        largest);
  }
  return fmt::format(
      "a rank's tensors take {}, {} on the device and {} on the host{}; its share of this host's "
      "memory is {}, {} too few; {}. If the run will have more memory, set memory.device_budget "
      "and memory.host_budget to it",
      format_bytes(device + host), format_bytes(device), format_bytes(host), moved,
      format_bytes(job.memory_budget), format_bytes(over.together), largest);
}

[[noreturn]] void refuse(const Job& job, const RankPlan& plan) {
  std::string text = describe_overrun(job, plan);
  const std::string nvme = job.tiers.nvme_path.empty()
                               ? "with memory.nvme_path set to a folder, memory.offload_* = "
                                 "\"nvme\" or \"auto\" takes more off the device and the host"
                               : "";
  Search search(job, overrun_of(job, plan));
  std::vector<Found> fitting = search.with_changes(1);
  if (fitting.empty()) {
    const Found least = search.least();
    if (!fits_budgets(job, least.plan)) {
      throw ConfigError(
          fmt::format("{}. {} they take {}{}: use more ranks (parallel.tp, parallel.sp), a shorter "
                      "data.sequence_length, or a larger budget{}{}",
                      text, least.text.empty() ? "At the least" : "Even with " + least.text,
                      format_bytes(least.plan.memory_peak_bytes()), describe_at_rest(least.plan),
                      nvme.empty() ? "" : "; ", nvme));
    }
    for (size_t changed = 2; fitting.empty() && changed <= search.num_settings(); ++changed) {
      fitting = search.with_changes(changed);
    }
  }
  text += ". What fits:";
  bool any_full = false, any_moved = false;
  for (const Found& found : fitting) {
    text += fmt::format("\n  {}: {}{}; {} FLOPs, {} bytes sent{}", found.text,
                        format_bytes(found.plan.memory_peak_bytes()), describe_at_rest(found.plan),
                        describe_growth(plan.flops, found.plan.flops),
                        describe_growth(static_cast<double>(plan.bytes_sent()),
                                        static_cast<double>(found.plan.bytes_sent())),
                        describe_tier_traffic(found.plan));
    const auto names = [&](const char* words) {
      return found.text.find(words) != std::string::npos;
    };
    any_full |= names("memory.recompute = \"full\"");
    any_moved |= names(" = \"host\"") || names(" = \"nvme\"");
  }
  if (any_full) {
    text += "\n  memory.recompute = \"auto\" recomputes no more layers than necessary";
  }
  if (any_moved) {
    text += "\n  memory.offload_* = \"auto\" offloads no more than necessary";
  } else if (!nvme.empty()) {
    text += "\n  " + nvme;
  }
  throw ConfigError(text);
}

struct Choice {
  Recompute recompute;
  TierPlan placement;
};

bool fits(const Job& job, const Choice& choice) {
  return fits_budgets(job, choice.placement.plan);
}

// Returns the first choice that fits, or the last that was tried if none fits. Selective
// recomputation, which costs almost nothing, comes first; then offloading; then full recomputation
// of the first layers. Backward recomputes these layers last, when the activations of the other
// layers are free, so each further layer saves memory. The exception is the last layer, whose
// recomputed activations are there at the peak.
Choice find_least(const Job& job, const RankPlan& without) {
  const auto choice_with = [&](const Recompute& recompute) {
    return Choice{recompute, place_tiers(with_recompute(job, recompute))};
  };
  if (fits_budgets(job, without)) return {job.recompute, {job.tiers, without}};
  if (!job.recompute_undecided) return choice_with(job.recompute);
  Choice best = choice_with({.selective = true});
  if (fits(job, best)) return best;
  const int64_t layers = job.model.facts.layers;
  int64_t too_few = 0, enough = layers - 1;
  if (enough > 0) best = choice_with({.selective = true, .full_blocks = enough});
  if (!fits(job, best)) return choice_with(kFull);
  while (enough - too_few > 1) {
    const int64_t middle = (too_few + enough) / 2;
    Choice tried = choice_with({.selective = true, .full_blocks = middle});
    const bool is_enough = fits(job, tried);
    (is_enough ? enough : too_few) = middle;
    if (is_enough) best = std::move(tried);
  }
  return best;
}

// Returns "1.66 GiB at the peak, 297 MiB less than without".
std::string describe_peak(const RankPlan& plan, const RankPlan& without) {
  return fmt::format("{} at the peak, {} less than without", format_bytes(plan.memory_peak_bytes()),
                     format_bytes(without.memory_peak_bytes() - plan.memory_peak_bytes()));
}

// Returns "memory.offload_optimizer = "auto" is {host = 0.5}, memory.offload_gradients = "auto" is
// "none"".
std::string describe_placement(const Job& job) {
  std::string text;
  for (const memory::MemoryKind kind : job.undecided_tiers) {
    text += fmt::format("{}memory.offload_{} = \"auto\" is {}", text.empty() ? "" : ", ",
                        memory_kind_name(kind), describe_shares(job.tiers.of(kind)));
  }
  return text;
}

Job find_open(const Job& job) {
  if (job.device_budget == 0) {
    throw ConfigError(fmt::format(
        "memory.{} = \"auto\" {} as little as fits memory.device_budget: set that to what a rank "
        "of the machine that will train has, such as \"12GiB\"",
        job.recompute_undecided ? "recompute" : "offload_*",
        job.recompute_undecided ? "recomputes" : "moves"));
  }
  const Job start = job.recompute_undecided ? with_recompute(job, {}) : job;
  const RankPlan without = rank_with_largest_peak(start);
  const Choice choice = find_least(start, without);
  Job found = with_recompute(job, choice.recompute);
  const RankPlan& plan = choice.placement.plan;
  found.tiers = choice.placement.tiers;
  if (!fits(job, choice)) refuse(found, plan);
  if (job.recompute_undecided) {
    found.recompute_reason =
        fmt::format("memory.recompute = \"auto\" is {}: {}, {} FLOPs",
                    describe_recompute(choice.recompute, job.model.facts.layers),
                    describe_peak(plan, without), describe_growth(without.flops, plan.flops));
  }
  if (!job.undecided_tiers.empty()) {
    found.tiers_reason =
        fmt::format("{}: {}{}{}", describe_placement(found), describe_peak(plan, without),
                    describe_at_rest(plan), describe_tier_traffic(plan));
  }
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
  if (job.recompute_undecided || !job.undecided_tiers.empty()) return find_open(job);
  if (job.device_budget == 0 && job.host_budget == 0 && job.memory_budget == 0) return job;
  const RankPlan plan = rank_with_largest_peak(job);
  if (!fits_budgets(job, plan)) refuse(job, plan);
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
      return recompute == job.recompute ? own
                                        : rank_with_largest_peak(with_recompute(job, recompute));
    }));
  }
  std::vector<RecomputeCost> costs;
  for (size_t i = 0; i < settings.size(); ++i) {
    costs.push_back({describe_recompute(settings[i], job.model.facts.layers), plans[i].get()});
  }
  return costs;
}

}  // namespace colossal::plan
