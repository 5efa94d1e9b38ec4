// Writes log messages for people to stderr: log::info("{} steps", n). Results of commands go to
// stdout, without these functions.
#pragma once

#include <fmt/format.h>

#include <string_view>
#include <utility>

namespace colossal::log {

enum class Level { info, warning, error };

// Writes one line: "[14:03:59] text" for info, "[14:03:59] warning: text" for warning. Thread-safe.
void write(Level level, std::string_view text);

// Sets which messages this process writes, and their prefix. Call this once at process start,
// before other threads log. If the job has several ranks, warnings and errors then begin with the
// rank:
// "[14:03:59] rank 3: warning: text". Ranks other than 0 write no info messages. ranks: number of
// ranks in the job.
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
