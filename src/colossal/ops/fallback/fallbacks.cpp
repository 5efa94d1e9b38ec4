#include "colossal/ops/fallback/fallbacks.h"

#include <atomic>
#include <mutex>
#include <set>

#include "colossal/base/log.h"

namespace colossal::ops {
namespace {

std::atomic<int64_t> fallbacks = 0;

}  // namespace

void count_fallback(const std::string& what) {
  static std::mutex mutex;
  static std::set<std::string> said;
  ++fallbacks;
  const std::lock_guard lock(mutex);
  if (!said.insert(what).second) return;
  log::info(
      "no kernel of the GPU computes {}: LibTorch's operators do, slower; the metric "
      "\"fallbacks\" counts it",
      what);
}

int64_t num_fallbacks() {
  return fallbacks;
}

}  // namespace colossal::ops
