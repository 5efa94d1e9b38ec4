#include "colossal/plan/step_time.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <set>
#include <utility>

#include "colossal/base/error.h"
#include "colossal/job/pipeline_config.h"
#include "colossal/parallel/pipeline/simulator.h"
#include "colossal/plan/rank_rates.h"

namespace colossal::plan {
namespace {

using parallel::pipeline::Action;
using parallel::pipeline::ActionKind;

// Steps through a recording in its order, and advances the rank's clock.
class Clock {
 public:
  Clock(const RecordedStep& step, const RankRates& rates, int rank,
        const std::function<bool(const Collective&)>& is_free)
      : step_(step),
        rates_(rates),
        rank_(rank),
        is_free_(is_free),
        ends_(step.recording.collectives.size()) {}

  // Returns what the rank does up to these numbers of operators and collectives.
  TimeShares advance(int64_t operators, int64_t collectives) {
    shares_ = {};
    const Recording& recording = step_.recording;
    while (operator_ < operators || collective_ < collectives) {
      const bool wait_next = wait_ < recording.waits.size() &&
                             recording.waits[wait_].operators <= operator_ &&
                             recording.waits[wait_].collectives <= collective_;
      if (wait_next) {
        wait_for(recording.waits[wait_++].collective);
      } else if (collective_ < collectives &&
                 recording.collectives[collective_].operators <= operator_) {
        call(collective_++);
      } else {
        compute(recording.operators[operator_++]);
      }
    }
    return std::exchange(shares_, {});
  }

  // Returns the waits that are left after the last operator.
  TimeShares finish() {
    shares_ = {};
    for (; wait_ < step_.recording.waits.size(); ++wait_) {
      wait_for(step_.recording.waits[wait_].collective);
    }
    return std::exchange(shares_, {});
  }

 private:
  void compute(const Operator& made) {
    const double seconds = static_cast<double>(made.times) * rates_.seconds_of(made);
    const OperatorKind kind = made.work.kind;
    (kind == OperatorKind::product ? shares_.products
     : kind == OperatorKind::other ? shares_.other_operators
                                   : shares_.attention) += seconds;
    now_ += seconds;
  }

  void delay(const std::string& axis, double seconds) {
    if (seconds <= 0) return;
    shares_.communication[axis] += seconds;
    now_ += seconds;
  }

  // Messages between stages are left to the simulation of the pipeline.
  void call(size_t index) {
    const Collective& call = step_.recording.collectives[index];
    if (call.operation == comm::Operation::send || (is_free_ && is_free_(call))) return;
    const double seconds =
        rates_.call_seconds(call.operation, call.law_bytes,
                            rates_.place_of(step_.recording.rank_lists[call.ranks], rank_));
    const double hidden = call.asynchronous ? seconds * rates_.overlap() : 0;
    delay(call.axis, call.asynchronous ? seconds - hidden : 0);
    double& free = free_[call.axis];
    free = std::max(free, now_) + (call.asynchronous ? hidden : seconds);
    ends_[index] = free;
    if (!call.asynchronous) wait_for(index);
  }

  void wait_for(size_t index) {
    delay(step_.recording.collectives[index].axis, ends_[index] - now_);
  }

  const RecordedStep& step_;
  const RankRates& rates_;
  int rank_;
  const std::function<bool(const Collective&)>& is_free_;
  double now_ = 0;
  std::map<std::string, double> free_;  // by axis: when its calls so far have ended
  std::vector<double> ends_;            // by collective: when it has ended
  int64_t operator_ = 0, collective_ = 0;
  size_t wait_ = 0;
  TimeShares shares_;  // since the last advance()
};

double tier_seconds(const memory::TierPools::Traffic& before,
                    const memory::TierPools::Traffic& after, const RankRates& rates) {
  double seconds = 0;
  for (const auto& [key, moved] : after) {
    const auto found = before.find(key);
    const int64_t earlier = found == before.end() ? 0 : found->second.to + found->second.from;
    seconds += rates.tier_seconds(key.first, moved.to + moved.from - earlier);
  }
  return seconds * (1 - rates.overlap());
}

// Means over the actions of a stage.
struct StageMeans {
  double forward = 0, input = 0, weight = 0, whole = 0;
  int64_t forwards = 0, inputs = 0, weights = 0, wholes = 0;

