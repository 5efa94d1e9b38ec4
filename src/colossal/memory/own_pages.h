// Allocates large blocks of memory in pages of their own. In the heap, among blocks of all sizes,
// large blocks leave holes into which the next large block does not fit.
#pragma once

#include <cstddef>

namespace colossal::memory {

inline constexpr size_t kLargeBlock = size_t{4} << 20;

// Returns page-aligned memory with arbitrary contents. A step allocates the same sizes again and
// again, and the first touch of a page costs more than the arithmetic that fills it. So freed
// blocks are kept for the next allocation of their size. If the process would otherwise exceed the
// peak of its used blocks, pages of the oldest kept blocks are moved into the new block.
// (Requesting huge pages made training slower on some virtual machines, which clear them slowly,
// and no faster on others.) Throws std::bad_alloc. Thread-safe.
void* allocate_pages(size_t bytes);
void free_pages(void* block);

}  // namespace colossal::memory
