// What a command is given as a model: a Hugging Face folder, or a GGUF file.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "colossal/cli/temporary_folder.h"

namespace colossal::cli {

bool is_gguf(const std::filesystem::path& path);

// Returns the folder of the given model. The contents of a GGUF file are written to a folder in
// $TMPDIR, which exists while this lives; it must live until the weights have been read. Throws
// ConfigError for a file whose model is not known, IoError.
class ModelSource {
 public:
  explicit ModelSource(const std::string& given);

  const std::string& folder() const { return folder_; }
  // The model's name in requests: that of the folder, or of the file without its ending.
  const std::string& name() const { return name_; }

 private:
  std::optional<TemporaryFolder> temporary_;
  std::string folder_, name_;
};

}  // namespace colossal::cli
