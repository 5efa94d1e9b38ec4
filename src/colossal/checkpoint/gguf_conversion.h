// Converts between Hugging Face folders and GGUF files, for `colossal convert`.
#pragma once

#include <filesystem>
#include <optional>

#include "colossal/io/gguf_blocks.h"

namespace colossal::checkpoint {

// Converts a folder with config.json, unquantized weights and, optionally, tokenizer.json to the
// GGUF file `file`. Matrices get the type `type`, with these exceptions:
//   - weights of routers get f32;
//   - if `type` is q4_k, the head (or the embedding table that serves as head) gets q6_k;
//   - a matrix gets f16 if its row length is not a multiple of its type's block size.
// Vectors get f32. Throws ConfigError if the family or the model cannot be converted, the weights
// are quantized, a value is not finite in its new type, or `file` exists. Throws IoError if a file
// is invalid or cannot be written.
void hf_to_gguf(const std::filesystem::path& folder, const std::filesystem::path& file,
                io::GgufType type);

// Converts a GGUF file to the folder `folder`. All tensors get the type `type`: f16, bf16 or f32.
// nullopt: `of_quantized` if a matrix is quantized, f32 if there is no matrix; otherwise the type
// of the matrix whose data come last in the file, even if other matrices have another type. Throws
// ConfigError if
// the family, the model or the tokenizer cannot be converted, `type` is quantized, a value is not
// finite in its new type, or `folder` exists. Throws IoError if a file is invalid or cannot be
// written.
void gguf_to_hf(const std::filesystem::path& file, const std::filesystem::path& folder,
                std::optional<io::GgufType> type, io::GgufType of_quantized = io::GgufType::f32);

}  // namespace colossal::checkpoint
