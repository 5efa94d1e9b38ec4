#include "colossal/plan/step_time.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <set>
#include <utility>

#include "colossal/base/error.h"
#include "colossal/booster/pipeline_config.h"
#include "colossal/parallel/pipeline/simulator.h"

namespace colossal::plan {
namespace {

using parallel::pipeline::Action;
using parallel::pipeline::ActionKind;

// Bytes that the cross-entropy of a logit reads and writes, if device.logits is not given.
constexpr double kBytesOfLogit = 12;

double required(const std::optional<double>& rate, const std::string& key, const char* what) {
  if (rate) return *rate;
  throw ConfigError(
      fmt::format("the cluster file has no {}, and the step {}; give this rate, which "
                  "`colossal check --cluster=FILE` measures on a machine",
                  key, what));
}

// The rates of one rank.
class RankRates {
 public:
  RankRates(const ClusterSpecification& cluster, const Job& job) : cluster_(cluster) {
    local_ranks_ = cluster.local_ranks(job.strategy.world_size());
    if (cluster.on_gpus()) return;
    const auto threads = static_cast<double>(local_ranks_ * job.threads);
    crowding_ = std::max(1.0, threads / static_cast<double>(cluster.hosts.cores));
    cores_ = job.threads / crowding_;
  }

  double seconds_of(const Operator& made) const {
    const OperatorWork& work = made.work;
    if (work.kind == OperatorKind::other && made.bytes == 0) return 0;
    const double overhead = cluster_.device.operator_seconds * crowding_;
    const auto& [name, rates] = rates_of(made.type);
    if (work.kind == OperatorKind::other) {
      return overhead + static_cast<double>(made.bytes) / (elements(name, rates) * cores_);
    }
    const double products = required(rates.products, name + ".products", "multiplies matrices");
    if (work.kind == OperatorKind::product) {
      const auto side = static_cast<double>(work.narrowest);
      const double rate = products * side / (side + cluster_.device.half_rate_size);
      const double of_logits = work.logits == 0
                                   ? 0
                                   : work.logits / cluster_.device.logits.value_or(
                                                       elements(name, rates) / kBytesOfLogit);
      return overhead + (work.flops == 0 ? 0 : work.flops / rate / cores_) + of_logits / cores_;
    }
    const auto& attention =
        work.kind == OperatorKind::attention ? rates.attention : rates.attention_backward;
    return overhead + work.flops / (attention.value_or(products / 2) * cores_);
  }

  double update_seconds(int64_t bytes, at::ScalarType type) const {
    if (bytes == 0) return 0;
    const auto& [name, rates] = rates_of(type);
    return static_cast<double>(bytes) / (elements(name, rates) * cores_);
  }

  // Returns the time of a call, from the moment when all ranks have made it.
  double seconds_of(const Collective& call, const std::vector<int>& ranks, int rank) const {
    const auto size = static_cast<unsigned>(ranks.size());
    const double steps = std::bit_width(size - 1);
    const auto bytes = static_cast<double>(call.law_bytes);
    const int64_t host = rank / local_ranks_;
    const auto here = std::ranges::count_if(ranks, [&](int r) { return r / local_ranks_ == host; });
    double seconds = 0;
    if (here > 1) {
      seconds = crowding_ * bytes /
                required(cluster_.links.bandwidth, "links.bandwidth",
                         "communicates between the ranks of a host");
    }
    if (here == std::ssize(ranks)) {
      return seconds + crowding_ * steps *
                           required(cluster_.links.latency, "links.latency",
                                    "communicates between the ranks of a host");
    }
    const char* const what = "communicates between hosts";
    const double network =
        required(cluster_.links.network_bandwidth, "links.network_bandwidth", what);
    return std::max(seconds, bytes * shares_of_network(call, here, std::ssize(ranks)) / network) +
           steps * required(cluster_.links.network_latency, "links.network_latency", what);
  }

  double message_seconds(int64_t bytes, int from, int to) const {
    const Collective message{.operation = comm::Operation::send, .law_bytes = bytes};
    return seconds_of(message, {from, to}, from);
  }

  double tier_seconds(memory::Tier tier, int64_t bytes) const {
    if (bytes == 0) return 0;
    const bool host = tier == memory::Tier::host;
    return crowding_ * static_cast<double>(bytes) /
           required(host ? cluster_.links.host_bandwidth : cluster_.links.nvme_bandwidth,
                    host ? "links.host_bandwidth" : "links.nvme_bandwidth", "offloads tensors");
  }

  double overlap() const { return cluster_.links.overlap; }
  // Returns the threads of the host's ranks for each of its cores, at least 1.
  double crowding() const { return crowding_; }

 private:
  // Returns the bytes that a host sends to other hosts, as a multiple of the law's bytes of a call.
  // All groups of the host make such a call at the same time. In a reduction, a gather or a ring,
  // a group sends the law's bytes once out of a host; in other calls each rank does, as far as its
  // partners are on other hosts.
  double shares_of_network(const Collective& call, int64_t here, int64_t size) const {
    const auto local = static_cast<double>(local_ranks_);
    if (call.operation == comm::Operation::send) return local;
    if (call.operation != comm::Operation::all_to_all) return local / static_cast<double>(here);
    return local * static_cast<double>(size - here) / static_cast<double>(size - 1);
  }

  std::pair<std::string, const ComputeRates&> rates_of(at::ScalarType type) const {
    if (type == at::kDouble) return {"fp64", cluster_.fp64};
    if (type == at::kBFloat16 || type == at::kHalf) return {"bf16", cluster_.bf16};
    return {"fp32", cluster_.fp32};
  }

  // Without a rate of the type, that of another type: it is a rate of bytes.
  double elements(const std::string& name, const ComputeRates& rates) const {
    for (const ComputeRates* const of : {&rates, &cluster_.fp32, &cluster_.bf16, &cluster_.fp64}) {
      if (of->elements) return *of->elements;
    }
    return required(std::nullopt, name + ".elements", "has operators that are no products");
  }

  const ClusterSpecification& cluster_;
  int64_t local_ranks_ = 1;
  double crowding_ = 1;  // threads of the host's ranks for each of its cores, if more than 1
  double cores_ = 1;     // cores that a rank has, or 1 GPU
};

// Steps through a recording in its order, and advances the rank's clock.
class Clock {
 public:
  Clock(const RecordedStep& step, const RankRates& rates, int rank)
      : step_(step), rates_(rates), rank_(rank), ends_(step.recording.collectives.size()) {}

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
    const double seconds = rates_.seconds_of(made);
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
    if (call.operation == comm::Operation::send) return;
    const double seconds = rates_.seconds_of(call, step_.recording.rank_lists[call.ranks], rank_);
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
                       const ClusterSpecification& cluster) {
  const RankRates rates(cluster, job);
  Clock clock(step, rates, rank);
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

StepTime step_time(const std::vector<RankSeconds>& ranks, const Job& job,
                   const ClusterSpecification& cluster) {
  const RankSeconds& longest = *std::ranges::max_element(
      ranks, {}, [](const RankSeconds& rank) { return rank.total().total(); });
  StepTime time{.seconds = longest.total().total(), .shares = longest.total()};
  if (job.strategy.pp == 1) return time;
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
  return time;
}

}  // namespace colossal::plan
