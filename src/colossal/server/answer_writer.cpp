#include "colossal/server/answer_writer.h"

#include <fmt/chrono.h>

#include <chrono>
#include <random>

namespace colossal::server {

std::string server_sent_event(std::string_view data, std::string_view name) {
  return name.empty() ? fmt::format("data: {}\n\n", data)
                      : fmt::format("event: {}\ndata: {}\n\n", name, data);
}

std::string random_id(std::string_view prefix) {
  std::random_device random;
  return fmt::format("{}{:08x}{:08x}{:08x}", prefix, random(), random(), random());
}

int64_t seconds_since_1970() {
  return std::chrono::duration_cast<std::chrono::seconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

std::string utc_time(int64_t seconds_since_1970) {
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}Z",
                     fmt::gmtime(static_cast<std::time_t>(seconds_since_1970)));
}

}  // namespace colossal::server
