// The option --rank-timeout of commands that hold a model on several ranks.
#pragma once

#include <CLI/CLI.hpp>
#include <chrono>
#include <optional>
#include <string>

#include "colossal/serve/heartbeat.h"

namespace colossal::cli {

// Adds the option.
void add_rank_timeout(CLI::App& command, std::optional<std::string>& timeout);

// Returns the heartbeat options for a value of --rank-timeout. parallel_timeout: timeout of the
// ranks' collectives. Throws ConfigError if the value is no duration, is less than two heartbeat
// intervals, or is not less than `parallel_timeout`: a collective would then give up first.
serve::HeartbeatOptions resolve_rank_timeout(const std::optional<std::string>& given,
                                             std::chrono::milliseconds parallel_timeout);

// Parses the value of a flag that is a duration. Throws ConfigError.
std::chrono::milliseconds resolve_duration(const char* flag, const std::string& text);

}  // namespace colossal::cli
