#include "colossal/plan/layout_space.h"

#include <algorithm>

#include "colossal/base/error.h"
#include "colossal/job/pipeline_config.h"
#include "colossal/parallel/pipeline/schedules.h"

namespace colossal::plan {
namespace {

// Numbers of stages of a rank that are tried with schedules that allow several numbers.
constexpr int64_t kChunks[] = {2, 3, 4, 6, 8};

std::vector<int64_t> divisors(int64_t number) {
  std::vector<int64_t> found;
  for (int64_t i = 1; i <= number; ++i) {
    if (number % i == 0) found.push_back(i);
  }
  return found;
}

std::string text_of(int64_t value) {
  return std::to_string(value);
}
std::string text_of(bool value) {
  return value ? "true" : "false";
}
std::string text_of(const std::string& value) {
  return value;
}

}  // namespace

LayoutSpace::LayoutSpace(RunConfig config, std::set<std::string> keys, const Machine& machine,
                         const ClusterSpecification& cluster)
    : config_(std::move(config)), keys_(std::move(keys)), machine_(machine), cluster_(cluster) {
  config_.parallel.strategy = "manual";
  try {
    experts_ = models::resolve_model(config_.model).facts.experts;
  } catch (const ConfigError&) {  // job() tells the reason
  }
  divisions_ = all_divisions();
  const auto keep = [&](const auto& is_usual) {
    std::vector<Layout> usual;
    std::ranges::copy_if(divisions_, std::back_inserter(usual), is_usual);
    if (!usual.empty()) divisions_ = std::move(usual);
  };
  const int64_t local = cluster_.local_ranks(machine_.ranks);
  keep([&](const Layout& layout) { return layout.tp <= local; });
  const int64_t sequence = config_.data.sequence_length.value_or(0);
  keep([&](const Layout& layout) {
    const bool enough_sequences = config_.train.global_batch >= machine_.ranks;
    return layout.sp == 1 || !enough_sequences || sequence / layout.sp >= kTokensOfRank;
  });
}

int64_t LayoutSpace::share(const Layout& layout) const {
  return std::max<int64_t>(1, config_.train.global_batch / layout.dp);
}

// Returns the values to try for the size of an axis.
std::vector<int64_t> LayoutSpace::sizes(const std::string& key, int64_t given, int64_t of) const {
  if (is_free(key)) return divisors(of);
  return of % given == 0 ? std::vector{given} : std::vector<int64_t>{};
}

std::vector<Layout> LayoutSpace::all_divisions() const {
  const ParallelConfig& given = config_.parallel;
  std::vector<Layout> layouts;
  for (const int64_t pp : sizes("parallel.pp", given.pp, machine_.ranks)) {
    for (const int64_t tp : sizes("parallel.tp", given.tp, machine_.ranks / pp)) {
      for (const int64_t sp : sizes("parallel.sp", given.sp, machine_.ranks / pp / tp)) {
        const int64_t dp = machine_.ranks / pp / tp / sp;
        if (given.dp && *given.dp != dp) continue;
        for (const int64_t ep : expert_sizes(dp * sp * tp)) {
          add_modes({.pp = pp, .dp = dp, .sp = sp, .tp = tp, .ep = ep}, layouts);
        }
      }
    }
  }
  return layouts;
}

std::vector<int64_t> LayoutSpace::expert_sizes(int64_t ranks) const {
  if (!is_free("parallel.ep")) return {config_.parallel.ep};
  if (experts_ == 0) return {1};
  std::vector<int64_t> found = divisors(ranks / std::max<int64_t>(1, config_.parallel.expert_tp));
  std::erase_if(found, [&](int64_t size) { return size > experts_; });
  return found;
}

void LayoutSpace::add_modes(Layout layout, std::vector<Layout>& layouts) const {
  const ParallelConfig& given = config_.parallel;
  std::vector<Layout> modes;
  const auto add = [&](const std::string& mode, int64_t depth, bool tp_sequence) {
    if (!is_free("parallel.tp_mode") && mode != given.tp_mode) return;
    if (mode == "2.5d" && given.tp_depth && *given.tp_depth != depth) return;
    layout.tp_mode = mode;
    layout.tp_depth = depth;
    layout.tp_sequence = tp_sequence;
    modes.push_back(layout);
  };
  add("1d", 1, true);
  if (layout.tp > 1 && is_free("parallel.tp_sequence")) add("1d", 1, false);
  for (int64_t side = 2; side * side <= layout.tp; ++side) {
    if (side * side == layout.tp) add("2d", 1, false);
    if (layout.tp % (side * side) == 0 && side * side < layout.tp) {
      add("2.5d", layout.tp / (side * side), false);
    }
    if (side * side * side == layout.tp) add("3d", 1, false);
  }
  for (Layout& of_mode : modes) {
    for (const char* const sequence : {"ring", "ulysses"}) {
      if (!is_free("parallel.sp_mode") ? sequence != given.sp_mode
                                       : layout.sp == 1 && std::string(sequence) != "ring") {
        continue;
      }
      of_mode.sp_mode = sequence;
      layouts.push_back(with_defaults(of_mode));
    }
  }
}

Layout LayoutSpace::with_defaults(Layout layout) const {
  layout.zero = zero_stages(layout).back() == 0 ? 0 : 1;
  Strategy strategy;
  strategy.pp = static_cast<int>(layout.pp);
  layout.micro_batch = default_micro_batch(share(layout), strategy);
  return layout;
}

std::vector<int64_t> LayoutSpace::micro_batches(const Layout& division) const {
  if (is_free("train.micro_batch")) return divisors(share(division));
  return {std::min(config_.train.micro_batch.value_or(share(division)), share(division))};
}

std::vector<std::string> LayoutSpace::recomputations() const {
  if (is_free("memory.recompute")) return {"none", "selective", "full"};
  return {"none"};  // not set by the search
}

std::vector<int64_t> LayoutSpace::zero_stages(const Layout& division) const {
  if (!is_free("parallel.zero")) return {config_.parallel.zero.value_or(0)};
  if (division.dp * division.sp == 1) return {0};
  return {0, 1, 2, 3};
}

std::vector<std::pair<std::string, int64_t>> LayoutSpace::schedules(const Layout& division) const {
  if (division.pp == 1) return {{"1f1b", 0}};
  const bool any_chunks = is_free("parallel.pp_chunks");
  const int64_t chunks = config_.parallel.pp_chunks.value_or(0);
  if (!is_free("parallel.pp_schedule")) {
    return {{config_.parallel.pp_schedule.value_or("1f1b"), any_chunks ? 0 : chunks}};
  }
  std::vector<std::pair<std::string, int64_t>> found;
  for (const parallel::pipeline::BuiltInSchedule& schedule : parallel::pipeline::schedules()) {
    if (schedule.name == "gpipe") continue;
    if (!any_chunks) {
      if (chunks >= schedule.minimum_chunks && chunks <= schedule.maximum_chunks) {
        found.emplace_back(schedule.name, chunks);
      }
    } else if (schedule.minimum_chunks == schedule.maximum_chunks) {
      found.emplace_back(schedule.name, 0);
    } else {
      for (const int64_t number : kChunks) found.emplace_back(schedule.name, number);
    }
  }
  return found;
}

std::vector<Layout> LayoutSpace::layouts_of(const Layout& some) const {
  std::vector<Layout> found;
  Layout layout = some;
  for (const auto& [schedule, chunks] : schedules(some)) {
    layout.pp_schedule = schedule;
    layout.pp_chunks = chunks;
    for (const int64_t micro_batch : micro_batches(some)) {
      layout.micro_batch = micro_batch;
      for (const int64_t zero : zero_stages(some)) {
        layout.zero = zero;
        found.push_back(layout);
      }
    }
  }
  return found;
}

Layout LayoutSpace::division_of(Layout layout) const {
  layout.pp_schedule = "1f1b";
  layout.pp_chunks = 0;
  layout.recompute = "none";
  return with_defaults(layout);
}

// Visits the keys of a layout that are not at their default; the search sets no key that the user
// has set.
template <class Set>
void LayoutSpace::visit_settings(const Layout& layout, ParallelConfig& parallel, RunConfig& config,
                                 const Set& set) const {
  const auto visit = [&](const char* key, auto& target, const auto& value, bool is_default) {
    if (is_free(key) && !is_default) set(key, target, value);
  };
  const bool one_d = layout.tp_mode == "1d";
  visit("parallel.pp", parallel.pp, layout.pp, layout.pp == 1);
  visit("parallel.dp", parallel.dp, layout.dp, false);
  visit("parallel.sp", parallel.sp, layout.sp, layout.sp == 1);
  visit("parallel.tp", parallel.tp, layout.tp, layout.tp == 1);
  visit("parallel.ep", parallel.ep, layout.ep, layout.ep == 1);
  visit("parallel.tp_mode", parallel.tp_mode, layout.tp_mode, one_d);
  visit("parallel.tp_depth", parallel.tp_depth, layout.tp_depth, layout.tp_mode != "2.5d");
  visit("parallel.tp_sequence", parallel.tp_sequence, layout.tp_sequence,
        !one_d || layout.tp_sequence);
  visit("parallel.sp_mode", parallel.sp_mode, layout.sp_mode, layout.sp_mode == "ring");
  visit("parallel.zero", parallel.zero, layout.zero, false);
  visit("parallel.pp_schedule", parallel.pp_schedule, layout.pp_schedule, layout.pp == 1);
  visit("parallel.pp_chunks", parallel.pp_chunks, layout.pp_chunks, layout.pp_chunks == 0);
  visit("train.micro_batch", config.train.micro_batch, layout.micro_batch, false);
  visit("memory.recompute", config.memory.recompute, layout.recompute, layout.recompute == "none");
}

LayoutSpace::Settings LayoutSpace::settings(const Layout& layout) const {
  Settings found;
  RunConfig unused = config_;
  visit_settings(layout, unused.parallel, unused, [&](const char* key, auto&, const auto& value) {
    found.emplace_back(key, text_of(value));
  });
  return found;
}

RunConfig LayoutSpace::config(const Layout& layout) const {
  RunConfig config = config_;
  visit_settings(layout, config.parallel, config,
                 [](const char*, auto& target, const auto& value) { target = value; });
  return config;
}

Job LayoutSpace::job(const Layout& layout) const {
  std::set<std::string> keys = keys_;
  for (const auto& [key, value] : settings(layout)) keys.insert(key);
  return resolve_job_as_given(config(layout), machine_, keys);
}

}  // namespace colossal::plan
