// Describes one call of a group (group.h) and the rank that makes it. Backends compare the calls of
// the ranks, and errors name call and rank with the functions below.
#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "colossal/comm/ledger.h"

namespace colossal::comm {

// The functions of group.h that communicate.
enum class Operation : uint8_t {
  all_reduce,
  reduce_scatter,
  all_gather,
  all_to_all,
  rotate,
  broadcast,
  send,  // both a send and a receive, so that the calls of the two ranks are equal
  barrier,
  shared_empty,
};

// What all ranks that take part in a call must agree on; if their Calls differ, the call fails.
// NcclBackend compares them only when a call takes too long. Trivially copyable, because Calls are
// sent in messages.
struct Call {
  Operation operation = Operation::barrier;
  Reason reason = Reason::control;
  at::ScalarType type = at::ScalarType::Byte;  // of the tensor that is sent
  int32_t root = -1;  // of a broadcast: the rank that sends, within the group; otherwise -1
  // Size of the tensor. For reduce_scatter and all_gather: of the tensor of all ranks' parts. For
  // shared_empty: of one rank's memory. 0 for all_to_all and rotate, where the ranks' sizes may
  // differ, and for barrier.
  int64_t bytes = 0;

  bool operator==(const Call&) const = default;
};

// The ranks of a group, and which of them this rank is.
struct Membership {
  std::string axis;        // the group's name in the ledger and in errors, such as "dp"
  std::vector<int> ranks;  // the members' global ranks; a member's index is its rank in the group
  int rank = 0;            // this rank, within the group
  // If this group consists of those members of a larger group that are on one host: their ranks
  // within the larger group, by which errors name them. Otherwise empty.
  std::vector<int> places = {};

  int size() const { return static_cast<int>(ranks.size()); }
};

// Thrown by backends when a call fails. The message is the reason, such as "timed out after 5s:
// rank 3 did not arrive" or "lost rank 3: connection closed". group.cpp puts describe_caller() and
// describe(call) before the reason and throws a CommError.
class CallFailure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Texts for errors; each example is a whole result.
std::string describe(const Call& call);        // all_reduce of 12.0 MiB (gradient)
std::string describe_fully(const Call& call);  // all_reduce of 12.0 MiB of Float (gradient)
// Names the rank `rank` of the group: "rank 3", or "rank 3 (global 7)" if its global rank differs.
// If membership.places is not empty, the first number is places[rank].
std::string name_rank(const Membership& membership, int rank);
// Names this rank: rank 2 of 4 on axis "dp", followed by (global 7) if its global rank differs. If
// membership.places is not empty: name_rank() of this rank, followed by: on axis "dp".
std::string describe_caller(const Membership& membership);

// Returns the failure "does not match: rank 1 called <call> while rank 0 called <other_call>".
// rank, other: ranks within the group. call, other_call: from describe_fully().
CallFailure mismatch(const Membership& membership, int rank, const std::string& call, int other,
                     const std::string& other_call);

}  // namespace colossal::comm
