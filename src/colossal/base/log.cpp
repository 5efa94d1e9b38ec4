#include "colossal/base/log.h"

#include <spdlog/logger.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <unistd.h>

#include <memory>
#include <string>

namespace colossal::log {
namespace {

// The logger of the process, and the settings of set_rank_prefix().
struct Output {
  Output() : logger("colossal", std::make_shared<spdlog::sinks::stderr_sink_mt>()) {
    // On a terminal, first clears the line: it may hold a progress line.
    logger.set_pattern(isatty(STDERR_FILENO) ? "\r\033[K[%H:%M:%S] %v" : "[%H:%M:%S] %v");
    logger.set_level(spdlog::level::info);
  }
  spdlog::logger logger;
  std::string prefix;
  bool gives_infos = true;
};

Output& output() {
  static Output instance;
  return instance;
}

}  // namespace

void write(Level level, std::string_view text) {
  Output& to = output();
  switch (level) {
    case Level::info:
      if (to.gives_infos) to.logger.info(text);
      break;
    case Level::warning:
      to.logger.warn("{}warning: {}", to.prefix, text);
      break;
    case Level::error:
      to.logger.error("{}error: {}", to.prefix, text);
      break;
  }
}

void set_rank_prefix(int rank, int ranks) {
  output().prefix = ranks > 1 ? fmt::format("rank {}: ", rank) : std::string();
  output().gives_infos = rank == 0;
}

}  // namespace colossal::log
