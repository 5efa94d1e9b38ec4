#include "colossal/ops/dry_repeats.h"

#include <utility>

namespace colossal::ops {
namespace {

thread_local int64_t repeats_of_thread = 1;

}  // namespace

int64_t dry_repeats() {
  return repeats_of_thread;
}

DryRepeats::DryRepeats(int64_t times)
    : before_(std::exchange(repeats_of_thread, repeats_of_thread * times)) {}

DryRepeats::~DryRepeats() {
  repeats_of_thread = before_;
}

}  // namespace colossal::ops
