// --rank-timeout of the commands that hold a model on several ranks.
#pragma once

#include <CLI/CLI.hpp>
#include <chrono>
#include <optional>
#include <string>

#include "colossal/serve/heartbeat.h"

namespace colossal::cli {

void add_rank_timeout(CLI::App& command, std::optional<std::string>& timeout);

// parallel_timeout: after which a collective gives up. Throws ConfigError for what is no duration,
// is too short for several signs of life, or is not less than `parallel_timeout`, which would come
// first.
serve::HeartbeatOptions resolve_rank_timeout(const std::optional<std::string>& given,
                                             std::chrono::milliseconds parallel_timeout);

// The value of a flag that is a duration. Throws ConfigError.
std::chrono::milliseconds resolve_duration(const char* flag, const std::string& text);

}  // namespace colossal::cli
