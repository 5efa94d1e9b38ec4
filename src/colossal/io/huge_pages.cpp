#include "colossal/io/huge_pages.h"

#include <sys/mman.h>

#include <cstdint>

namespace colossal::io {

void advise_huge_pages(void* begin, size_t bytes) {
  const auto address = reinterpret_cast<uintptr_t>(begin);
  const uintptr_t first = (address + kHugePage - 1) / kHugePage * kHugePage;
  const uintptr_t end = (address + bytes) / kHugePage * kHugePage;
  if (first < end) ::madvise(reinterpret_cast<void*>(first), end - first, MADV_HUGEPAGE);
}

void provide_pages(void* begin, size_t bytes) {
  constexpr uintptr_t kPage = 4096;
  const auto address = reinterpret_cast<uintptr_t>(begin);
  const uintptr_t first = address / kPage * kPage;
  ::madvise(reinterpret_cast<void*>(first), address + bytes - first, MADV_POPULATE_WRITE);
}

}  // namespace colossal::io
