// Memory shared by processes of one host. One process creates it and passes its address to the
// others, which open it. It has no name in a file system, so the kernel frees it even if all
// processes are killed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace colossal::comm {

// This process's mapping of the memory; the destructor unmaps it.
class SharedMemory {
 public:
  // Creates `bytes` bytes of zeroed memory. Pages become resident when they are first accessed.
  // Throws CommError if the system refuses.
  static SharedMemory create(int64_t bytes);
  // Maps memory of another process or of this one. address: address() of a SharedMemory that is not
  // sealed. Throws CommError with the reason if that fails.
  static SharedMemory open(const std::string& address);

  SharedMemory(SharedMemory&& other) noexcept;
  SharedMemory& operator=(SharedMemory&&) = delete;
  ~SharedMemory();

  // Returns the address for open() in processes of this host. Valid until seal() or the destructor
  // of this object is called.
  std::string address() const;
  // Makes this object's address invalid, so that no further process can open the memory by it.
  // Existing mappings stay.
  void seal();

  // Returns the start of the memory in this process.
  std::byte* data() const { return data_; }

 private:
  SharedMemory(int descriptor, int64_t bytes);

  int descriptor_ = -1;  // -1: sealed
  int64_t bytes_ = 0;
  std::byte* data_ = nullptr;
};

// Identifies the host of this process: returns a string that is equal for two processes only if
// they run on one machine, in the same namespaces (container) and as the same user. Such processes
// can open each other's SharedMemory.
std::string host_identity();

}  // namespace colossal::comm
