// Huge pages for memory that is read completely and often, e.g. model weights. Reading it can
// become twice as fast, because the CPU translates fewer addresses (most noticeably in virtual
// machines).
#pragma once

#include <cstddef>

namespace colossal::io {

inline constexpr size_t kHugePage = size_t{2} << 20;  // bytes; also the alignment of a huge page

// Asks the kernel to back [begin, begin + bytes) by huge pages, as far as whole ones fit. Call it
// before the memory is first written. Only a hint: the system may have none available or may forbid
// them (/sys/kernel/mm/transparent_hugepage/enabled).
void advise_huge_pages(void* begin, size_t bytes);

// Lets the kernel provide all pages of [begin, begin + bytes), zeroed, at once instead of one by
// one as they are first written. Several threads may call it for different parts of one allocation.
// Also only a hint: Linux before 5.14 ignores it.
void provide_pages(void* begin, size_t bytes);

}  // namespace colossal::io
