// Reads and writes the blocks in which GGUF files lay out a tensor: plain numbers, and some of
// ggml's quantized forms. A row is a whole number of blocks. Layouts and rounding are those of
// ggml's reference (https://github.com/ggml-org/ggml, ggml-common.h and ggml-quants.c).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace colossal::io {

// The enumerators have the numbers that files use.
enum class GgufType : uint32_t {
  f32 = 0,
  f16 = 1,
  q4_0 = 2,   // 32 numbers: a scale in f16, codes of 4 bits
  q8_0 = 8,   // 32 numbers: a scale in f16, codes of 8 bits
  q4_k = 12,  // 256 numbers: 8 groups, each with a scale and a minimum of 6 bits; codes of 4 bits
  q6_k = 14,  // 256 numbers: 16 groups, each with a scale of 8 bits; codes of 6 bits
  bf16 = 30,
};

// Finds a type by its number in a file; nothing if it is none of the above.
std::optional<GgufType> find_gguf_type(uint32_t number);
// Finds a type by its name in small letters, "q4_k"; nothing if there is none.
std::optional<GgufType> find_gguf_type(std::string_view name);
const char* gguf_type_name(GgufType type);
std::string gguf_type_names();  // all, for messages

int64_t block_numbers(GgufType type);  // 1 of plain numbers
int64_t block_bytes(GgufType type);

// Whole blocks to numbers. InternalError: spans that do not fit each other.
void read_blocks(GgufType type, std::span<const std::byte> blocks, std::span<float> numbers);

// Numbers to whole blocks, each rounded to nearest. q4_0 and q8_0 give ggml's bytes; of q4_k and
// q6_k, whose scales are searched for, the format only is ggml's.
void write_blocks(GgufType type, std::span<const float> numbers, std::span<std::byte> blocks);

}  // namespace colossal::io
