// Messages to people, on stderr. Results go to stdout, and do not pass here.
#pragma once

#include <fmt/format.h>

#include <string_view>
#include <utility>

namespace colossal::log {

enum class Level { info, warning, error };

// One line: "[14:03:59] text", "[14:03:59] warning: text". May be called from any thread.
void write(Level level, std::string_view text);

// Says once, at the start of a process, which of how many ranks it is. From then on warnings and
// errors say so too ("[14:03:59] rank 3: warning: text"), and ranks other than 0 give no infos.
void set_rank_prefix(int rank, int ranks);

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
