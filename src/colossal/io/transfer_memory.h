// Memory that SwapFile moves fastest.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace colossal::io {

// Small pages are for comparison: each is a piece of its own to the device.
enum class PageSize { huge, small };

// Aligned as SwapFile asks, not initialised, and in huge pages where the system gives them (it must
// not say "never" in /sys/kernel/mm/transparent_hugepage/enabled): a block is then one span of
// physical memory, which doubled bandwidth where it was measured (bench/swap.py).
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
