#include "colossal/parallel/pipeline/schedules.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "colossal/base/error.h"
#include "colossal/base/nearest.h"
#include "colossal/parallel/pipeline/communication.h"
#include "colossal/parallel/pipeline/schedule_functions.h"

namespace colossal::parallel::pipeline {
namespace {

constexpr int kAny = std::numeric_limits<int>::max();

constexpr BuiltInSchedule kSchedules[] = {
    {"1f1b", one_forward_one_backward, 1, 1, 1,
     "the usual choice: as many micro-batches in flight as ranks, and few messages"},
    {"gpipe", gpipe, 1, 1, 1,
     "the simplest: the bubble of 1f1b, but with all micro-batches in flight"},
    {"interleaved", interleaved, 2, kAny, 2,
     "the bubble of 1f1b divided by pp_chunks, with pp_chunks times as many messages and more "
     "activations"},
    {"zb-h1", zero_bubble_h1, 1, 1, 1, "a third of the bubble of 1f1b, with as many activations"},
    {"zb-h2", zero_bubble_h2, 1, 1, 1,
     "no bubble if ranks need not start a step together, with twice the activations of 1f1b"},
    {"zb-v", zero_bubble_v, 2, 2, 2,
     "the smallest bubble: only the way to the last rank; as many activations as 1f1b, twice as "
     "many messages"},
    {"v-half", v_half, 2, 2, 2, "half the activations of 1f1b at every rank, with half its bubble"},
    {"v-min", v_min, 2, 2, 2,
     "two thirds of the bubble of 1f1b, with a third of its activations at every rank"},
    {"dualpipe-v", dual_pipe_v, 2, 2, 2,
     "most work in pairs of a forward and a backward pass that a device may run at the same time"},
};

const BuiltInSchedule& schedule_named(std::string_view name) {
  if (const BuiltInSchedule* const found = find_schedule(name)) return *found;
  std::vector<std::string> names;
  for (const BuiltInSchedule& one : kSchedules) names.emplace_back(one.name);
  if (name.find_first_of("./") != std::string_view::npos) {
    throw ConfigError(
        fmt::format("parallel.pp_schedule = \"{}\": there is no such file; a name without a dot or "
                    "a slash is that of a built-in schedule: {}",
                    name, fmt::join(names, ", ")));
  }
  throw ConfigError(fmt::format(
      "parallel.pp_schedule = \"{}\": there is no such schedule; did you mean \"{}\"? There are {}",
      name, nearest(name, names), fmt::join(names, ", ")));
}

void refuse_size_below_1(std::string_view what, int size) {
  if (size < 1)
    throw ConfigError(fmt::format("a pipeline has no {} {}; use 1 or more", size, what));
}

void check_chunks(const BuiltInSchedule& schedule, int chunks) {
  if (chunks >= schedule.minimum_chunks && chunks <= schedule.maximum_chunks) return;
  const bool fixed = schedule.minimum_chunks == schedule.maximum_chunks;
  throw ConfigError(fmt::format(
      "parallel.pp_chunks = {}: the schedule \"{}\" has {}{} stage{} a rank; use pp_chunks = {}{}",
      chunks, schedule.name, schedule.minimum_chunks, fixed ? "" : " or more",
      schedule.minimum_chunks == 1 ? "" : "s", schedule.default_chunks,
      fixed && schedule.maximum_chunks == 1 ? ", or pp_schedule = \"interleaved\"" : ""));
}

}  // namespace

std::span<const BuiltInSchedule> schedules() {
  return kSchedules;
}

const BuiltInSchedule* find_schedule(std::string_view name) {
  const auto found = std::ranges::find(kSchedules, name, &BuiltInSchedule::name);
  return found == std::end(kSchedules) ? nullptr : found;
}

Schedule make_schedule(std::string_view name, const PipelineShape& shape, const Costs& costs) {
  const BuiltInSchedule& built_in = schedule_named(name);
  refuse_size_below_1("ranks", shape.num_ranks);
  refuse_size_below_1("micro-batches", shape.num_micro_batches);
  refuse_size_below_1("buffers", shape.buffers);
  check_chunks(built_in, shape.chunks);
  const size_t stages = static_cast<size_t>(shape.num_ranks) * shape.chunks;
  COLOSSAL_CHECK(costs.stages.empty() || costs.stages.size() == stages, "costs of {} stages for {}",
                 costs.stages.size(), stages);
  COLOSSAL_CHECK(costs.messages.empty() || costs.messages.size() == stages - 1,
                 "costs of {} boundaries for {} stages", costs.messages.size(), stages);
  Schedule schedule = built_in.order(shape, costs);
  schedule.name = name;
  return with_communication(std::move(schedule), shape.buffers);
}

Schedule empty_schedule(const PipelineShape& shape, std::vector<int> rank_of_stage) {
  Schedule schedule;
  schedule.num_micro_batches = shape.num_micro_batches;
  schedule.rank_of_stage = std::move(rank_of_stage);
  schedule.actions.resize(shape.num_ranks);
  return schedule;
}

Schedule first_micro_batches(Schedule schedule, int num_micro_batches) {
  schedule.num_micro_batches = num_micro_batches;
  for (std::vector<Action>& actions : schedule.actions) {
    std::erase_if(actions, [&](const Action& one) { return one.micro_batch >= num_micro_batches; });
  }
  return schedule;
}

}  // namespace colossal::parallel::pipeline
