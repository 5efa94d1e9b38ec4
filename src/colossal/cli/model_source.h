// The model argument of a command: a Hugging Face folder, or a GGUF file.
#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <optional>
#include <string>

#include "colossal/cli/temporary_folder.h"

namespace colossal::cli {

// Returns true if the path has the extension .gguf.
bool is_gguf(const std::filesystem::path& path);

// Makes an option take the names of models in the Hub's cache, too: io::find_model() turns them
// into paths.
void find_model_of(CLI::Option& option);

// Provides a Hugging Face folder for the argument. A GGUF file is converted to a folder in $TMPDIR,
// which the destructor removes: keep the object until the weights are read.
class ModelSource {
 public:
  // given: the argument. A folder is not checked: folder() returns its path as given. compute: the
  // value of precision.compute. Weights of a quantized GGUF file become bf16, or fp32 if `compute`
  // is fp32 or fp64; those of another file keep their type. Throws
  // ConfigError if a GGUF file does not exist or its architecture is unsupported, and IoError if
  // the file is invalid or the folder in $TMPDIR cannot be written.
  explicit ModelSource(const std::string& given, const std::string& compute = "auto");

  const std::string& folder() const { return folder_; }
  // Returns the default name of the model in requests: its name on the Hub if the folder is in the
  // Hub's cache, else the name of the folder, or of the file without its extension.
  const std::string& name() const { return name_; }
  // Returns the id of the process that removes the temporary folder of a GGUF file; nullopt if
  // there is none.
  std::optional<pid_t> guard_pid() const {
    return temporary_ ? std::optional(temporary_->guard_pid()) : std::nullopt;
  }

 private:
  std::optional<TemporaryFolder> temporary_;  // for a GGUF file
  std::string folder_, name_;
};

}  // namespace colossal::cli
