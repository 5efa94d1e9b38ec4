#include "colossal/training/run_timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <utility>

#include "colossal/parallel/pipeline/stage_cut.h"

namespace colossal {
namespace {

using nlohmann::json;
using parallel::pipeline::Action;
using parallel::pipeline::ActionKind;
using parallel::pipeline::Costs;
using parallel::pipeline::Schedule;
using parallel::pipeline::Simulation;
using parallel::pipeline::Span;

constexpr double kMicroseconds = 1e6;
// Another cut is reported only if it reduces the time of the slowest stage to this share: less is
// noise.
constexpr double kWorthTelling = 0.97;

std::string to_text(const RankTimes& rank) {
  json barriers = json::array(), actions = json::array();
  for (const PassedBarrier& passed : rank.barriers) {
    barriers.push_back({passed.entered, passed.left});
  }
  for (const TimedAction& timed : rank.actions) {
    actions.push_back({static_cast<int>(timed.action.kind), timed.action.stage,
                       timed.action.micro_batch, timed.waits, timed.step, timed.begin, timed.end});
  }
  return json{rank.pipeline_rank, barriers, actions}.dump();
}

RankTimes from_text(const std::string& text) {
  const json told = json::parse(text);
  RankTimes rank{.pipeline_rank = told[0], .barriers = {}, .actions = {}};
  for (const json& passed : told[1]) rank.barriers.push_back({passed[0], passed[1]});
  for (const json& timed : told[2]) {
    rank.actions.push_back(
        {.action = {static_cast<ActionKind>(timed[0].get<int>()), timed[1], timed[2]},
         .waits = timed[3],
         .step = timed[4],
         .begin = timed[5],
         .end = timed[6]});
  }
  return rank;
}

struct Mean {
  double sum = 0;
  int64_t count = 0;
  void add(double value) {
    sum += value;
    ++count;
  }
  double value() const { return count == 0 ? 0 : sum / static_cast<double>(count); }
};

// Maps each step to the time from its first begin to its last end, over all ranks.
using StepSpans = std::map<int64_t, Span>;

StepSpans spans_of_steps(std::span<const RankTimes> ranks) {
  StepSpans steps;
  for (const RankTimes& rank : ranks) {
    for (const TimedAction& timed : rank.actions) {
      if (timed.waits) continue;
      Span& step = steps.try_emplace(timed.step, Span{timed.begin, timed.end}).first->second;
      step.start = std::min(step.start, timed.begin);
      step.end = std::max(step.end, timed.end);
    }
  }
  return steps;
}

report::TraceEvent event_of(const Action& action, int64_t step, int rank, double begin,
                            double end) {
  return {.name = parallel::pipeline::in_words(action),
          .category = "computation",
          .start_microseconds = begin * kMicroseconds,
          .duration_microseconds = (end - begin) * kMicroseconds,
          .rank = rank,
          .thread = "measured",
          .arguments = {{"step", step},
                        {"stage", int64_t{action.stage}},
                        {"micro_batch", int64_t{action.micro_batch}},
                        {"action", parallel::pipeline::action_name(action)}}};
}

report::TraceEvent measured_event(const TimedAction& timed, int rank, double origin) {
  report::TraceEvent event =
      event_of(timed.action, timed.step, rank, timed.begin - origin, timed.end - origin);
  if (timed.waits) {
    event.name = "waits for " + event.name;
    event.category = "wait";
  }
  return event;
}

void add_simulated(const Schedule& schedule, const Simulation& simulation, int pipeline_rank,
                   int rank, int64_t step, double begin, std::vector<report::TraceEvent>& events) {
  const std::vector<Action>& actions = schedule.actions[pipeline_rank];
  const std::vector<Span>& spans = simulation.spans[pipeline_rank];
  for (size_t i = 0; i < actions.size(); ++i) {
    if (!parallel::pipeline::is_computation(actions[i].kind)) continue;
    events.push_back(
        event_of(actions[i], step, rank, begin + spans[i].start, begin + spans[i].end));
    events.back().thread = "simulated";
  }
}

int num_micro_batches(std::span<const RankTimes> ranks) {
  int number = 0;
  for (const RankTimes& rank : ranks) {
    for (const TimedAction& timed : rank.actions) {
      number = std::max(number, timed.action.micro_batch + 1);
    }
  }
  return number;
}

std::string describe_stages(const Costs& costs, const Strategy& strategy) {
  if (strategy.num_stages() == 1 || costs.stages.empty()) return {};
  std::vector<std::string> took;
  for (const parallel::pipeline::StageCosts& stage : costs.stages) {
    took.push_back(fmt::format("{:.2f}", 1e3 * stage.total()));
  }
  std::string text =
      fmt::format("\nthe stages take {} ms for a micro-batch", fmt::join(took, " + "));
  const std::vector<int> cut = better_stage_blocks(costs, strategy.stage_blocks);
  if (!cut.empty()) {
    text +=
        fmt::format("; parallel.pp_layers = [{}] would balance them better", fmt::join(cut, ", "));
  }
  return text;
}

double align_clocks(std::vector<RankTimes>& ranks) {
  std::vector<std::vector<PassedBarrier>> barriers;
  for (const RankTimes& rank : ranks) barriers.push_back(rank.barriers);
  const std::vector<ClockOffset> offsets = clock_offsets(barriers);
  double uncertainty = 0;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    uncertainty = std::max(uncertainty, offsets[rank].uncertainty);
    for (TimedAction& timed : ranks[rank].actions) {
      timed.begin -= offsets[rank].seconds;
      timed.end -= offsets[rank].seconds;
    }
  }
  return uncertainty;
}

}  // namespace

