// Detects that a model folder has changed: a run stores the digests of the folders that it reads,
// and compares them when it resumes.
#pragma once

#include <filesystem>
#include <string>

namespace colossal::io {

// Hashes of files' names, sizes and some of their bytes, as 16 hexadecimal digits. If a model is
// trained further or converted again, its hash changes with near certainty.
struct FolderDigest {
  // Of all *.json, *.safetensors and *.gguf except chat templates; empty if there are none.
  std::string model;
  std::string chat_template;  // of *.jinja and chat_template.json; empty if there are none
};

// Returns the digest of the files in a model folder, without its subfolders. If `folder` is a file,
// such as a GGUF file, FolderDigest::model is the hash of this file alone, and chat_template is
// empty. Reads at most 64 KiB of each file, spread over the file, and so takes milliseconds even
// for large models. Throws IoError if the folder or one of these files cannot be read.
FolderDigest folder_digest(const std::filesystem::path& folder);

}  // namespace colossal::io
