// Large blocks of memory, in pages of their own: in the heap, where blocks of all sizes come and
// go, they leave holes that the next one does not fit.
#pragma once

#include <cstddef>

namespace colossal::memory {

inline constexpr size_t kLargeBlock = size_t{4} << 20;

// Returns memory that begins at a page, with arbitrary contents. A step asks for the same sizes
// again and again, and the first touch of a page costs more than the arithmetic that fills it:
// freed blocks wait for the next of their size, and where the process would otherwise take more
// than its blocks did at their peak, the pages of the oldest move into the new block. (Huge pages,
// asked for, made training slower on some virtual machines, which clear them slowly, and not faster
// on others.) Throws std::bad_alloc. Thread-safe.
void* allocate_pages(size_t bytes);
void free_pages(void* block);

}  // namespace colossal::memory