Costs measured_costs(std::span<const RankTimes> ranks, int num_stages) {
  std::vector<std::map<ActionKind, Mean>> means(num_stages);
  for (const RankTimes& rank : ranks) {
    for (const TimedAction& timed : rank.actions) {
      if (!timed.waits) means[timed.action.stage][timed.action.kind].add(timed.seconds());
    }
  }
  Costs costs;
  for (auto& stage : means) {
    // A whole backward pass counts as an input gradient.
    const double whole = stage[ActionKind::backward].value();
    const double input = stage[ActionKind::backward_input].value();
    const double weight = stage[ActionKind::backward_weight].value();
    costs.stages.push_back({.forward = stage[ActionKind::forward].value(),
                            .input_gradient = input > 0 ? input : whole,
                            .weight_gradient = weight});
  }
  return costs;
}

std::vector<int> better_stage_blocks(const Costs& measured,
                                     const std::vector<int64_t>& stage_blocks) {
  const auto took = [&](size_t stage) { return measured.stages[stage].total(); };
  const size_t last = stage_blocks.size() - 1;
  // Stages in the middle have blocks only, so they show the time of a block. The rest of the first
  // and of the last stage's time is that of the embedding and the head.
  Mean block;
  for (size_t stage = 1; stage < last; ++stage) {
    block.add(took(stage) / static_cast<double>(stage_blocks[stage]));
  }
  if (block.count == 0) block.add(took(0) / static_cast<double>(stage_blocks[0]));
  const auto beside_blocks = [&](size_t stage) {
    return std::max(0.0, took(stage) - static_cast<double>(stage_blocks[stage]) * block.value());
  };
  const double embedding = beside_blocks(0), head = beside_blocks(last);
  const auto longest = [&](const auto& blocks) {
    double most = 0;
    for (size_t stage = 0; stage <= last; ++stage) {
      most = std::max(most, static_cast<double>(blocks[stage]) * block.value() +
                                (stage == 0 ? embedding : 0) + (stage == last ? head : 0));
    }
    return most;
  };
  const auto all = std::accumulate(stage_blocks.begin(), stage_blocks.end(), int64_t{0});
  const std::vector<double> costs(all, block.value());
  std::vector<int> cut =
      parallel::pipeline::cut_stages(costs, embedding, head, static_cast<int>(last) + 1);
  if (longest(cut) > kWorthTelling * longest(stage_blocks)) cut.clear();
  return cut;
}

RunTimelineResult make_timeline(std::vector<RankTimes> ranks, const Schedule& schedule) {
  RunTimelineResult result;
  result.uncertainty = align_clocks(ranks);
  const StepSpans steps = spans_of_steps(ranks);
  if (steps.empty()) return result;
  result.costs = measured_costs(ranks, schedule.num_stages());
  const Simulation simulation = simulate(schedule, result.costs);
  const double origin = steps.begin()->second.start;
  for (int rank = 0; rank < static_cast<int>(ranks.size()); ++rank) {
    for (const TimedAction& timed : ranks[rank].actions) {
      result.events.push_back(measured_event(timed, rank, origin));
    }
    for (const auto& [step, span] : steps) {
      add_simulated(schedule, simulation, ranks[rank].pipeline_rank, rank, step,
                    span.start - origin, result.events);
    }
  }
  Mean measured;
  for (const auto& [step, span] : steps) measured.add(span.end - span.start);
  result.steps = measured.count;
  result.measured = measured.value();
  result.simulated = simulation.makespan;
  result.bubble_share = simulation.bubble_share();
  return result;
}

std::vector<RankTimes> RunTimeline::finish() {
  engine_.record_actions(nullptr);
  const comm::Group& all = engine_.context().world_group();
  const RankTimes mine{.pipeline_rank = engine_.context().coordinate(Axis::pp),
                       .barriers = pass_barriers(all),
                       .actions = std::exchange(actions_, {})};
  std::vector<RankTimes> ranks;
  for (const std::string& text : comm::gather_bytes(to_text(mine), all, comm::Reason::metrics)) {
    ranks.push_back(from_text(text));
  }
  return ranks;
}

std::string write_timeline(std::vector<RankTimes> ranks, Engine& engine,
                           const std::filesystem::path& directory) {
  const Schedule& schedule = engine.training_schedule(num_micro_batches(ranks));
  const RunTimelineResult result = make_timeline(std::move(ranks), schedule);
  report::TraceWriter trace(directory / "timeline.json");
  for (const report::TraceEvent& event : result.events) trace.write(event);
  trace.close();
  return fmt::format(
      "timeline.json: {:.1f} ms from the first forward pass of a step to the last backward pass; "
      "simulated from the times of its stages: {:.1f} ms, of which ranks wait {:.1f} %{}",
      result.measured * 1e3, result.simulated * 1e3, 100 * result.bubble_share,
      describe_stages(result.costs, engine.context().strategy()));
}

}  // namespace colossal
