// Codes of 4 or 8 bits in words of 32 bits, the first code in the lowest bits. Quantized weights of
// published formats are stored this way (packed_integers.h).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace colossal::checkpoint {

inline constexpr int64_t kWordBits = 32;

// Returns how many words hold this number of codes; the last word may have unused bits.
int64_t words_of(int64_t codes, int64_t bits);

// Packs the codes of each row: codes uint8 [rows, n] -> int32 [rows, words_of(n, bits)]. Unused
// bits are 0. bits: 4 or 8.
at::Tensor pack_words(const at::Tensor& codes, int64_t bits);

}  // namespace colossal::checkpoint
