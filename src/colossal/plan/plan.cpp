#include "colossal/plan/plan.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <mutex>
#include <set>
#include <thread>

#include "colossal/base/machine.h"
#include "colossal/layout/expert_places.h"
#include "colossal/mesh/rank_grid.h"
#include "colossal/training/saving_checks.h"

namespace colossal::plan {
namespace {

// A part of the recording, and how many times it counts.
struct Span {
  int64_t operators_begin, operators_end;
  int64_t collectives_begin, collectives_end;
  int64_t times;
};

std::vector<Span> spans_of(const RecordedStep& step) {
  std::vector<Span> spans;
  int64_t operators = 0, collectives = 0;
  const auto add = [&](int64_t operators_end, int64_t collectives_end, int64_t times) {
    spans.push_back({operators, operators_end, collectives, collectives_end, times});
    operators = operators_end;
    collectives = collectives_end;
  };
  for (const ActionMark& mark : step.actions) {
    add(mark.operators, mark.collectives,
        mark.action.micro_batch == step.middle ? step.middle_repeats : 1);
  }
  add(std::ssize(step.recording.operators), std::ssize(step.recording.collectives), 1);
  return spans;
}

memory::TierPools::Traffic tier_traffic_of(const RecordedStep& step) {
  memory::TierPools::Traffic traffic = step.tier_traffic;
  const int64_t unrecorded = step.middle_repeats - 1;
  if (unrecorded == 0) return traffic;
  const auto add = [&](const memory::TierPools::Traffic& from, int64_t times) {
    for (const auto& [key, moved] : from) {
      traffic[key].to += times * moved.to;
      traffic[key].from += times * moved.from;
    }
  };
  for (size_t i = 1; i < step.actions.size(); ++i) {
    if (step.actions[i].action.micro_batch != step.middle) continue;
    add(step.actions[i].tier_traffic, unrecorded);
    add(step.actions[i - 1].tier_traffic, -unrecorded);
  }
  return traffic;
}

bool is_of_training(comm::Reason reason) {
  return reason != comm::Reason::control && reason != comm::Reason::metrics;
}

void count_partners(const Recording& recording, RankPlan& plan) {
  std::map<std::string, std::set<size_t>> lists;
  std::set<size_t> training_lists;
  for (const Collective& call : recording.collectives) {
    lists[call.axis].insert(call.partners);
    if (is_of_training(call.reason)) training_lists.insert(call.partners);
  }
  const auto distinct = [&](const std::set<size_t>& indices) {
    std::vector<int> ranks;
    for (const size_t index : indices) {
      const std::vector<int>& list = recording.rank_lists[index];
      ranks.insert(ranks.end(), list.begin(), list.end());
    }
    std::ranges::sort(ranks);
    return static_cast<int>(std::ranges::unique(ranks).begin() - ranks.begin());
  };
  std::set<size_t> all;
  for (const auto& [axis, of_axis] : lists) {
    plan.partners[axis] = distinct(of_axis);
    all.insert(of_axis.begin(), of_axis.end());
  }
  plan.all_partners = distinct(all);
  plan.training_partners = distinct(training_lists);
}

// Returns whether the ranks along a side of tp, and along sp, have equal numbers of heads and
// tokens. Columns and rows of weights may differ by one.
bool shares_evenly(const Job& job) {
  const Strategy& strategy = job.strategy;
  const models::ModelFacts& facts = job.model.facts;
  const bool ulysses = strategy.sp > 1 && strategy.sequence_mode == SequenceMode::ulysses;
  const int64_t head_parts = int64_t{strategy.head_ranks()} * (ulysses ? strategy.sp : 1);
  const int64_t position_parts = int64_t{strategy.sp} * (ulysses || strategy.sp == 1 ? 1 : 2);
  const auto tokens_divide = [&](int64_t sequences) {
    return !strategy.tp_sequence ||
           sequences * (job.sequence_length / strategy.sp) % strategy.tp == 0;
  };
  // The ranks are also alike if each head of keys is shared by the same number of ranks.
  const bool keys_divide = facts.kv_heads % head_parts == 0 || head_parts % facts.kv_heads == 0;
  return facts.heads % head_parts == 0 && keys_divide &&
         job.sequence_length % position_parts == 0 && tokens_divide(job.micro_batch) &&
         tokens_divide(job.share);
}

}  // namespace

int64_t RankPlan::bytes_sent() const {
  int64_t bytes = 0;
  for (const auto& [key, of_key] : sent) bytes += of_key;
  return bytes;
}

int64_t RankPlan::tier_bytes(memory::Tier tier) const {
  int64_t bytes = 0;
  for (const auto& [key, moved] : tier_traffic) {
    if (key.first == tier) bytes += moved.to + moved.from;
  }
  return bytes;
}

RankPlan plan_of(const RecordedStep& step, int rank) {
  RankPlan plan{.rank = rank,
                .parameters = step.parameters,
                .memory_at_peak = step.recording.at_peak,
                .tier_traffic = tier_traffic_of(step),
                .at_rest = step.at_rest};
  for (const Span& span : spans_of(step)) {
    for (int64_t i = span.operators_begin; i < span.operators_end; ++i) {
      const Operator& made = step.recording.operators[i];
      plan.flops += static_cast<double>(span.times * made.times) * made.work.flops;
    }
    for (int64_t i = span.collectives_begin; i < span.collectives_end; ++i) {
      const Collective& call = step.recording.collectives[i];
      plan.sent[{call.axis, call.reason}] += span.times * call.law_bytes;
    }
  }
  for (const int64_t bytes : step.activation_bytes) {
    plan.activation_bytes = std::max(plan.activation_bytes, bytes);
  }
  count_partners(step.recording, plan);
  return plan;
}

RankPlan recorded_rank(const Job& job, int rank, const ClusterSpecification* cluster,
                       std::optional<int64_t> most_micro_batches) {
  const RecordedStep step = record_step(job, rank, most_micro_batches);
  RankPlan plan = plan_of(step, rank);
  if (cluster) plan.seconds = seconds_of(step, job, rank, *cluster);
  return plan;
}

namespace {

// Returns, for each pipeline rank, a rank whose experts had the most rows, if rows were observed.
std::set<int> ranks_with_most_rows(const Strategy& strategy, int64_t layers) {
  std::set<int> ranks;
  if (strategy.expert_rows.empty() || strategy.ep == 1) return ranks;
  const int of_place = strategy.world_size() / strategy.pp;
  for (int place = 0; place < strategy.pp; ++place) {
    std::vector<int64_t> loads(strategy.ep, 0);
    for (int64_t block = 0; block < layers; ++block) {
      const std::vector<int64_t>& rows = strategy.expert_rows.at(block);
      if (rows.empty() || strategy.stage_rank(strategy.stage_of_block(block)) != place) continue;
      const Partition experts(std::ssize(rows), strategy.ep);
      const std::vector<int64_t> order = place_by_load(rows, experts);
      for (int rank = 0; rank < strategy.ep; ++rank) {
        const Range here = experts.range(rank);
        for (int64_t i = here.begin; i < here.end; ++i) loads[rank] += rows[order[i]];
      }
    }
    const auto busiest = std::ranges::max_element(loads) - loads.begin();
    ranks.insert(place * of_place + static_cast<int>(busiest) * strategy.expert_tp);
  }
  return ranks;
}

}  // namespace

std::vector<int> ranks_to_record(const Job& job) {
  const RankGrid mesh(job.strategy);
  const bool even = shares_evenly(job);
  const bool one_d = job.strategy.tensor_mode == TensorMode::one_d;
  // Where ranks divide a dim, the first rank has the largest part and the last rank the smallest.
  // In 2d, 2.5d and 3d the second rank is recorded too, because ranks on the diagonal have no
  // mirror.
  const auto is_recorded = [&](int rank, int axis) {
    const int coordinate = mesh.coordinate(rank, axis);
    const bool at_an_end = coordinate == 0 || coordinate == mesh.size(axis) - 1;
    const std::string& name = mesh.axes()[axis].name;
    if (name.starts_with("dp") || at_an_end) return at_an_end;
    if (name.starts_with("tp") && !one_d) return coordinate == 1;
    return name == "pp" || !even;
  };
  const std::set<int> busiest = ranks_with_most_rows(job.strategy, job.model.facts.layers);
  std::vector<int> ranks;
  for (int rank = 0; rank < mesh.num_ranks(); ++rank) {
    bool recorded = true;
    for (int axis = 0; axis < mesh.num_axes(); ++axis) recorded &= is_recorded(rank, axis);
    if (recorded || busiest.contains(rank)) ranks.push_back(rank);
  }
  return ranks;
}

std::vector<RankPlan> record_ranks(const Job& job, const std::vector<int>& ranks,
                                   const ClusterSpecification* cluster) {
  memory::install_allocators();  // before other threads start
  std::vector<RankPlan> plans(ranks.size());
  std::atomic<size_t> next = 0;
  std::exception_ptr failure;
  std::mutex mutex;
  const auto record = [&] {
    at::set_num_threads(job.threads);
    try {
      for (size_t i = next++; i < ranks.size(); i = next++) {
        plans[i] = recorded_rank(job, ranks[i], cluster);
      }
    } catch (...) {
      const std::lock_guard lock(mutex);
      failure = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> threads;
    const auto wanted = std::min<size_t>(ranks.size(), machine::available_cores());
    for (size_t i = 0; i < wanted; ++i) threads.emplace_back(record);
  }
  if (failure) std::rethrow_exception(failure);
  return plans;
}

const RankPlan& Plan::rank_with_largest_peak() const {
  return *std::ranges::max_element(ranks, {}, &RankPlan::memory_peak_bytes);
}

Plan make_plan(const Job& job, const ClusterSpecification* cluster) {
  const auto start = std::chrono::steady_clock::now();
  Plan plan;
  plan.ranks = record_ranks(job, ranks_to_record(job), cluster);
  if (cluster) {
    std::vector<RankSeconds> seconds;
    for (const RankPlan& rank : plan.ranks) seconds.push_back(*rank.seconds);
    plan.time = step_time(seconds, job, *cluster);
  }
  plan.checkpoint_bytes = checkpoint_bytes(job);
  plan.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return plan;
}

std::vector<int> ranks_with_peaks(const Job& job) {
  const Strategy& strategy = job.strategy;
  if (strategy.tensor_mode != TensorMode::one_d || !shares_evenly(job)) return ranks_to_record(job);
  // The first rank of each pipeline rank.
  std::vector<int> firsts;
  const int apart = strategy.world_size() / strategy.pp;
  for (int rank = 0; rank < strategy.world_size(); rank += apart) firsts.push_back(rank);
  const std::set<int> busiest = ranks_with_most_rows(strategy, job.model.facts.layers);
  firsts.insert(firsts.end(), busiest.begin(), busiest.end());
  return firsts;
}

RankPlan rank_with_largest_peak(const Job& job) {
  return Plan{record_ranks(job, ranks_with_peaks(job))}.rank_with_largest_peak();
}

}  // namespace colossal::plan
