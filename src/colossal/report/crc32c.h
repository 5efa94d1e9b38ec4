// CRC-32C (Castagnoli; polynomial 0x1EDC6F41, RFC 3720 appendix B.4), and the masked form of it
// that TFRecord files store: a CRC over data that contains unmasked CRCs is weak.
#pragma once

#include <cstdint>
#include <string_view>

namespace colossal::report {

uint32_t crc32c(std::string_view bytes);

// Returns rotate_right(crc, 15) + 0xa282ead8, as defined in tensorflow/core/lib/hash/crc32c.h.
uint32_t masked_crc32c(std::string_view bytes);

}  // namespace colossal::report
