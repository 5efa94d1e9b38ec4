// What a command is given as a model: a Hugging Face folder, or a GGUF file.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace colossal::cli {

bool is_gguf(const std::filesystem::path& path);

// A new folder for temporary files, beside others of its kind, which is removed with all that is in
// it at the end. Throws IoError.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

// The folder of the given model. What a file holds is written to one in $TMPDIR, which is there
// while this lives: until the weights have been read. Throws ConfigError for a file whose model is
// not known, IoError.
class ModelSource {
 public:
  explicit ModelSource(const std::string& given);

  const std::string& folder() const { return folder_; }
  // For requests: that of the folder, or of the file without its end.
  const std::string& name() const { return name_; }

 private:
  std::optional<TemporaryFolder> temporary_;
  std::string folder_, name_;
};

}  // namespace colossal::cli
