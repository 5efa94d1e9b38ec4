// Allocates large blocks of memory directly from the operating system, in pages of their own
// instead of in the heap. In the heap, a large block that is freed leaves a hole that smaller
// blocks soon occupy, so that the next large block does not fit. LibTorch's CPU tensors use this
// through install_allocators() in memory_ledger.h.
#pragma once

#include <cstddef>

namespace colossal::memory {

// A block of at least this many bytes counts as large. allocate_pages() itself also accepts fewer,
// at least 1.
inline constexpr size_t kLargeBlock = size_t{1} << 20;

// Returns page-aligned memory of at least `bytes` bytes, with arbitrary contents. Release it by
// free_pages(). Throws std::bad_alloc. Thread-safe.
//
// Freed blocks are kept for the next allocation of their size, because a training step allocates
// blocks of the same sizes again and again, and the first touch of a page costs more than the
// arithmetic that fills the page. Used and kept blocks together never have more bytes than the used
// blocks had at their peak: a new block that would exceed this takes over pages of the oldest kept
// blocks. Huge pages are not requested: they made training slower on some virtual machines, and no
// faster on others.
void* allocate_pages(size_t bytes);
// Releases the block that begins at `block`, a result of allocate_pages(), not null. Thread-safe.
void free_pages(void* block);

}  // namespace colossal::memory
