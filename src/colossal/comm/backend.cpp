#include "colossal/comm/backend.h"

#include <algorithm>
#include <utility>

#include "colossal/base/error.h"
#include "colossal/base/units.h"

namespace colossal::comm {
namespace {

const char* operation_name(Operation operation) {
  switch (operation) {
    case Operation::all_reduce:
      return "all_reduce";
    case Operation::reduce_scatter:
      return "reduce_scatter";
    case Operation::all_gather:
      return "all_gather";
    case Operation::all_to_all:
      return "all_to_all";
    case Operation::rotate:
      return "rotate";
    case Operation::broadcast:
      return "broadcast";
    case Operation::send:
      return "send/receive";
    case Operation::barrier:
      return "barrier";
    case Operation::shared_empty:
      return "shared_empty";
  }
  COLOSSAL_CHECK(false, "unknown operation {}", static_cast<int>(operation));
}

std::string describe(const Call& call, const std::string& of_type) {
  std::string text = operation_name(call.operation);
  if (call.operation == Operation::barrier) return text;
  const bool sizes_differ =
      call.operation == Operation::all_to_all || call.operation == Operation::rotate;
  if (!sizes_differ) text += " of " + format_bytes(call.bytes);
  text += of_type;
  if (call.root >= 0) text += fmt::format(" from rank {}", call.root);
  return text + fmt::format(" ({})", reason_name(call.reason));
}

}  // namespace

std::string describe(const Call& call) {
  return describe(call, "");
}

std::string describe_fully(const Call& call) {
  return describe(call, fmt::format(" of {}", c10::toString(call.type)));
}

std::string name_rank(const Membership& membership, int rank) {
  const int global = membership.ranks[rank];
  if (!membership.places.empty()) rank = membership.places[rank];
  return global == rank ? fmt::format("rank {}", rank)
                        : fmt::format("rank {} (global {})", rank, global);
}

std::string describe_caller(const Membership& membership) {
  if (!membership.places.empty()) {
    return fmt::format("{} on axis \"{}\"", name_rank(membership, membership.rank),
                       membership.axis);
  }
  const int global = membership.ranks[membership.rank];
  const std::string globally = global == membership.rank ? "" : fmt::format(" (global {})", global);
  return fmt::format("rank {} of {} on axis \"{}\"{}", membership.rank, membership.size(),
                     membership.axis, globally);
}

CallFailure mismatch(const Membership& membership, int rank, const std::string& call, int other,
                     const std::string& other_call) {
  return CallFailure(fmt::format("does not match: {} called {} while {} called {}",
                                 name_rank(membership, rank), call, name_rank(membership, other),
                                 other_call));
}

std::chrono::milliseconds Deadline::remaining() const {
  using std::chrono::milliseconds;
  const auto left = time_ - std::chrono::steady_clock::now();
  return std::max(milliseconds(1), std::chrono::duration_cast<milliseconds>(left));
}

Deadline Deadline::extended(std::chrono::milliseconds grace) const {
  Deadline later = *this;
  later.time_ += grace;
  return later;
}

CallFailure Deadline::failure(const std::string& reason) const {
  const auto late =
      std::chrono::floor<std::chrono::seconds>(std::chrono::steady_clock::now() - time_);
  const std::string stopped =
      late.count() < 1
          ? ""
          : fmt::format(
                "; this rank itself did not run for the last {} or longer (stopped by a "
                "signal, or suspended with its machine), and no rank may pause for longer "
                "than parallel.timeout",
                exact_duration(late));
  return CallFailure(
      fmt::format("timed out after {}: {}{}", exact_duration(timeout_), reason, stopped));
}

// The timeout is clamped: the clock counts nanoseconds, which fit 64 bits up to 292 years only.
Backend::Backend(Membership membership, std::shared_ptr<Ledger> ledger,
                 std::chrono::milliseconds timeout)
    : membership_(std::move(membership)),
      ledger_(std::move(ledger)),
      timeout_(std::min<std::chrono::milliseconds>(timeout, std::chrono::years(10))) {}

c10::DataPtr Backend::shared_memory(const Call&) {
  return {};
}

void Backend::book_wire(const Call& call, int64_t bytes) {
  if (bytes > 0) ledger_->book_wire(membership_.axis, call.reason, bytes);
}

}  // namespace colossal::comm
