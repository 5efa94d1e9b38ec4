#include "colossal/io/transfer_memory.h"

#include <sys/mman.h>

#include <cstdint>
#include <new>

#include "colossal/io/swap_file.h"

namespace colossal::io {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;

size_t mapped_bytes(size_t bytes) {
  constexpr auto kPage = static_cast<size_t>(kSwapBlock);
  return (bytes + kPage - 1) / kPage * kPage;
}

// Pages of their own: the heap, before glibc 2.38, passes over freed blocks that are aligned, and
// grows by one at each turn.
std::byte* allocate(size_t bytes, PageSize pages) {
  if (bytes == 0) return nullptr;
  const size_t wanted = mapped_bytes(bytes);
  const size_t spare = wanted >= kHugePage ? kHugePage : 0;  // to begin where a huge page can
  void* const mapped =
      ::mmap(nullptr, wanted + spare, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) throw std::bad_alloc();
  auto* const begin = static_cast<std::byte*>(mapped);
  if (spare == 0) return begin;
  const size_t before = (kHugePage - reinterpret_cast<uintptr_t>(begin) % kHugePage) % kHugePage;
  std::byte* const memory = begin + before;
  if (before > 0) ::munmap(begin, before);
  if (spare > before) ::munmap(memory + wanted, spare - before);
  // Only advice: without it all works, slower. What is left after whole huge pages stays small, so
  // that a block takes no more than was asked for.
  ::madvise(memory, wanted / kHugePage * kHugePage,
            pages == PageSize::huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
  return memory;
}

}  // namespace

TransferMemory::TransferMemory(int64_t bytes, PageSize pages)
    : memory_(allocate(static_cast<size_t>(bytes), pages), Unmap{static_cast<size_t>(bytes)}) {}

void TransferMemory::Unmap::operator()(std::byte* memory) const {
  ::munmap(memory, mapped_bytes(bytes));
}

}  // namespace colossal::io
