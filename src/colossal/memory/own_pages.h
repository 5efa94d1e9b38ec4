// Large blocks of memory, in pages of their own: in the heap, where blocks of all sizes come and
// go, they leave holes that the next one does not fit.
#pragma once

#include <cstddef>

namespace colossal::memory {

inline constexpr size_t kLargeBlock = size_t{4} << 20;

// At the beginning of a page. A step asks for the same sizes again and again, and the first touch
// of a page costs more than the arithmetic that fills it: freed blocks wait for the next of their
// size, and go back to the system, oldest first, where the process would take more than its blocks
// did at their peak. (Huge pages, asked for, made training slower: virtual machines clear them
// slowly.) Throws std::bad_alloc. Thread-safe.
void* allocate_pages(size_t bytes);
void free_pages(void* block, size_t bytes);  // `bytes` as they were asked for

}  // namespace colossal::memory
