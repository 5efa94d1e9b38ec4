#include "tests/support/emulated_gpu/settings.h"

#include <algorithm>
#include <cstdlib>

namespace colossal::emulated_gpu {
namespace {

int64_t number(const char* name, int64_t otherwise) {
  const char* text = std::getenv(name);
  return text ? std::atoll(text) : otherwise;
}

Settings read_settings() {
  Settings read;
  const char* report = std::getenv("EMULATED_GPU_REPORT");
  read.devices = std::clamp(static_cast<int>(number("EMULATED_GPU_DEVICES", 1)), 1, kMaxDevices);
  read.memory =
      static_cast<size_t>(number("EMULATED_GPU_MEMORY", static_cast<int64_t>(read.memory)));
  read.delay_percent = static_cast<int>(number("EMULATED_GPU_DELAY_PERCENT", 0));
  read.delay_microseconds = static_cast<int>(number("EMULATED_GPU_DELAY_MICROSECONDS", 1000));
  read.seed = static_cast<uint64_t>(number("EMULATED_GPU_SEED", 1));
  const bool fails = number("RANK", 0) == number("EMULATED_GPU_FAIL_RANK", 0);
  read.fail_at = fails ? number("EMULATED_GPU_FAIL_AT", 0) : 0;
  read.hangs = number("EMULATED_GPU_HANGS", 0) != 0;
  read.report = report ? report : "";
  return read;
}

}  // namespace

const Settings& settings() {
  static const Settings read = read_settings();
  return read;
}

}  // namespace colossal::emulated_gpu