  void add(const RankSeconds::OfAction& made) {
    const double seconds = made.seconds.total() * static_cast<double>(made.times);
    const auto count = [&](double& sum, int64_t& number) {
      sum += seconds;
      number += made.times;
    };
    if (made.action.kind == ActionKind::forward) count(forward, forwards);
    if (made.action.kind == ActionKind::backward_input) count(input, inputs);
    if (made.action.kind == ActionKind::backward_weight) count(weight, weights);
    if (made.action.kind == ActionKind::backward) count(whole, wholes);
  }

  parallel::pipeline::StageCosts costs() const {
    const auto mean = [](double sum, int64_t number) {
      return number == 0 ? 0 : sum / static_cast<double>(number);
    };
    parallel::pipeline::StageCosts of{.forward = mean(forward, forwards),
                                      .input_gradient = mean(input, inputs),
                                      .weight_gradient = mean(weight, weights)};
    // Schedules use either whole backward passes or, for some of them, their parts.
    if (wholes > 0 && inputs == 0) {
      of.input_gradient = of.weight_gradient = mean(whole, wholes) / 2;
    }
    return of;
  }
};

// Gives the stages of ranks that were not recorded the costs of the nearest recorded stage without
// embedding and head, by their numbers of blocks.
void complete(const Job& job, const std::set<int>& recorded, parallel::pipeline::Costs& costs) {
  const Strategy& strategy = job.strategy;
  const int stages = strategy.num_stages();
  const auto blocks = [&](int stage) {
    return static_cast<double>(strategy.blocks_of_stage(stage, job.model.facts.layers).size());
  };
  for (int stage = 0; stage < stages; ++stage) {
    if (recorded.contains(stage)) continue;
    const int like = *std::ranges::min_element(recorded, {}, [&](int other) {
      const bool has_an_end = other == 0 || other == stages - 1;
      return std::pair(has_an_end, std::abs(other - stage));
    });
    const double ratio = blocks(like) == 0 ? 1 : blocks(stage) / blocks(like);
    const parallel::pipeline::StageCosts& of_like = costs.stages[like];
    costs.stages[stage] = {of_like.forward * ratio, of_like.input_gradient * ratio,
                           of_like.weight_gradient * ratio};
    if (stage + 1 < stages) costs.messages[stage] = std::ranges::max(costs.messages);
  }
}

parallel::pipeline::Costs measured_costs(const std::vector<RankSeconds>& ranks, const Job& job,
                                         const ClusterSpecification& cluster) {
  const Strategy& strategy = job.strategy;
  const RankRates rates(cluster, job);
  const int apart = strategy.world_size() / strategy.pp;
  parallel::pipeline::Costs costs;
  costs.stages.resize(strategy.num_stages(), {0, 0, 0});
  costs.messages.resize(strategy.num_stages() - 1);
  std::set<int> recorded;
  for (const RankSeconds& rank : ranks) {
    std::map<int, StageMeans> means;
    for (const RankSeconds::OfAction& made : rank.actions) {
      means[made.action.stage].add(made);
      if (made.action.kind != ActionKind::send_forward) continue;
      const int to = strategy.stage_rank(made.action.stage + 1);
      const int peer = rank.rank + (to - rank.rank / apart) * apart;
      double& seconds = costs.messages[made.action.stage];
      seconds = std::max(seconds, rates.message_seconds(made.message_bytes, rank.rank, peer));
    }
    for (const auto& [stage, of_stage] : means) {
      recorded.insert(stage);
      const parallel::pipeline::StageCosts here = of_stage.costs();
      if (here.total() > costs.stages[stage].total()) costs.stages[stage] = here;
    }
  }
  complete(job, recorded, costs);
  return costs;
}

}  // namespace

double TimeShares::total() const {
  double sum = products + attention + other_operators + update + tiers;
  for (const auto& [axis, seconds] : communication) sum += seconds;
  return sum;
}

TimeShares& TimeShares::operator+=(const TimeShares& other) {
  products += other.products;
  attention += other.attention;
  other_operators += other.other_operators;
  update += other.update;
  tiers += other.tiers;
  for (const auto& [axis, seconds] : other.communication) communication[axis] += seconds;
  return *this;
}

TimeShares TimeShares::scaled(double factor) const {
  TimeShares result{.products = products * factor,
                    .attention = attention * factor,
                    .other_operators = other_operators * factor,
                    .update = update * factor,
                    .communication = communication,
                    .tiers = tiers * factor};
  for (auto& [axis, seconds] : result.communication) seconds *= factor;
  return result;
}

TimeShares RankSeconds::total() const {
  TimeShares sum = rest;
  for (const OfAction& made : actions) {
    sum += made.seconds.scaled(static_cast<double>(made.times));
  }
  return sum;
}

RankSeconds seconds_of(const RecordedStep& step, const Job& job, int rank,
                       const ClusterSpecification& cluster,
                       const std::function<bool(const Collective&)>& is_free) {
  const RankRates rates(cluster, job);
  Clock clock(step, rates, rank, is_free);
  RankSeconds result{.rank = rank, .actions = {}, .rest = {}};
  int64_t collectives = 0;
  memory::TierPools::Traffic moved;
  for (const ActionMark& mark : step.actions) {
    RankSeconds::OfAction& made = result.actions.emplace_back();
    made.action = mark.action;
    made.times = mark.action.micro_batch == step.middle ? step.middle_repeats : 1;
    made.seconds = clock.advance(mark.operators, mark.collectives);
    made.seconds.tiers = tier_seconds(moved, mark.tier_traffic, rates);
    for (; collectives < mark.collectives; ++collectives) {
      const Collective& call = step.recording.collectives[collectives];
      if (call.operation == comm::Operation::send) made.message_bytes += call.law_bytes;
    }
    moved = mark.tier_traffic;
  }
  result.rest =
      clock.advance(std::ssize(step.recording.operators), std::ssize(step.recording.collectives));
  result.rest += clock.finish();
  result.rest.tiers = tier_seconds(moved, step.tier_traffic, rates);
  const at::ScalarType masters = job.precision.compute == at::kDouble ? at::kDouble : at::kFloat;
  result.rest.update = rates.update_seconds(step.update_bytes, masters);
  return result;
}

namespace {

// Returns the time of the forward passes of a rank.
TimeShares forward_of(const RankSeconds& rank) {
  TimeShares sum;
  for (const RankSeconds::OfAction& made : rank.actions) {
    if (made.action.kind != parallel::pipeline::ActionKind::forward) continue;
    sum += made.seconds.scaled(static_cast<double>(made.times));
  }
  return sum;
}

// Adds the forward passes that precede those of the step. The last stage begins when the first
// micro-batch has passed the others.
void add_first_pass(const RankSeconds& longest, const Job& job, StepTime& time) {
  const auto micro_batches = static_cast<double>(job.num_micro_batches());
  if (!job.model.text_tower || micro_batches == 1) return;
  const TimeShares forward = forward_of(longest);
  const double begin = forward.total() * (job.strategy.num_stages() - 1) / micro_batches;
  time.shares += forward;
  time.seconds += forward.total() + begin;
  time.pipeline_wait += begin;
}

}  // namespace

StepTime step_time(const std::vector<RankSeconds>& ranks, const Job& job,
                   const ClusterSpecification& cluster) {
  const RankSeconds& longest = *std::ranges::max_element(
      ranks, {}, [](const RankSeconds& rank) { return rank.total().total(); });
  StepTime time{.seconds = longest.total().total(), .shares = longest.total()};
  if (job.strategy.pp == 1) {
    add_first_pass(longest, job, time);
    return time;
  }
  const parallel::pipeline::Costs estimated =
      stage_costs(job.strategy, job.model.facts, job.sequence_length);
  const auto schedule = training_schedule(job.strategy, estimated, job.num_micro_batches());
  double rest = 0;
  for (const RankSeconds& rank : ranks) rest = std::max(rest, rank.rest.total());
  const parallel::pipeline::Simulation simulation =
      simulate(schedule, measured_costs(ranks, job, cluster));
  // The rates assume that all ranks of a host compute. While some wait for other stages, the others
  // have their cores, up to one for each thread.
  const double faster =
      std::max(1 / RankRates(cluster, job).crowding(), 1 - simulation.bubble_share());
  time.shares = longest.rest;
  for (const RankSeconds::OfAction& made : longest.actions) {
    time.shares += made.seconds.scaled(static_cast<double>(made.times) * faster);
  }
  time.seconds = simulation.makespan * faster + rest;
  time.pipeline_wait = time.seconds - time.shares.total();
  add_first_pass(longest, job, time);
  return time;
}

}  // namespace colossal::plan
