#include "colossal/memory/own_pages.h"

#include <sys/mman.h>

#include <cstdint>
#include <new>

namespace colossal::memory {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;

size_t in_huge_pages(size_t bytes) { return (bytes + kHugePage - 1) / kHugePage * kHugePage; }

}  // namespace

void* map_pages(size_t bytes) {
  // One page more, and what lies before and behind is given back: huge pages are aligned.
  const size_t size = in_huge_pages(bytes);
  void* const memory =
      mmap(nullptr, size + kHugePage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  auto* const mapped = static_cast<std::byte*>(memory);
  const auto address = reinterpret_cast<uintptr_t>(memory);
  const size_t before = in_huge_pages(address) - address;
  if (before > 0) munmap(mapped, before);
  munmap(mapped + before + size, kHugePage - before);
  // Advice: where it is refused, pages are small. The last one is, so that it takes what it holds.
  static_cast<void>(madvise(mapped + before, bytes / kHugePage * kHugePage, MADV_HUGEPAGE));
  return mapped + before;
}

void unmap_pages(void* begin, size_t bytes) { munmap(begin, in_huge_pages(bytes)); }

}  // namespace colossal::memory
