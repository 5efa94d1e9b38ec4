// Converts between Hugging Face folders and GGUF files.
#pragma once

#include <filesystem>
#include <optional>

#include "colossal/io/gguf_blocks.h"

namespace colossal::checkpoint {

// Writes `file` from a folder with config.json, weights and, optionally, tokenizer.json. Matrices
// are converted to `type`, with these exceptions: the weights of routers are stored as f32, with
// q4_k the head is stored as q6_k, and a matrix whose rows are not whole quantization blocks is
// stored as f16. Vectors are stored as f32.
// Throws ConfigError if the family or the model cannot be converted to GGUF, or if `file` exists.
// Throws IoError if a file is invalid or cannot be written.
void hf_to_gguf(const std::filesystem::path& folder, const std::filesystem::path& file,
                io::GgufType type);

// Writes a folder from a GGUF file. All tensors are converted to `type`: f16, bf16 or f32. If
// `type` is nullopt, the type of the file's matrices is used if it is one of these, else f32.
// Throws as hf_to_gguf() does.
void gguf_to_hf(const std::filesystem::path& file, const std::filesystem::path& folder,
                std::optional<io::GgufType> type);

}  // namespace colossal::checkpoint
