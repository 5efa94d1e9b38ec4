#include "colossal/comm/ledger.h"

#include "colossal/base/error.h"

namespace colossal::comm {
namespace {

Traffic& operator+=(Traffic& sum, const Traffic& term) {
  sum.calls += term.calls;
  sum.law_bytes += term.law_bytes;
  sum.wire_bytes += term.wire_bytes;
  return sum;
}

}  // namespace

const char* reason_name(Reason reason) {
  switch (reason) {
    case Reason::gradient:
      return "gradient";
    case Reason::parameter:
      return "parameter";
    case Reason::optimizer:
      return "optimizer";
    case Reason::tensor:
      return "tensor";
    case Reason::sequence:
      return "sequence";
    case Reason::expert:
      return "expert";
    case Reason::stage:
      return "stage";
    case Reason::control:
      return "control";
    case Reason::data:
      return "data";
    case Reason::checkpoint:
      return "checkpoint";
    case Reason::rendezvous:
      return "rendezvous";
    case Reason::metrics:
      return "metrics";
  }
  COLOSSAL_CHECK(false, "unknown reason {}", static_cast<int>(reason));
}

void Ledger::book(const std::string& axis, Reason reason, int64_t law_bytes) {
  const std::lock_guard lock(mutex_);
  entries_[{axis, reason}] += {.calls = 1, .law_bytes = law_bytes, .wire_bytes = 0};
}

void Ledger::book_wire(const std::string& axis, Reason reason, int64_t bytes) {
  const std::lock_guard lock(mutex_);
  entries_[{axis, reason}].wire_bytes += bytes;
}

std::map<Ledger::Key, Traffic> Ledger::entries() const {
  const std::lock_guard lock(mutex_);
  return entries_;
}

std::map<std::string, Traffic> Ledger::by_axis() const {
  std::map<std::string, Traffic> sums;
  for (const auto& [key, traffic] : entries()) {
    if (key.reason == Reason::checkpoint || key.reason == Reason::rendezvous) continue;
    sums[key.axis] += traffic;
  }
  return sums;
}

void Ledger::reset() {
  const std::lock_guard lock(mutex_);
  entries_.clear();
}

}  // namespace colossal::comm
