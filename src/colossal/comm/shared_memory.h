// Memory that processes of one host map together. It has no name in any file system, so that
// nothing is left behind however the processes end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace colossal::comm {

class SharedMemory {
 public:
  // Creates memory of zeros, which takes real memory only where it is written to. Throws CommError.
  static SharedMemory create(int64_t bytes);
  // Opens memory that another process (or this one) created and has not sealed. Throws CommError
  // with the reason if it cannot.
  static SharedMemory open(const std::string& address);

  SharedMemory(SharedMemory&& other) noexcept;
  SharedMemory& operator=(SharedMemory&&) = delete;
  ~SharedMemory();

  // Returns the address by which others on this host open this memory.
  std::string address() const;
  // From now on nobody can open this memory; whoever has it open keeps it.
  void seal();

  std::byte* data() const { return data_; }

 private:
  SharedMemory(int descriptor, int64_t bytes);

  int descriptor_ = -1;
  int64_t bytes_ = 0;
  std::byte* data_ = nullptr;
};

// Equal for two processes only if they run on one host and may open each other's memory.
std::string host_identity();

}  // namespace colossal::comm
