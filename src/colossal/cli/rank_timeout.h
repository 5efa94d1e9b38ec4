// The option --rank-timeout of commands that hold a model on several ranks: after how long a rank
// that does not answer heartbeats counts as lost.
#pragma once

#include <CLI/CLI.hpp>
#include <chrono>
#include <optional>
#include <string>

#include "colossal/serve/heartbeat.h"

namespace colossal::cli {

// Adds the option --rank-timeout. timeout: set to its value; must outlive `command`.
void add_rank_timeout(CLI::App& command, std::optional<std::string>& timeout);

// Returns the heartbeat options for a value of --rank-timeout. given: a duration such as "10s",
// "0s" for no heartbeats; nullopt: 10 s, or half of parallel_timeout if that is less.
// parallel_timeout: timeout of the collectives between the ranks. Heartbeats are sent every second,
// or every quarter of parallel_timeout if that is less.
// Throws ConfigError if the value is not a duration, is less than two heartbeat intervals (but not
// 0), or is not less than `parallel_timeout`. With a longer value, a collective would give up
// first.
serve::HeartbeatOptions resolve_rank_timeout(const std::optional<std::string>& given,
                                             std::chrono::milliseconds parallel_timeout);

// Parses the value of a flag that is a duration, such as "30s". flag: its name without "--", for
// the error message. Throws ConfigError if `text` is not a duration.
std::chrono::milliseconds resolve_duration(const char* flag, const std::string& text);

}  // namespace colossal::cli
