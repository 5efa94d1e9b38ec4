// The worlds over which the contract suite runs, and values that ranks compute alike.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "colossal/comm/hosts.h"
#include "colossal/comm/world.h"
#include "tests/support/run_ranks.h"

namespace colossal::comm {

struct Setting {
  std::string backend;  // "local"; "messages": every collective as messages through memory; "gloo";
                        // "shm"; "staged": "local", with copies of the tensors; "nccl": on
                        // emulated GPUs
  int size = 1;
  // A letter for each rank's host; empty: all are on one. Of "messages" and "shm", which are then
  // what joins the ranks of a host, and "messages" and "gloo" the hosts.
  std::string host_letters = "";

  Hosts hosts() const;
};
std::ostream& operator<<(std::ostream& stream, const Setting& setting);

using Body = std::function<void(World& world, const Group& group)>;

// Runs `body` on each rank, with a group of all ranks on axis "dp".
void run(const Setting& setting, const Body& body,
         std::chrono::milliseconds timeout = test::kRankTimeout);

// Those of this test program.
std::vector<Setting> all_settings();

// Returns `tensor` where the group's calls take it.
at::Tensor on(const Group& group, const at::Tensor& tensor);
// Whether both have the same values, wherever they are.
bool same(const at::Tensor& a, const at::Tensor& b);

// What rank `rank` holds: flat, of no pattern that a wrong offset would leave unnoticed.
at::Tensor values(int rank, int64_t numel, at::ScalarType type, int salt = 0);
// The sum over all ranks in rank order, first within hosts, in the accumulation type, rounded once
// to `out_type`.
at::Tensor summed(const Setting& setting, int64_t numel, at::ScalarType type,
                  at::ScalarType out_type, int salt = 0);

}  // namespace colossal::comm
