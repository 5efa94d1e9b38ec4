// Converts between Hugging Face folders and GGUF files.
#pragma once

#include <filesystem>
#include <optional>

#include "colossal/io/gguf_blocks.h"

namespace colossal::checkpoint {

// Writes `file` from a folder with config.json, weights and, if there is one, tokenizer.json.
// Matrices become `type`, with two exceptions: rows that are no whole blocks become f16, and with
// q4_k the head becomes q6_k. Vectors become f32. Throws ConfigError if GGUF has no form here for
// the family or the model, or if `file` exists; IoError for bad or unwritable files.
void hf_to_gguf(const std::filesystem::path& folder, const std::filesystem::path& file,
                io::GgufType type);

// Writes a folder from a GGUF file. All tensors become `type`: f16, bf16 or f32. Without it they
// keep the type of the file's matrices if that is one of these, else they become f32. Throws as
// above.
void gguf_to_hf(const std::filesystem::path& file, const std::filesystem::path& folder,
                std::optional<io::GgufType> type);

}  // namespace colossal::checkpoint
