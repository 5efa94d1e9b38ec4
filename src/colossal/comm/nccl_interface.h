// The part of NCCL's C interface that this project uses, declared here so that no build needs
// NCCL's headers: nccl.h of NCCL 2.18, whose layout all later versions of NCCL 2 accept.
#pragma once

#include <array>
#include <climits>
#include <cstddef>

namespace colossal::comm::nccl {

using Communicator = struct ncclComm*;
using Stream = void*;  // cudaStream_t

struct UniqueId {
  std::array<char, 128> bytes{};
};

enum class Result : int {
  success = 0,
  unhandled_cuda_error = 1,
  system_error = 2,
  internal_error = 3,
  invalid_argument = 4,
  invalid_usage = 5,
  remote_error = 6,
  in_progress = 7,
};

enum class Type : int {
  uint8 = 1,
  int64 = 4,
  float16 = 6,
  float32 = 7,
  float64 = 8,
  bfloat16 = 9,
};

enum class Reduction : int { sum = 0 };

struct Config {
  static constexpr int kDefault = INT_MIN;

  size_t size = sizeof(Config);
  unsigned magic = 0xcafebeef;
  unsigned version = 21800;
  int blocking = kDefault;  // 0: functions return before they are done, with Result::in_progress
  int cga_cluster_size = kDefault;
  int min_ctas = kDefault;
  int max_ctas = kDefault;
  const char* net_name = nullptr;
  int split_share = kDefault;
};

// NCCL's functions. Each has the name and the arguments of the function of nccl.h that is named
// beside it in nccl_library.cpp. Counts are elements, for `reduce_scatter` and `all_gather` of one
// rank.
struct Functions {
  Result (*get_version)(int* version);
  Result (*get_unique_id)(UniqueId* id);
  Result (*init_rank)(Communicator* made, int ranks, UniqueId id, int rank, Config* config);
  Result (*finalize)(Communicator communicator);
  Result (*destroy)(Communicator communicator);
  Result (*abort)(Communicator communicator);
  Result (*get_async_error)(Communicator communicator, Result* error);
  const char* (*get_error_string)(Result result);
  const char* (*get_last_error)(Communicator communicator);
  Result (*group_start)();
  Result (*group_end)();
  Result (*all_reduce)(const void* from, void* to, size_t count, Type type, Reduction reduction,
                       Communicator communicator, Stream stream);
  Result (*reduce_scatter)(const void* from, void* to, size_t count, Type type, Reduction reduction,
                           Communicator communicator, Stream stream);
  Result (*all_gather)(const void* from, void* to, size_t count, Type type,
                       Communicator communicator, Stream stream);
  Result (*broadcast)(const void* from, void* to, size_t count, Type type, int root,
                      Communicator communicator, Stream stream);
  Result (*send)(const void* from, size_t count, Type type, int peer, Communicator communicator,
                 Stream stream);
  Result (*receive)(void* to, size_t count, Type type, int peer, Communicator communicator,
                    Stream stream);
};

}  // namespace colossal::comm::nccl
