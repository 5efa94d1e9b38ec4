#include "colossal/parallel/pipeline/simulator.h"

#include <algorithm>

#include "colossal/base/error.h"

namespace colossal::parallel::pipeline {
namespace {

SimulatedRank summary_of(const std::vector<Action>& actions, const std::vector<Span>& spans) {
  SimulatedRank rank;
  bool first = true;
  for (size_t i = 0; i < actions.size(); ++i) {
    if (!is_computation(actions[i].kind)) continue;
    if (first) rank.start = spans[i].start;
    first = false;
    rank.end = std::max(rank.end, spans[i].end);
  }
  return rank;
}

}  // namespace

double Simulation::bubble_share() const {
  double busy = 0;
  for (const SimulatedRank& rank : ranks) busy += rank.busy;
  const double all = makespan * static_cast<double>(ranks.size());
  return all > 0 ? 1 - busy / all : 0;
}

Simulation simulate(const Schedule& schedule, const Costs& costs) {
  Execution execution = execute(schedule, costs);
  COLOSSAL_CHECK(execution.complete(), "a schedule that is not right: {}", schedule.name);
  const std::vector<InFlight> in_flight = in_flight_of_ranks(schedule);
  Simulation simulation;
  for (int rank = 0; rank < schedule.num_ranks(); ++rank) {
    SimulatedRank summary = summary_of(schedule.actions[rank], execution.spans[rank]);
    summary.busy = execution.busy[rank];
    summary.in_flight = in_flight[rank];
    simulation.makespan = std::max(simulation.makespan, summary.end);
    simulation.ranks.push_back(summary);
  }
  simulation.spans = std::move(execution.spans);
  return simulation;
}

}  // namespace colossal::parallel::pipeline
