// CRC-32C (Castagnoli; polynomial 0x1EDC6F41, RFC 3720 appendix B.4), and the masked form that
// TFRecord files keep: a checksum over data that holds checksums would otherwise be weak.
#pragma once

#include <cstdint>
#include <string_view>

namespace colossal::report {

uint32_t crc32c(std::string_view bytes);

// rotate_right(crc, 15) + 0xa282ead8, as tensorflow/core/lib/hash/crc32c.h defines it.
uint32_t masked_crc32c(std::string_view bytes);

}  // namespace colossal::report
