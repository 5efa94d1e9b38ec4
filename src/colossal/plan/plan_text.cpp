#include "colossal/plan/plan_text.h"

#include <algorithm>
#include <set>

#include "colossal/base/config_value.h"
#include "colossal/base/units.h"
#include "colossal/mesh/rank_grid.h"
#include "colossal/plan/pipeline_plan.h"
#include "colossal/training/run_summary.h"

namespace colossal::plan {
namespace {

using memory::MemoryKind;
using memory::Tier;
using memory::TierTraffic;

constexpr MemoryKind kKinds[] = {MemoryKind::parameters, MemoryKind::gradients,
                                 MemoryKind::optimizer,  MemoryKind::activations,
                                 MemoryKind::gathered,   MemoryKind::communication,
                                 MemoryKind::other};

// Returns the rank with the largest `figure`, the first one if several have it.
template <typename Figure>
const RankPlan& largest_by(const Plan& plan, const Figure& figure) {
  return *std::max_element(
      plan.ranks.begin(), plan.ranks.end(),
      [&](const RankPlan& a, const RankPlan& b) { return figure(a) < figure(b); });
}

template <typename Figure>
auto largest(const Plan& plan, const Figure& figure) {
  return figure(largest_by(plan, figure));
}

int64_t sent_for(const RankPlan& rank, const std::string& axis) {
  int64_t bytes = 0;
  for (const auto& [key, of_key] : rank.sent) bytes += key.axis == axis ? of_key : 0;
  return bytes;
}

int64_t sent_for(const RankPlan& rank, comm::Reason reason) {
  int64_t bytes = 0;
  for (const auto& [key, of_key] : rank.sent) bytes += key.reason == reason ? of_key : 0;
  return bytes;
}

int64_t sent_for(const RankPlan& rank, const comm::Ledger::Key& key) {
  const auto found = rank.sent.find(key);
  return found == rank.sent.end() ? 0 : found->second;
}

int partners_on(const RankPlan& rank, const std::string& axis) {
  const auto found = rank.partners.find(axis);
  return found == rank.partners.end() ? 0 : found->second;
}

std::set<std::string> axes_of(const Plan& plan) {
  std::set<std::string> axes;
  for (const RankPlan& rank : plan.ranks) {
    for (const auto& [key, bytes] : rank.sent) axes.insert(key.axis);
  }
  return axes;
}

std::set<comm::Reason> reasons_of(const Plan& plan) {
  std::set<comm::Reason> reasons;
  for (const RankPlan& rank : plan.ranks) {
    for (const auto& [key, bytes] : rank.sent) reasons.insert(key.reason);
  }
  return reasons;
}

// Seconds with three digits: "4.21 s", "12.3 ms".
std::string format_seconds(double seconds) {
  return seconds >= 1 ? fmt::format("{:.3g} s", seconds) : fmt::format("{:.3g} ms", 1e3 * seconds);
}

// What the rank that computes and communicates longest does with its time.
std::vector<std::pair<std::string, double>> named_shares(const StepTime& time) {
  std::vector<std::pair<std::string, double>> shares{
      {"matrix products", time.shares.products},
      {"attention", time.shares.attention},
      {"other operators", time.shares.other_operators},
      {"update", time.shares.update},
      {"tiers", time.shares.tiers}};
  for (const auto& [axis, seconds] : time.shares.communication) {
    shares.emplace_back("waits on " + axis, seconds);
  }
  shares.emplace_back("waits for stages", time.pipeline_wait);
  std::erase_if(shares, [](const auto& share) { return share.second <= 0; });
  return shares;
}

std::string time_table(const Plan& plan) {
  if (!plan.time) return "";
  std::string text = fmt::format("predicted time of a step{:>19}\n", "");
  for (const auto& [name, seconds] : named_shares(*plan.time)) {
    text += fmt::format("  {:<26}{:>10}{:>6.0f} %\n", name, format_seconds(seconds),
                        100 * seconds / plan.time->seconds);
  }
  return text + fmt::format("  {:<26}{:>10}\n\n", "in all", format_seconds(plan.time->seconds));
}

std::string memory_table(const Plan& plan) {
  const RankPlan& rank = plan.rank_with_largest_peak();
  std::string text = fmt::format("memory of tensors at the peak of a step, rank {}\n", rank.rank);
  for (const MemoryKind kind : kKinds) {
    text += fmt::format("  {:<16}{:>12}\n", memory_kind_name(kind),
                        format_bytes(rank.memory_at_peak[kind]));
  }
  return text + fmt::format("  {:<16}{:>12}\n", "in all", format_bytes(rank.memory_peak_bytes()));
}

// Returns the tiers off the device that are used.
std::vector<Tier> tiers_of(const Plan& plan) {
  std::vector<Tier> tiers;
  for (const Tier tier : memory::kTiersOffDevice) {
    const bool used = std::ranges::any_of(plan.ranks, [&](const RankPlan& rank) {
      return rank.bytes_at_rest(tier) > 0 || rank.tier_bytes(tier) > 0;
    });
    if (used) tiers.push_back(tier);
  }
  return tiers;
}

TierTraffic moved_by(const RankPlan& rank, Tier tier, MemoryKind kind) {
  const auto found = rank.tier_traffic.find({tier, kind});
  return found == rank.tier_traffic.end() ? TierTraffic{} : found->second;
}

// Each figure is the maximum over the ranks.
TierTraffic most_moved(const Plan& plan, Tier tier, MemoryKind kind) {
  return {largest(plan, [&](const RankPlan& r) { return moved_by(r, tier, kind).to; }),
          largest(plan, [&](const RankPlan& r) { return moved_by(r, tier, kind).from; })};
}

std::string tier_table(const Plan& plan) {
  std::string text;
  const auto cell = [](int64_t bytes) {
    return fmt::format("{:>16}", bytes == 0 ? "-" : format_bytes(bytes));
  };
  for (const Tier tier : tiers_of(plan)) {
    text += fmt::format("\n{:<18}{:>12}{:>16}{:>16}\n", fmt::format("on {}", tier_name(tier)),
                        "at rest", "to it a step", "from it a step");
    for (const MemoryKind kind : memory::kTieredKinds) {
      const auto [to, from] = most_moved(plan, tier, kind);
      const int64_t rests =
          largest(plan, [&](const RankPlan& r) { return r.at_rest.at(tier)[kind]; });
      if (to == 0 && from == 0 && rests == 0) continue;
      text += fmt::format("  {:<16}{:>12}{}{}\n", memory_kind_name(kind),
                          rests == 0 ? "-" : format_bytes(rests), cell(to), cell(from));
    }
    text += fmt::format(
        "  {:<16}{:>12}\n", "in all",
        format_bytes(largest(plan, [&](const RankPlan& r) { return r.bytes_at_rest(tier); })));
  }
  return text;
}

void add_tiers(const Plan& plan, nlohmann::ordered_json& json) {
  for (const Tier tier : tiers_of(plan)) {
    const std::string name = tier_name(tier);
    json[name + "_bytes"] = largest(plan, [&](const RankPlan& r) { return r.bytes_at_rest(tier); });
    nlohmann::ordered_json& kinds = json["tier_bytes"][name] = nlohmann::ordered_json::object();
    for (const MemoryKind kind : memory::kTieredKinds) {
      const auto [to, from] = most_moved(plan, tier, kind);
      if (to > 0 || from > 0) kinds[memory_kind_name(kind)] = {{"to", to}, {"from", from}};
    }
  }
}

std::string recompute_table(const std::vector<RecomputeCost>& costs) {
  if (costs.empty()) return "";
  std::string text = fmt::format("\n{:<32}{:>12}{:>12}{:>16}{:>16}\n", "memory.recompute",
                                 "at the peak", "saved", "FLOPs", "bytes sent");
  const RankPlan& none = costs.front().plan;
  const auto growth = [](double from, double to) {
    return from == to ? "-" : describe_growth(from, to);
  };
  for (const auto& [name, plan] : costs) {
    const int64_t saved = none.memory_peak_bytes() - plan.memory_peak_bytes();
    text += fmt::format(
        "  {:<30}{:>12}{:>12}{:>16}{:>16}\n", name, format_bytes(plan.memory_peak_bytes()),
        saved == 0 ? "-" : format_bytes(saved), growth(none.flops, plan.flops),
        growth(static_cast<double>(none.bytes_sent()), static_cast<double>(plan.bytes_sent())));
  }
  return text;
}

std::string traffic_table(const Plan& plan) {
  const std::set<comm::Reason> reasons = reasons_of(plan);
  std::string text = fmt::format("\n{:<18}", "sent in a step");
  for (const comm::Reason reason : reasons) text += fmt::format("{:>12}", reason_name(reason));
  text += fmt::format("{:>12}{:>10}\n", "in all", "partners");
  for (const std::string& axis : axes_of(plan)) {
    text += fmt::format("  {:<16}", axis);
    for (const comm::Reason reason : reasons) {
      const int64_t bytes = largest(plan, [&](const RankPlan& r) {
        return sent_for(r, {axis, reason});
      });
      text += fmt::format("{:>12}", bytes == 0 ? "-" : format_bytes(bytes));
    }
    text += fmt::format(
        "{:>12}{:>10}\n",
        format_bytes(largest(plan, [&](const RankPlan& r) { return sent_for(r, axis); })),
        format_count(largest(plan, [&](const RankPlan& r) { return partners_on(r, axis); })));
  }
  text += fmt::format("  {:<16}", "all axes");
  for (const comm::Reason reason : reasons) {
    text += fmt::format(
        "{:>12}",
        format_bytes(largest(plan, [&](const RankPlan& r) { return sent_for(r, reason); })));
  }
  return text +
         fmt::format("{:>12}{:>10}\n",
                     format_bytes(largest(plan, [](const RankPlan& r) { return r.bytes_sent(); })),
                     format_count(largest(plan, [](const RankPlan& r) { return r.all_partners; })));
}

// Returns the recorded ranks that have this place along pp.
Plan at_place(const Job& job, const Plan& plan, int place) {
  const RankGrid mesh(job.strategy);
  const int axis = mesh.axis(axis_name(Axis::pp));
  Plan here;
  std::ranges::copy_if(plan.ranks, std::back_inserter(here.ranks), [&](const RankPlan& rank) {
    return mesh.coordinate(rank.rank, axis) == place;
  });
  return here;
}

int64_t num_blocks(const Job& job, int stage) {
  return job.strategy.blocks_of_stage(stage, job.model.facts.layers).size();
}

// Returns "0 + 3": a figure of each stage of one pipeline rank.
template <typename Figure>
std::string of_stages(const Strategy& strategy, int place, const Figure& figure) {
  std::string text;
  for (int stage = 0; stage < strategy.num_stages(); ++stage) {
    if (strategy.stage_rank(stage) != place) continue;
    text += fmt::format("{}{}", text.empty() ? "" : " + ", figure(stage));
  }
  return text;
}

// Returns a line for each rank along pp, and the timeline if it is small enough to be read.
std::string pipeline_text(const Job& job, const Plan& plan) {
  if (job.strategy.pp == 1) return "";
  constexpr int kMostRanks = 16, kMostComputations = 96, kWidth = 120;
  const PipelinePlan pipeline = plan_pipeline(job);
  std::string text =
      fmt::format("\n{:<18}{:>12}{:>12}{:>14}{:>14}{:>16}{:>12}\n", "pipeline", "stages", "layers",
                  "parameters", "at the peak", "sent in a step", "in flight");
  for (int place = 0; place < job.strategy.pp; ++place) {
    const Plan here = at_place(job, plan, place);
    text += fmt::format(
        "  {:<16}{:>12}{:>12}{:>14}{:>14}{:>16}{:>12}\n", fmt::format("rank {} along pp", place),
        of_stages(job.strategy, place, [](int stage) { return stage; }),
        of_stages(job.strategy, place, [&](int stage) { return num_blocks(job, stage); }),
        format_count(largest(here, [](const RankPlan& r) { return r.parameters; })),
        format_bytes(here.rank_with_largest_peak().memory_peak_bytes()),
        format_bytes(largest(here, [](const RankPlan& r) { return r.bytes_sent(); })),
        pipeline.in_flight(place));
  }
  text += fmt::format("  {:.1f} % of the ranks' time is bubble, by floating-point operations\n",
                      100 * pipeline.bubble_share());
  const int64_t computations = 3 * job.num_micro_batches() * job.strategy.pp_chunks;
  if (job.strategy.pp > kMostRanks || computations > kMostComputations) return text;
  return text + "\n" + report::timeline_text(timeline_of(pipeline), kWidth);
}

// Adds an entry for each stage. Memory, bytes and micro-batches in flight are those of the rank
// that holds the stage.
void add_pipeline(const Job& job, const Plan& plan, nlohmann::ordered_json& json) {
  if (job.strategy.pp == 1) return;
  const PipelinePlan pipeline = plan_pipeline(job);
  json["micro_batches"] = job.num_micro_batches();
  json["bubble_share"] = pipeline.bubble_share();
  for (int stage = 0; stage < job.strategy.num_stages(); ++stage) {
    const int place = job.strategy.stage_rank(stage);
    const Plan here = at_place(job, plan, place);
    json["stages"].push_back(
        {{"stage", stage},
         {"pipeline_rank", place},
         {"blocks", num_blocks(job, stage)},
         {"parameters", largest(here, [](const RankPlan& r) { return r.parameters; })},
         {"memory_at_peak", here.rank_with_largest_peak().memory_peak_bytes()},
         {"bytes_sent", largest(here, [](const RankPlan& r) { return r.bytes_sent(); })},
         {"activations_in_flight", pipeline.in_flight(place)}});
  }
}

nlohmann::ordered_json to_json(const RankPlan& rank) {
  nlohmann::ordered_json json{{"rank", rank.rank},
                              {"parameters", rank.parameters},
                              {"flops", rank.flops},
                              {"memory_by_kind", nlohmann::ordered_json::object()},
                              {"memory_at_peak", rank.memory_peak_bytes()},
                              {"activation_bytes", rank.activation_bytes},
                              {"bytes_sent", nlohmann::ordered_json::object()},
                              {"partners", nlohmann::ordered_json::object()},
                              {"all_partners", rank.all_partners},
                              {"training_partners", rank.training_partners}};
  for (const MemoryKind kind : kKinds) {
    json["memory_by_kind"][memory_kind_name(kind)] = rank.memory_at_peak[kind];
  }
  for (const auto& [key, bytes] : rank.sent) {
    json["bytes_sent"][key.axis][reason_name(key.reason)] = bytes;
  }
  for (const auto& [axis, ranks] : rank.partners) json["partners"][axis] = ranks;
  return json;
}

nlohmann::ordered_json to_json(const Strategy& strategy) {
  nlohmann::ordered_json json{
      {"pp", strategy.pp},
      {"dp", strategy.dp},
      {"sp", strategy.sp},
      {"tp", strategy.tp},
      {"ep", strategy.ep},
      {"expert_tp", strategy.expert_tp},
      {"zero", strategy.zero},
      {"zero_group", strategy.zero_group == 0 ? strategy.dp * strategy.sp : strategy.zero_group},
      {"tp_sequence", strategy.tp_sequence}};
  if (strategy.pp > 1) json["pp_schedule"] = strategy.pp_schedule;
  return json;
}

}  // namespace

std::string describe(const Job& job, const Plan& plan, const std::vector<RecomputeCost>& costs) {
  const models::ModelFacts& facts = job.model.facts;
  std::string text = fmt::format(
      "{} parameters, {} layers of {} | {} | {} rank{} | {}\n\n", format_count(facts.parameters),
      facts.layers, facts.hidden, describe_layout(job), format_count(job.strategy.world_size()),
      job.strategy.world_size() == 1 ? "" : "s", describe_precision(job.precision));
  for (const std::string& reason : {job.recompute_reason, job.tiers_reason}) {
    if (!reason.empty()) text += reason + "\n\n";
  }
  if (!job.undecided_tiers.empty() && job.host_budget == 0 && job.memory_budget == 0) {
    text += "memory.host_budget is not given: no limit is set for tensors on the host\n\n";
  }
  if (facts.experts > 0) {
    text += job.strategy.expert_rows.empty()
                ? "experts: the plan assumes that all experts have equally many rows, so that each "
                  "rank of ep has an equal part; give a run's routing.json as experts.observed to "
                  "plan with its rows\n\n"
                : "experts: rows are divided as in " + job.config.experts.observed + "\n\n";
  }
  text += time_table(plan);
  text += memory_table(plan);
  text += tier_table(plan);
  text += recompute_table(costs);
  if (!axes_of(plan).empty()) text += traffic_table(plan);
  text += pipeline_text(job, plan);
  text += fmt::format(
      "\na rank holds {} parameters and computes {:.3g} FLOPs a step; a micro-batch keeps {} for "
      "its backward pass\n",
      format_count(largest(plan, [](const RankPlan& r) { return r.parameters; })),
      largest(plan, [](const RankPlan& r) { return r.flops; }),
      format_bytes(largest(plan, [](const RankPlan& r) { return r.activation_bytes; })));
  text += fmt::format("a checkpoint takes {} on the disk\n", format_bytes(plan.checkpoint_bytes));
  if (job.strategy.world_size() > 1) {
    text += fmt::format(
        "except for control and metrics, it communicates with {} of {} other ranks\n",
        format_count(largest(plan, [](const RankPlan& r) { return r.training_partners; })),
        format_count(job.strategy.world_size() - 1));
  }
  return text + fmt::format("{} of {} ranks recorded in {}: each figure is the largest of them\n",
                            format_count(std::ssize(plan.ranks)),
                            format_count(job.strategy.world_size()),
                            format_duration(std::chrono::duration<double>(plan.seconds)));
}

nlohmann::ordered_json to_json(const Job& job, const Plan& plan,
                               const std::vector<RecomputeCost>& costs) {
  const RankPlan& fullest = plan.rank_with_largest_peak();
  nlohmann::ordered_json json{
      {"ranks", job.strategy.world_size()},
      {"strategy", to_json(job.strategy)},
      {"tokens", job.config.train.global_batch * job.sequence_length},
      {"memory_by_kind", to_json(fullest)["memory_by_kind"]},
      {"memory_at_peak", fullest.memory_peak_bytes()},
      {"bytes_sent", nlohmann::ordered_json::object()},
      {"bytes_sent_by_reason", nlohmann::ordered_json::object()},
      {"parameters", largest(plan, [](const RankPlan& r) { return r.parameters; })},
      {"flops", largest(plan, [](const RankPlan& r) { return r.flops; })},
      {"activation_bytes", largest(plan, [](const RankPlan& r) { return r.activation_bytes; })},
      {"partners", nlohmann::ordered_json::object()},
      {"all_partners", largest(plan, [](const RankPlan& r) { return r.all_partners; })},
      {"training_partners", largest(plan, [](const RankPlan& r) { return r.training_partners; })},
      {"checkpoint_bytes", plan.checkpoint_bytes},
      {"plan_seconds", plan.seconds},
      {"recorded_ranks", nlohmann::ordered_json::array()}};
  if (plan.time) {
    json["predicted_step_seconds"] = plan.time->seconds;
    for (const auto& [name, seconds] : named_shares(*plan.time)) {
      json["predicted_seconds_by_kind"][name] = seconds;
    }
  }
  for (const std::string& axis : axes_of(plan)) {
    json["bytes_sent"][axis] = largest(plan, [&](const RankPlan& r) { return sent_for(r, axis); });
    json["partners"][axis] = largest(plan, [&](const RankPlan& r) { return partners_on(r, axis); });
  }
  for (const comm::Reason reason : reasons_of(plan)) {
    json["bytes_sent_by_reason"][reason_name(reason)] =
        largest(plan, [&](const RankPlan& r) { return sent_for(r, reason); });
  }
  for (const auto& [name, cost] : costs) {
    json["recompute"][name] = {{"memory_at_peak", cost.memory_peak_bytes()},
                               {"flops", cost.flops},
                               {"bytes_sent", cost.bytes_sent()}};
  }
  if (job.model.facts.experts > 0) {
    json["expert_counts"] = job.strategy.expert_rows.empty() ? "uniform" : "observed";
  }
  add_tiers(plan, json);
  add_pipeline(job, plan, json);
  for (const RankPlan& rank : plan.ranks) json["recorded_ranks"].push_back(to_json(rank));
  return json;
}

namespace {

// Returns the settings of a choice in one line; all choices have the same order of keys.
std::string settings_in_a_line(const StrategyChoice& choice) {
  std::string line;
  for (const auto& [key, value] : choice.settings) {
    line += fmt::format("{}{}={}", line.empty() ? "" : " ", key.substr(key.find('.') + 1), value);
  }
  return line.empty() ? "(all given)" : line;
}

double waits_of(const StepTime& time) {
  double waits = time.pipeline_wait;
  for (const auto& [axis, seconds] : time.shares.communication) waits += seconds;
  return waits;
}

}  // namespace

std::string describe(const StrategySearch& search) {
  std::string text = fmt::format(
      "layouts: {} looked at in {}: bounds rule out all but {}, of which steps were recorded\n"
      "  {:>10}{:>9}{:>12}{:>12}  settings\n",
      format_count(search.layouts), format_duration(std::chrono::duration<double>(search.seconds)),
      format_count(search.estimated), "a step", "waits", "at the peak", "sent");
  for (const StrategyChoice& choice : search.choices) {
    text += fmt::format("  {:>10}{:>7.0f} %{:>12}{:>12}  {}\n", format_seconds(choice.time.seconds),
                        100 * waits_of(choice.time) / choice.time.seconds,
                        format_bytes(choice.peak_bytes), format_bytes(choice.sent_bytes),
                        settings_in_a_line(choice));
  }
  return text + "the first is chosen";
}

nlohmann::ordered_json to_json(const StrategySearch& search) {
  nlohmann::ordered_json json{
      {"seconds", search.seconds},       {"layouts", search.layouts},
      {"predicted", search.estimated},   {"too_large", search.too_large},
      {"impossible", search.impossible}, {"choices", nlohmann::ordered_json::array()}};
  for (const StrategyChoice& choice : search.choices) {
    nlohmann::ordered_json settings = nlohmann::ordered_json::object();
    for (const auto& [key, value] : choice.settings) settings[key] = toml_or_text(value);
    json["choices"].push_back({{"settings", settings},
                               {"predicted_step_seconds", choice.time.seconds},
                               {"memory_at_peak", choice.peak_bytes},
                               {"bytes_sent", choice.sent_bytes}});
  }
  return json;
}

}  // namespace colossal::plan
