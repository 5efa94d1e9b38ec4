// The model argument of a command: a Hugging Face folder or a GGUF file.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "colossal/cli/temporary_folder.h"

namespace colossal::cli {

// Whether the path names a GGUF file.
bool is_gguf(const std::filesystem::path& path);

// Provides a Hugging Face folder for the argument. A GGUF file is converted to a folder in $TMPDIR,
// which the destructor removes; keep the object until the weights are read. Throws ConfigError if
// the file does not exist or its architecture is unsupported; IoError.
class ModelSource {
 public:
  explicit ModelSource(const std::string& given);

  const std::string& folder() const { return folder_; }
  // The model's name in requests: the name of the folder, or the file's name without its extension.
  const std::string& name() const { return name_; }

 private:
  std::optional<TemporaryFolder> temporary_;
  std::string folder_, name_;
};

}  // namespace colossal::cli
