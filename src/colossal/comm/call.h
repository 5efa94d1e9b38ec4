// One call of a collective: what all ranks of the group must agree on, and how errors name it.
#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "colossal/comm/ledger.h"

namespace colossal::comm {

enum class Operation : uint8_t {
  all_reduce,
  reduce_scatter,
  all_gather,
  all_to_all,
  rotate,
  broadcast,
  send,  // its partner's receive is compared with it, so both book and travel as `send`
  barrier,
  shared_empty,
};

// Equal on all ranks of a correct program. Trivially copyable: it travels in message headers.
struct Call {
  Operation operation = Operation::barrier;
  Reason reason = Reason::control;
  at::ScalarType type = at::ScalarType::Byte;
  int32_t root = -1;  // of a broadcast
  int64_t bytes = 0;  // of the full tensor; all_to_all, rotate: 0, ranks may differ

  bool operator==(const Call&) const = default;
};

// Who calls: a rank's place in its group.
struct Membership {
  std::string axis;
  std::vector<int> ranks;  // global ranks, in group order
  int rank = 0;            // within the group
  // If the members are those ranks of a larger group that are on one host: their ranks in that
  // group, by which errors name them. Else empty.
  std::vector<int> places = {};

  int size() const { return static_cast<int>(ranks.size()); }
};

// Why a call failed, as the end of a sentence that begins with who called what: "timed out after
// 5s: rank 3 did not arrive", "lost rank 3: connection closed". Becomes a CommError in group.cpp.
class CallFailure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

std::string describe(const Call& call);        // all_reduce of 12.0 MiB (gradient)
std::string describe_fully(const Call& call);  // all_reduce of 12.0 MiB of Float (gradient)
std::string name_rank(const Membership& membership, int rank);  // rank 3, or rank 3 (global 7)
std::string describe_caller(const Membership& membership);      // rank 2 of 4 on axis "dp"

// "does not match: rank 1 called ... while rank 0 called ..."
CallFailure mismatch(const Membership& membership, int rank, const std::string& call, int other,
                     const std::string& other_call);

}  // namespace colossal::comm
