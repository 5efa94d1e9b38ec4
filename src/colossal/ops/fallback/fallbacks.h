// Counts the computations for which a GPU has no kernel, so that operators of LibTorch carry them
// out, slower and with more memory.
#pragma once

#include <cstdint>
#include <string>

namespace colossal::ops {

// Counts one. what: such as "attention with dropout"; the first of its kind is said in the log.
// Thread-safe.
void count_fallback(const std::string& what);

// Returns how many there were in this process.
int64_t num_fallbacks();

}  // namespace colossal::ops
