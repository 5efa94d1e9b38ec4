// The memory of the emulated GPUs, and pinned host memory. Each is mapped twice: at the addresses
// that tensors have, which host code cannot touch (of device memory ever, of pinned memory while a
// copy uses it), and at others, where kernels read and write.
#pragma once

#include <cstddef>
#include <cstdint>

namespace colossal::emulated_gpu {

constexpr size_t kPage = 4096;  // of the host

class Memory {
 public:
  // Reserves `size` bytes of addresses. readable: whether the host can read and write them at
  // first.
  Memory(size_t size, bool readable);

  // Returns `size` bytes at the end of those that were taken before, or null if there are none
  // left.
  char* take(size_t size);
  bool has(const void* address) const { return address >= begin_ && address < begin_ + size_; }
  // Returns where kernels read and write what is at `address`.
  void* for_kernels(const void* address) const {
    return of_kernels_ + (static_cast<const char*>(address) - begin_);
  }
  size_t size() const { return size_; }

 private:
  size_t size_;
  size_t taken_ = 0;
  char* begin_;       // what tensors point to
  char* of_kernels_;  // the same bytes
};

// The memory of a device, made at its first use.
Memory& device_memory(int device);
// Returns the device of this address, or -1.
int device_of(const void* address);
// Pinned host memory.
Memory& pinned_memory();

// Returns where kernels read and write what is at `address`: itself, if the memory is the host's
// and not pinned.
void* for_kernels(const void* address);

// What host code may do with pinned memory while a copy uses it: nothing with what is written, only
// reads of what is read. Each call of lock_pages() needs a call of unlock_pages() with the same
// arguments.
void lock_pages(const void* begin, size_t size, bool written);
void unlock_pages(const void* begin, size_t size, bool written);

}  // namespace colossal::emulated_gpu
