// Between Hugging Face folders and GGUF files.
#pragma once

#include <filesystem>
#include <optional>

#include "colossal/io/gguf_blocks.h"

namespace colossal::checkpoint {

// Writes `file` from a folder of config.json, weights and, where it has one, tokenizer.json. Its
// matrices become `type`, but for rows that are no whole blocks, which become f16, and with q4_k
// the head, which becomes q6_k; vectors are f32. Throws ConfigError for a family or a model that
// GGUF has no form for here, and where `file` is there already; IoError for bad or unwritable
// files.
void hf_to_gguf(const std::filesystem::path& folder, const std::filesystem::path& file,
                io::GgufType type);

// Writes a folder from a GGUF file. All tensors become `type`, which must be f16, bf16 or f32;
// none: that of the file's matrices where it is one of these, else f32. Throws as above.
void gguf_to_hf(const std::filesystem::path& file, const std::filesystem::path& folder,
                std::optional<io::GgufType> type);

}  // namespace colossal::checkpoint
