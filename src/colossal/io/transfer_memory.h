// The memory for the fastest transfers of SwapFile.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace colossal::io {

// small: for comparison in benchmarks; the drive must transfer each small page separately.
enum class PageSize { huge, small };

// Uninitialized memory, aligned for SwapFile. From 2 MiB on it is in huge pages if these are
// available (/sys/kernel/mm/transparent_hugepage/enabled must not be "never"). A huge page is
// physically contiguous, which doubled the measured bandwidth (bench/swap.py).
class TransferMemory {
 public:
  // Throws std::bad_alloc.
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
