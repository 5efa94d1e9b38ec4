// Huge pages for memory that is read completely and often, e.g. model weights: up to twice as fast,
// because the CPU translates fewer addresses (the effect is largest in virtual machines).
#pragma once

#include <cstddef>

namespace colossal::io {

inline constexpr size_t kHugePage = size_t{2} << 20;

// Requests huge pages for the aligned huge-page ranges within [begin, begin + bytes), to take
// effect on first write. Only a hint: the system may have none available or may forbid them
// (/sys/kernel/mm/transparent_hugepage/enabled).
void advise_huge_pages(void* begin, size_t bytes);

}  // namespace colossal::io
