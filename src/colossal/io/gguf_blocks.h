// Quantizes and dequantizes the data of GGUF tensors (gguf.h). A tensor is stored in blocks. A
// block holds a fixed number of elements, which depends on the tensor's type, and the scales that
// these elements share. A row of a tensor (its last dimension) is a whole number of blocks. Layouts
// follow ggml's reference implementation (https://github.com/ggml-org/ggml, ggml-common.h and
// ggml-quants.c).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace colossal::io {

// The supported types of tensors, with the format's numbers.
enum class GgufType : uint32_t {
  f32 = 0,
  f16 = 1,
  q4_0 = 2,   // blocks of 32: an f16 scale, 4-bit codes
  q8_0 = 8,   // blocks of 32: an f16 scale, 8-bit codes
  q4_k = 12,  // blocks of 256: 8 groups, each with a 6-bit scale and a 6-bit minimum; 4-bit codes
  q6_k = 14,  // blocks of 256: 16 groups, each with an 8-bit scale; 6-bit codes
  // In q4_k and q6_k, the scale of a group is its stored scale times an f16 factor of the block. In
  // q4_k, a second f16 factor does the same for the minimums.
  bf16 = 30,
};

// Returns the type with this number in the format; nullopt if it is not supported.
std::optional<GgufType> find_gguf_type(uint32_t number);
// Returns the type with this lower-case name, such as "q4_k"; nullopt if it is not supported.
std::optional<GgufType> find_gguf_type(std::string_view name);
const char* gguf_type_name(GgufType type);  // lower-case, such as "q4_k"
// Returns the names of all supported types, separated by commas, for error messages.
std::string gguf_type_names();

int64_t elements_per_block(GgufType type);  // 1 if the type is not quantized
int64_t bytes_per_block(GgufType type);

// Dequantizes whole blocks into `numbers`, which must have room for exactly their elements;
// otherwise throws InternalError.
void read_blocks(GgufType type, std::span<const std::byte> blocks, std::span<float> numbers);

// Quantizes `numbers` into whole blocks, rounding to nearest. `blocks` must have room for exactly
// the blocks of `numbers`; otherwise throws InternalError. The bits for q4_0 and q8_0 are equal to
// those of ggml. For q4_k and q6_k, scales and codes may differ, because ggml searches for the
// scales with the least error in another way.
void write_blocks(GgufType type, std::span<const float> numbers, std::span<std::byte> blocks);

}  // namespace colossal::io
