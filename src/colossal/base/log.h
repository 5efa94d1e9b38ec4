// Writes log messages for people to stderr: log::info("{} steps", n). Results of commands go to
// stdout, without these functions.
#pragma once

#include <fmt/format.h>

#include <string_view>
#include <utility>

namespace colossal::log {

enum class Level { info, warning, error };

// Writes one line: "[14:03:59] text" for info, "[14:03:59] warning: text" for warning,
// "[14:03:59] error: text" for error. Thread-safe.
void write(Level level, std::string_view text);

// Makes this process log as rank `rank` of a job with `ranks` ranks. If `ranks` > 1, its warnings
// and errors name the rank: "[14:03:59] rank 3: warning: text". If `rank` is not 0, it writes no
// info messages. Call this once at process start, before other threads log.
void set_rank_prefix(int rank, int ranks);

// Write one line made by fmt::format() from the arguments. Thread-safe.
template <class... Args>
void info(fmt::format_string<Args...> format, Args&&... args) {
  write(Level::info, fmt::format(format, std::forward<Args>(args)...));
}

template <class... Args>
void warn(fmt::format_string<Args...> format, Args&&... args) {
  write(Level::warning, fmt::format(format, std::forward<Args>(args)...));
}

template <class... Args>
void error(fmt::format_string<Args...> format, Args&&... args) {
  write(Level::error, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace colossal::log
