// A communicator of the fake NCCL, as one rank has it.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "tests/support/fake_nccl/pipes.h"

namespace colossal::fake_nccl {

struct Communicator {
  Communicator(const std::string& name, int of_rank, int of_ranks, int of_device)
      : rank(of_rank), ranks(of_ranks), device(of_device), pipes(name, of_ranks) {}

  const int rank, ranks, device;
  Pipes pipes;
  std::atomic<bool> aborted{false};
  std::atomic<int> error{0};  // what ncclCommGetAsyncError() says
  std::atomic<int> busy{0};   // how often it says first that the last call is in progress
  std::atomic<int64_t> launched{0}, ended{0};  // kernels
};

// From now on, the kernel `number`, from 1, of each communicator's rank `rank` fails. Rank -1:
// none.
void plant_failure(int rank, int64_t number);
bool is_planted(int rank, int64_t number);

}  // namespace colossal::fake_nccl
