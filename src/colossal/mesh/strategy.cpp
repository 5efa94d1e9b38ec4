#include "colossal/mesh/strategy.h"

#include <algorithm>
#include <numeric>

#include "colossal/base/error.h"

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

// The largest integer whose power is at most `number`.
int root(int number, int exponent) {
  const auto fits = [&](int64_t side) {
    return (exponent == 2 ? side * side : side * side * side) <= number;
  };
  int side = 1;
  while (fits(side + 1)) ++side;
  return side;
}

void check_tensor_mode(const Strategy& strategy, int ranks) {
  const std::string mode = tensor_mode_name(strategy.tensor_mode);
  if (strategy.tp_depth < 1) {
    throw ConfigError(
        fmt::format("parallel.tp_depth = {}: a size is at least 1", strategy.tp_depth));
  }
  if (strategy.tensor_mode != TensorMode::two_and_half_d && strategy.tp_depth != 1) {
    throw ConfigError(fmt::format(
        "parallel.tp_depth = {} belongs to parallel.tp_mode = \"2.5d\", which is \"{}\"; use "
        "tp_mode = \"2.5d\", or leave tp_depth out",
        strategy.tp_depth, mode));
  }
  const int side = strategy.tensor_side();
  if (strategy.tp_of_side(side) == strategy.tp) return;
  const char* shape = strategy.tensor_mode == TensorMode::three_d ? "a cube of ranks, q x q x q"
                      : strategy.tensor_mode == TensorMode::two_d
                          ? "a square of ranks, q x q"
                          : "squares of ranks, q x q x tp_depth";
  // One setting changed and the same ranks, or sizes that fit the mode: of those, ones that divide
  // the ranks first.
  int fitting = std::max(1, side);
  while (fitting > 1 && ranks % (strategy.tp_of_side(fitting) * strategy.pp * strategy.sp)) {
    --fitting;
  }
  if (fitting == 1) fitting = std::max(2, side);
  throw ConfigError(fmt::format(
      "parallel.tp_mode = \"{}\" needs {}; parallel.tp = {}{} is none; use tp_mode = \"1d\", or tp "
      "= "
      "{}{}",
      mode, shape, strategy.tp,
      strategy.tp_depth > 1 ? fmt::format(" with tp_depth = {}", strategy.tp_depth) : "",
      strategy.tp_of_side(fitting),
      strategy.tp_depth > 1 ? fmt::format(" (tp_depth = {})", strategy.tp_depth) : ""));
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

namespace {

// Groups are of neighbours: of whole sequences, or of parts of one.
bool is_zero_group(const Strategy& strategy, int size) {
  if (size < strategy.sp) return strategy.sp % size == 0;
  return size % strategy.sp == 0 && strategy.dp % (size / strategy.sp) == 0;
}

void check_zero_group(const Strategy& strategy) {
  if (strategy.zero_group == 0) return;
  const int ranks = strategy.dp * strategy.sp;
  if (strategy.zero_group < 1 || strategy.zero_group > ranks ||
      !is_zero_group(strategy, strategy.zero_group)) {
    int nearest = std::clamp(strategy.zero_group, 1, ranks);
    while (!is_zero_group(strategy, nearest)) --nearest;
    throw ConfigError(fmt::format(
        "parallel.zero_group = {}: dp {} x sp {} = {} ranks do not fall into groups of that; "
        "nearest: zero_group = {}",
        strategy.zero_group, strategy.dp, strategy.sp, ranks, nearest));
  }
  if (strategy.zero == 0) {
    throw ConfigError(fmt::format(
        "parallel.zero_group = {} says how many ranks share out what parallel.zero shards; "
        "parallel.zero = 0 shards nothing: leave zero_group out, or use zero = 1, 2 or 3",
        strategy.zero_group));
  }
}

}  // namespace

Strategy resolve_strategy(Strategy strategy, bool dp_given, int ranks) {
  for (Axis axis : kAxes) {
    if (strategy.size(axis) < 1) {
      throw ConfigError(fmt::format("parallel.{} = {}: a size is at least 1", axis_name(axis),
                                    strategy.size(axis)));
    }
  }
  check_tensor_mode(strategy, ranks);
  // Products of sizes that a user gives: each fits an int, they need not.
  const int64_t others = int64_t{strategy.pp} * strategy.sp * strategy.tp;
  const int64_t world = strategy.dp * others;
  const std::string product =
      fmt::format("pp {} x sp {} x tp {}", strategy.pp, strategy.sp, strategy.tp);
  if (!dp_given) {
    if (ranks % others != 0) {
      throw ConfigError(fmt::format("{} ranks are not a multiple of {} = {}; --ranks={} would fit",
                                    ranks, product, others, (ranks / others + 1) * others));
    }
    strategy.dp = static_cast<int>(ranks / others);
  } else if (world != ranks) {
    const std::string fix =
        ranks % others == 0 ? fmt::format("parallel.dp = {} or --ranks={}", ranks / others, world)
                            : fmt::format("--ranks={}", world);
    throw ConfigError(fmt::format("parallel.dp = {} x {} makes {} ranks, but there are {}; use {}",
                                  strategy.dp, product, world, ranks, fix));
  }
  if (strategy.ep < 1 || (strategy.dp * strategy.sp * strategy.tp) % strategy.ep != 0) {
    throw ConfigError(fmt::format("parallel.ep = {} does not divide dp x sp x tp = {}", strategy.ep,
                                  strategy.dp * strategy.sp * strategy.tp));
  }
  check_zero_group(strategy);
  return strategy;
}

}  // namespace colossal
