#include "colossal/cli/rank_timeout.h"

#include <algorithm>

#include "colossal/base/error.h"
#include "colossal/base/units.h"

namespace colossal::cli {

void add_rank_timeout(CLI::App& command, std::optional<std::string>& timeout) {
  command.add_option(
      "--rank-timeout", timeout,
      "With several ranks: a rank that shows no sign of life for this long counts as lost, however "
      "long its work takes. Must be less than parallel.timeout. 0s: wait for parallel.timeout "
      "[10s, or half of parallel.timeout if that is less]");
}

std::chrono::milliseconds resolve_duration(const char* flag, const std::string& text) {
  const auto duration = parse_duration(text);
  if (duration) return *duration;
  throw ConfigError(fmt::format("--{}={}: must be a duration such as 30s", flag, text));
}

serve::HeartbeatOptions resolve_rank_timeout(const std::optional<std::string>& given,
                                             std::chrono::milliseconds parallel_timeout) {
  serve::HeartbeatOptions heartbeat;
  heartbeat.interval = std::min(heartbeat.interval, parallel_timeout / 4);
  heartbeat.timeout = std::min(heartbeat.timeout, parallel_timeout / 2);
  if (!given) return heartbeat;
  heartbeat.timeout = resolve_duration("rank-timeout", *given);
  if (heartbeat.timeout.count() == 0) return heartbeat;
  const std::chrono::milliseconds least = 2 * heartbeat.interval;
  if (heartbeat.timeout < least) {
    throw ConfigError(
        fmt::format("--rank-timeout={}: each rank is checked every {}; give at least {}, or 0s to "
                    "turn the check off",
                    *given, exact_duration(heartbeat.interval), exact_duration(least)));
  }
  if (heartbeat.timeout >= parallel_timeout) {
    throw ConfigError(fmt::format(
        "--rank-timeout={} with parallel.timeout = \"{}\": the wait for a rank would end before "
        "the rank counts as lost; give from {} to less than {}, or a longer --parallel.timeout",
        *given, exact_duration(parallel_timeout), exact_duration(least),
        exact_duration(parallel_timeout)));
  }
  return heartbeat;
}

}  // namespace colossal::cli
