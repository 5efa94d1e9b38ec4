// The memory that the ranks of a communicator share, as processes or threads: a pipe from each rank
// to each other one.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

namespace colossal::fake_nccl {

// Bytes that one rank writes and one rank reads, in order.
class Pipe {
 public:
  // Return how many bytes they have moved: those for which there is room, or that have come.
  size_t write(const std::byte* from, size_t size);
  size_t read(std::byte* to, size_t size);

 private:
  static constexpr size_t kSize = size_t{64} << 10;
  std::atomic<uint64_t> written_, read_;  // bytes in all; zero in new memory
  std::byte bytes_[kSize];
};

class Pipes {
 public:
  // name: equal on all ranks. Does not wait for the others.
  Pipes(const std::string& name, int ranks);
  ~Pipes();
  Pipes(const Pipes&) = delete;
  Pipes& operator=(const Pipes&) = delete;

  bool all_have_come() const;
  Pipe& pipe(int from, int to);
  // Tells all ranks that the communicator cannot be used.
  void break_off();
  bool is_broken() const;

 private:
  struct Shared {
    std::atomic<int> arrived, broken;
  };

  int ranks_;
  size_t size_;
  Shared* shared_;
};

}  // namespace colossal::fake_nccl
