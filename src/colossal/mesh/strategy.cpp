#include "colossal/mesh/strategy.h"

#include <algorithm>
#include <numeric>

namespace colossal {

const char* axis_name(Axis axis) {
  switch (axis) {
    case Axis::pp:
      return "pp";
    case Axis::dp:
      return "dp";
    case Axis::sp:
      return "sp";
    case Axis::tp:
      return "tp";
  }
  return "?";
}

int Strategy::size(Axis axis) const {
  switch (axis) {
    case Axis::pp:
      return pp;
    case Axis::dp:
      return dp;
    case Axis::sp:
      return sp;
    case Axis::tp:
      return tp;
  }
  return 0;
}

int Strategy::stage_rank(int stage) const {
  return stage_ranks.empty() ? stage : stage_ranks.at(stage);
}

int Strategy::stage_of_block(int64_t block) const {
  if (stage_blocks.empty()) return 0;
  int stage = 0;
  for (int64_t end = stage_blocks[0]; block >= end; end += stage_blocks[stage]) ++stage;
  return stage;
}

Range Strategy::blocks_of_stage(int stage, int64_t blocks) const {
  if (stage_blocks.empty()) return {0, blocks};
  const auto first = stage_blocks.begin();
  const int64_t begin = std::accumulate(first, first + stage, int64_t{0});
  return {begin, begin + stage_blocks[stage]};
}

const char* tensor_mode_name(TensorMode mode) {
  switch (mode) {
    case TensorMode::one_d:
      return "1d";
    case TensorMode::two_d:
      return "2d";
    case TensorMode::two_and_half_d:
      return "2.5d";
    case TensorMode::three_d:
      return "3d";
  }
  return "?";
}

namespace {

// Returns the largest integer whose square (exponent 2) or cube is at most `number`.
int root(int number, int exponent) {
  const auto fits = [&](int64_t side) {
    return (exponent == 2 ? side * side : side * side * side) <= number;
  };
  int side = 1;
  while (fits(side + 1)) ++side;
  return side;
}

void check_tensor_mode(const Strategy& strategy) {
  const std::string mode = tensor_mode_name(strategy.tensor_mode);
  if (strategy.tp_depth < 1) {
    throw LayoutError(fmt::format("parallel.tp_depth = {}: must be at least 1", strategy.tp_depth));
  }
  if (strategy.tensor_mode != TensorMode::two_and_half_d && strategy.tp_depth != 1) {
    throw LayoutError(fmt::format(
        "parallel.tp_depth = {} applies only to parallel.tp_mode = \"2.5d\"; tp_mode is \"{}\"",
        strategy.tp_depth, mode));
  }
  if (strategy.tp_of_side(strategy.tensor_side()) == strategy.tp) return;
  const char* shape = strategy.tensor_mode == TensorMode::three_d ? "a cube of ranks, q x q x q"
                      : strategy.tensor_mode == TensorMode::two_d
                          ? "a square of ranks, q x q"
                          : "squares of ranks, q x q x tp_depth";
  throw LayoutError(fmt::format(
      "parallel.tp_mode = \"{}\" needs {}; parallel.tp = {}{} is not one", mode, shape, strategy.tp,
      strategy.tp_depth > 1 ? fmt::format(" with tp_depth = {}", strategy.tp_depth) : ""));
}

}  // namespace

int Strategy::tensor_side() const {
  switch (tensor_mode) {
    case TensorMode::one_d:
      return tp;
    case TensorMode::two_d:
    case TensorMode::two_and_half_d:
      return root(tp / tp_depth, 2);
    case TensorMode::three_d:
      return root(tp, 3);
  }
  return 0;
}

int Strategy::tp_of_side(int side) const {
  switch (tensor_mode) {
    case TensorMode::one_d:
      return side;
    case TensorMode::two_d:
    case TensorMode::two_and_half_d:
      return side * side * tp_depth;
    case TensorMode::three_d:
      return side * side * side;
  }
  return 0;
}

std::vector<std::pair<std::string, int>> Strategy::tensor_axes() const {
  const int side = tensor_side();
  std::vector<std::pair<std::string, int>> axes;
  switch (tensor_mode) {
    case TensorMode::one_d:
      axes = {{"tp", tp}};
      break;
    case TensorMode::two_d:
    case TensorMode::two_and_half_d:
      axes = {{"tp.depth", tp_depth}, {"tp.row", side}, {"tp.column", side}};
      break;
    case TensorMode::three_d:
      axes = {{"tp.i", side}, {"tp.j", side}, {"tp.l", side}};
      break;
  }
  if (key_value_replicas > 1) {
    const auto [name, size] = axes.back();
    axes.back() = {name + ".kv", size / key_value_replicas};
    axes.emplace_back(name + ".query", key_value_replicas);
  }
  return axes;
}

std::vector<std::pair<std::string, int>> Strategy::data_axes() const {
  if (zero_group == 0) return {{"dp", dp}, {"sp", sp}};
  if (zero_group >= sp) {
    const int shards = zero_group / sp;
    return {{"dp.replica", dp / shards}, {"dp.shard", shards}, {"sp", sp}};
  }
  return {{"dp", dp}, {"sp.replica", sp / zero_group}, {"sp.shard", zero_group}};
}

std::vector<std::string_view> Strategy::replica_axes() const {
  if (zero_group == 0) return {};
  if (zero_group >= sp) return {"dp.replica"};
  return {"dp", "sp.replica"};
}

std::vector<std::pair<std::string, int>> Strategy::expert_axes() const {
  const int same = dp * sp * tp / expert_ranks();
  std::vector<std::pair<std::string, int>> axes{{"expert_dp", same}};
  if (zero_group > 0) {
    const int shards = std::max(1, zero_group * tp / expert_ranks());
    axes = {{"expert_dp.replica", same / shards}, {"expert_dp.shard", shards}};
  }
  axes.insert(axes.end(), {{"ep", ep}, {"expert_tp", expert_tp}});
  return axes;
}

namespace {

// Returns "1, 3 or 6".
std::string one_of(std::vector<int> sizes) {
  const int last = sizes.back();
  sizes.pop_back();
  return sizes.empty() ? std::to_string(last)
                       : fmt::format("{} or {}", fmt::join(sizes, ", "), last);
}

// Returns whether groups of `size` neighbouring ranks divide dp x sp: a group has whole sequences,
// or an even part of one.
bool is_zero_group(const Strategy& strategy, int size) {
  if (size < strategy.sp) return strategy.sp % size == 0;
  return size % strategy.sp == 0 && strategy.dp % (size / strategy.sp) == 0;
}

std::string zero_groups_of(const Strategy& strategy) {
  std::vector<int> sizes;
  for (int size = 1; size <= strategy.dp * strategy.sp; ++size) {
    if (is_zero_group(strategy, size)) sizes.push_back(size);
  }
  return one_of(std::move(sizes));
}

void check_zero_group(const Strategy& strategy) {
  if (strategy.zero_group == 0) return;
  const int ranks = strategy.dp * strategy.sp;
  if (strategy.zero_group < 1 || strategy.zero_group > ranks ||
      !is_zero_group(strategy, strategy.zero_group)) {
    const std::string why =
        strategy.zero_group > ranks || strategy.zero_group < 1
            ? "is not a part of the ranks that hold the same parameters"
        : strategy.zero_group < strategy.sp
            ? fmt::format("would split a sequence's {} ranks unevenly", strategy.sp)
        : strategy.zero_group % strategy.sp != 0
            ? fmt::format("is not a multiple of a sequence's {} ranks", strategy.sp)
            : "would split the replicas unevenly";
    throw LayoutError(fmt::format("parallel.zero_group = {} {}; with dp {} x sp {} use {}",
                                  strategy.zero_group, why, strategy.dp, strategy.sp,
                                  zero_groups_of(strategy)));
  }
  if (strategy.zero == 0) {
    throw LayoutError(
        fmt::format("parallel.zero_group = {} sets how parallel.zero shards, but parallel.zero = 0 "
                    "shards nothing",
                    strategy.zero_group));
  }
}

// Returns whether ZeRO groups consist of whole groups of ranks that hold all experts once, or the
// other way round.
bool experts_fit_zero_group(const Strategy& strategy, int64_t expert_ranks) {
  if (strategy.zero_group == 0) return true;
  const int64_t ranks = int64_t{strategy.zero_group} * strategy.tp;
  return ranks % expert_ranks == 0 || expert_ranks % ranks == 0;
}

void check_experts(const Strategy& strategy) {
  const int64_t stage_ranks = int64_t{strategy.dp} * strategy.sp * strategy.tp;
  for (const auto& [key, size] :
       {std::pair{"ep", strategy.ep}, {"expert_tp", strategy.expert_tp}}) {
    if (size < 1) {
      throw LayoutError(fmt::format("parallel.{} = {}: must be at least 1", key, size));
    }
  }
  const auto works = [&](int64_t ranks) {
    return stage_ranks % ranks == 0 && experts_fit_zero_group(strategy, ranks);
  };
  const int64_t expert_ranks = int64_t{strategy.ep} * strategy.expert_tp;
  if (works(expert_ranks)) return;
  std::vector<int> sizes;
  for (int64_t ep = 1; ep * strategy.expert_tp <= stage_ranks; ++ep) {
    if (works(ep * strategy.expert_tp)) sizes.push_back(static_cast<int>(ep));
  }
  const std::string asked = strategy.expert_tp == 1 ? fmt::format("parallel.ep = {}", strategy.ep)
                                                    : fmt::format("parallel.ep = {} x expert_tp {}",
                                                                  strategy.ep, strategy.expert_tp);
  const std::string why =
      stage_ranks % expert_ranks != 0
          ? fmt::format("does not divide dp {} x sp {} x tp {} = {}", strategy.dp, strategy.sp,
                        strategy.tp, stage_ranks)
          : fmt::format("and parallel.zero_group = {} x tp {} do not divide one another",
                        strategy.zero_group, strategy.tp);
  throw LayoutError(fmt::format(
      "{} {}; use {}", asked, why,
      sizes.empty() ? "expert_tp = 1" : fmt::format("ep = {}", one_of(std::move(sizes)))));
}

}  // namespace

Strategy resolve_strategy(Strategy strategy, bool dp_given, int ranks) {
  for (Axis axis : kAxes) {
    if (strategy.size(axis) < 1) {
      throw LayoutError(fmt::format("parallel.{} = {}: must be at least 1", axis_name(axis),
                                    strategy.size(axis)));
    }
  }
  check_tensor_mode(strategy);
  // Each size that a user sets fits an int, but the product need not.
  const int64_t others = int64_t{strategy.pp} * strategy.sp * strategy.tp;
  const int64_t world = strategy.dp * others;
  const std::string product =
      fmt::format("pp {} x sp {} x tp {}", strategy.pp, strategy.sp, strategy.tp);
  if (!dp_given) {
    if (ranks % others != 0) {
      throw LayoutError(fmt::format("{} rank{} not a multiple of {} = {}", ranks,
                                    ranks == 1 ? " is" : "s are", product, others));
    }
    strategy.dp = static_cast<int>(ranks / others);
  } else if (world != ranks) {
    throw LayoutError(fmt::format("parallel.dp = {} x {} makes {} ranks, but there {} {}",
                                  strategy.dp, product, world, ranks == 1 ? "is" : "are", ranks));
  }
  check_zero_group(strategy);
  check_experts(strategy);
  return strategy;
}

}  // namespace colossal
