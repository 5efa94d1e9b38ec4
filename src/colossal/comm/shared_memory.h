// Memory shared by processes of one host. It has no name in a file system, so nothing is left
// behind however the processes end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace colossal::comm {

class SharedMemory {
 public:
  // Creates zeroed memory, which becomes resident only when it is written. Throws CommError if the
  // system refuses.
  static SharedMemory create(int64_t bytes);
  // Opens memory that was created, and not yet sealed, by another process or this one. Throws
  // CommError with the reason if that fails.
  static SharedMemory open(const std::string& address);

  SharedMemory(SharedMemory&& other) noexcept;
  SharedMemory& operator=(SharedMemory&&) = delete;
  ~SharedMemory();

  // Returns the address with which processes on this host can open() this memory.
  std::string address() const;
  // Prevents further open() calls. Processes that have opened the memory keep it.
  void seal();

  std::byte* data() const { return data_; }

 private:
  SharedMemory(int descriptor, int64_t bytes);

  int descriptor_ = -1;
  int64_t bytes_ = 0;
  std::byte* data_ = nullptr;
};

// Returns a string that is equal for two processes only if they run on one host and may open each
// other's memory.
std::string host_identity();

}  // namespace colossal::comm
