// One collective call: the properties that all ranks of the group must agree on, and how errors
// name the call.
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
  send,  // of both partners: a receive is compared with its send and booked as `send`
  barrier,
  shared_empty,
};

// All ranks that take part in a call must pass an equal Call. Trivially copyable, because it is
// sent in message headers.
struct Call {
  Operation operation = Operation::barrier;
  Reason reason = Reason::control;
  at::ScalarType type = at::ScalarType::Byte;
  int32_t root = -1;  // of a broadcast; otherwise -1
  int64_t bytes = 0;  // of the full tensor; 0 for all_to_all and rotate, where ranks may differ

  bool operator==(const Call&) const = default;
};

// A rank's membership in a group.
struct Membership {
  std::string axis;
  std::vector<int> ranks;  // global ranks, in group order
  int rank = 0;            // within the group
  // If this group is the one-host part of a larger group: the members' ranks in the larger group,
  // by which errors name them. Otherwise empty.
  std::vector<int> places = {};

  int size() const { return static_cast<int>(ranks.size()); }
};

// Why a call failed: "timed out after 5s: rank 3 did not arrive", "lost rank 3: connection closed".
// group.cpp turns it into a CommError whose message begins with the caller and the call.
class CallFailure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

std::string describe(const Call& call);        // all_reduce of 12.0 MiB (gradient)
std::string describe_fully(const Call& call);  // all_reduce of 12.0 MiB of Float (gradient)
std::string name_rank(const Membership& membership, int rank);  // rank 3, or rank 3 (global 7)
std::string describe_caller(const Membership& membership);      // rank 2 of 4 on axis "dp"

// Returns "does not match: rank 1 called ... while rank 0 called ...". rank, other: ranks within
// the group.
CallFailure mismatch(const Membership& membership, int rank, const std::string& call, int other,
                     const std::string& other_call);

}  // namespace colossal::comm
