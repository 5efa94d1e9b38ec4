// Detects changes of a model folder.
#pragma once

#include <filesystem>
#include <string>

namespace colossal::io {

// Hashes of the names, sizes and some bytes of files. If a model is trained further or converted
// anew, its digest changes with near certainty.
struct FolderDigest {
  std::string model;          // of all *.json, *.safetensors and *.gguf except chat templates
  std::string chat_template;  // of *.jinja and chat_template.json; empty if there are none
};

// Returns the digests of the files directly in a model folder, or of a single file. Reads at most
// 64 KiB per file, spread over the file, so it takes milliseconds even for large models. Throws
// IoError.
FolderDigest folder_digest(const std::filesystem::path& folder);

}  // namespace colossal::io
