// The checksum CRC-32C (Castagnoli; polynomial 0x1EDC6F41, RFC 3720 appendix B.4), and its masked
// form, which TFRecord files store. The masked form exists because the CRC of data that itself
// contains CRCs detects errors less well. Used by tensorboard.h.
#pragma once

#include <cstdint>
#include <string_view>

namespace colossal::report {

// Returns the CRC-32C of the bytes.
uint32_t crc32c(std::string_view bytes);

// Returns the masked CRC-32C of the bytes: rotate_right(crc32c(bytes), 15) + 0xa282ead8, as defined
// in tensorflow/core/lib/hash/crc32c.h.
uint32_t masked_crc32c(std::string_view bytes);

}  // namespace colossal::report
