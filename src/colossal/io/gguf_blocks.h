// Reads and writes the blocks that GGUF tensors consist of, in their element types: unquantized
// types and some of ggml's quantized types. A tensor's row (its last dimension) is a whole number
// of blocks. Layouts and rounding follow ggml's reference implementation
// (https://github.com/ggml-org/ggml, ggml-common.h and ggml-quants.c).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace colossal::io {

// The values are those of the file format.
enum class GgufType : uint32_t {
  f32 = 0,
  f16 = 1,
  q4_0 = 2,   // blocks of 32: an f16 scale, 4-bit codes
  q8_0 = 8,   // blocks of 32: an f16 scale, 8-bit codes
  q4_k = 12,  // blocks of 256: 8 groups, each with a 6-bit scale and a 6-bit minimum; 4-bit codes
  q6_k = 14,  // blocks of 256: 16 groups, each with an 8-bit scale; 6-bit codes
  bf16 = 30,
};

// Finds a type by its number in a file; nullopt if unsupported.
std::optional<GgufType> find_gguf_type(uint32_t number);
// Finds a type by its lower-case name, "q4_k"; nullopt if unsupported.
std::optional<GgufType> find_gguf_type(std::string_view name);
const char* gguf_type_name(GgufType type);
std::string gguf_type_names();  // all of them, for error messages

int64_t elements_per_block(GgufType type);  // elements per block; 1 if unquantized
int64_t bytes_per_block(GgufType type);     // bytes per block

// Dequantizes whole blocks. Throws InternalError if the sizes of the spans do not match.
void read_blocks(GgufType type, std::span<const std::byte> blocks, std::span<float> numbers);

// Quantizes to whole blocks, rounding to nearest. Throws InternalError if the sizes of the spans do
// not match. The results for q4_0 and q8_0 are bit-identical to ggml's. Those for q4_k and q6_k may
// have other scales than ggml's, because the scales are found by a search.
void write_blocks(GgufType type, std::span<const float> numbers, std::span<std::byte> blocks);

}  // namespace colossal::io
