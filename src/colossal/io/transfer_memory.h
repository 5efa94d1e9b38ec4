// Memory from which and to which SwapFile (swap_file.h) transfers fastest.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace colossal::io {

enum class PageSize {
  huge,  // 2 MiB, if the kernel has such pages (huge_pages.h)
  small  // 4 KiB, for comparison in benchmarks
};

// Uninitialized memory, aligned to kSwapBlock (swap_file.h) bytes. Memory of 2 MiB or more is in
// pages of the requested size if possible. A huge page is physically contiguous, while the drive
// must transfer each small page separately; huge pages doubled the measured bandwidth
// (bench/swap.py).
class TransferMemory {
 public:
  // Allocates `bytes` bytes. Throws std::bad_alloc if there is not enough memory.
  explicit TransferMemory(int64_t bytes, PageSize pages = PageSize::huge);

  std::span<std::byte> bytes() const { return {memory_.get(), memory_.get_deleter().bytes}; }

 private:
  struct Release {
    size_t bytes = 0;
    void operator()(std::byte* memory) const;
  };
  std::unique_ptr<std::byte, Release> memory_;
};

}  // namespace colossal::io
