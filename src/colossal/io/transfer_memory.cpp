#include "colossal/io/transfer_memory.h"

#include <sys/mman.h>

#include <cstdlib>
#include <new>

#include "colossal/io/swap_file.h"

namespace colossal::io {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;

std::byte* allocate(size_t bytes, PageSize pages) {
  const size_t alignment = bytes >= kHugePage ? kHugePage : static_cast<size_t>(kSwapBlock);
  const size_t rounded = (bytes + alignment - 1) / alignment * alignment;
  void* memory = std::aligned_alloc(alignment, rounded);
  if (!memory && bytes > 0) throw std::bad_alloc();
  // Only advice: without it all works, slower.
  if (alignment == kHugePage) {
    ::madvise(memory, rounded, pages == PageSize::huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
  }
  return static_cast<std::byte*>(memory);
}

}  // namespace

TransferMemory::TransferMemory(int64_t bytes, PageSize pages)
    : size_(static_cast<size_t>(bytes)), memory_(allocate(size_, pages)) {}

void TransferMemory::Free::operator()(std::byte* memory) const {
  std::free(memory);
}

}  // namespace colossal::io
