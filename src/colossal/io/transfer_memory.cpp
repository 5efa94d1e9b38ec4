#include "colossal/io/transfer_memory.h"

#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>
#include <new>

#include "colossal/io/huge_pages.h"
#include "colossal/io/swap_file.h"

namespace colossal::io {
namespace {

constexpr auto kPage = static_cast<size_t>(kSwapBlock);

size_t whole_pages(size_t bytes) {
  return (bytes + kPage - 1) / kPage * kPage;
}

// Large blocks are mapped. On the heap, glibc before 2.38 does not reuse freed aligned blocks, so
// that the heap would grow each time. Small blocks are allocated too often for mmap().
bool is_mapped(size_t bytes) {
  return bytes >= kHugePage;
}

std::byte* map(size_t bytes, PageSize pages) {
  const size_t wanted = whole_pages(bytes);
  // Maps more, so that the block can begin at a multiple of the huge page size.
  void* const mapped = ::mmap(nullptr, wanted + kHugePage, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) throw std::bad_alloc();
  auto* const begin = static_cast<std::byte*>(mapped);
  const size_t before = (kHugePage - reinterpret_cast<uintptr_t>(begin) % kHugePage) % kHugePage;
  std::byte* const memory = begin + before;
  if (before > 0) ::munmap(begin, before);
  ::munmap(memory + wanted, kHugePage - before);
  // Only a hint: without huge pages all works, but slower. The rest after the last whole huge page
  // has small pages, so that a block takes no more memory than was asked for.
  if (pages == PageSize::huge) {
    advise_huge_pages(memory, wanted);
  } else {
    ::madvise(memory, wanted, MADV_NOHUGEPAGE);
  }
  return memory;
}

std::byte* allocate(size_t bytes, PageSize pages) {
  if (is_mapped(bytes)) return map(bytes, pages);
  void* const memory = std::aligned_alloc(kPage, whole_pages(bytes));
  if (!memory && bytes > 0) throw std::bad_alloc();
  return static_cast<std::byte*>(memory);
}

}  // namespace

TransferMemory::TransferMemory(int64_t bytes, PageSize pages)
    : memory_(allocate(static_cast<size_t>(bytes), pages), Release{static_cast<size_t>(bytes)}) {}

void TransferMemory::Release::operator()(std::byte* memory) const {
  if (is_mapped(bytes)) {
    ::munmap(memory, whole_pages(bytes));
  } else {
    std::free(memory);
  }
}

}  // namespace colossal::io
