// Allocates large blocks of memory directly from the operating system, in pages of their own. In
// the heap, a large block that is freed leaves a hole that smaller blocks soon occupy, so that the
// next large block does not fit.
#pragma once

#include <cstddef>

namespace colossal::memory {

// Bytes from which a block counts as large.
inline constexpr size_t kLargeBlock = size_t{4} << 20;

// Returns page-aligned memory with arbitrary contents; release it with free_pages(). A step
// allocates blocks of the same sizes again and again, and the first touch of a page costs more than
// the arithmetic that fills it. So freed blocks are kept for the next allocation of their size.
// Used and kept blocks together do not exceed the largest total of used blocks so far: to prevent
// that, a new block takes over pages of the oldest kept blocks. (Huge pages are not requested: they
// made training slower on some virtual machines, which clear them slowly, and no faster on others.)
// Throws std::bad_alloc. Thread-safe.
void* allocate_pages(size_t bytes);
void free_pages(void* block);

}  // namespace colossal::memory
