#include "colossal/mesh/strategy.h"

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

Strategy resolve_strategy(Strategy strategy, bool dp_given, int ranks) {
  for (Axis axis : kAxes) {
    if (strategy.size(axis) < 1) {
      throw ConfigError(fmt::format("parallel.{} = {}: a size is at least 1", axis_name(axis),
                                    strategy.size(axis)));
    }
  }
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
  return strategy;
}

}  // namespace colossal
