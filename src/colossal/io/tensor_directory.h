// A folder of weights in the layout of the Hugging Face Hub: model.safetensors, or
// model.safetensors.index.json and the *.safetensors files that it names.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "colossal/io/file.h"
#include "colossal/io/safetensors.h"

namespace colossal::io {

// Returns true if the folder has model.safetensors or the index, false if it has no weights at all.
// Throws ConfigError, with advice, if it has only weights that TensorDirectory does not read:
// pickles, other formats, or *.safetensors files with other names.
bool holds_weights(const std::filesystem::path& folder);

// Immutable and thread-safe.
class TensorDirectory {
 public:
  // Reads and validates the index and the headers of all files. Throws IoError if the index names a
  // file by more than a plain file name, if a link leads out of the folder (unless links = follow),
  // if a file is missing, or if the index and the files do not list the same tensors. Throws
  // ConfigError if the folder has no readable weights, or has a *.safetensors file that would not
  // be read. ("consolidated*.safetensors" may remain unread: Mistral publishes the weights a second
  // time under such names.)
  explicit TensorDirectory(const std::filesystem::path& folder,
                           OutsideLinks links = OutsideLinks::refuse);

  const std::filesystem::path& path() const { return folder_; }
  const std::vector<std::unique_ptr<SafetensorsReader>>& files() const { return files_; }
  std::vector<std::string> names() const;  // sorted by name within each file, file by file

  struct Tensor {
    const SafetensorsReader* file;  // owned by the TensorDirectory
    const TensorEntry* entry;
  };
  bool contains(std::string_view name) const { return locate(name).entry != nullptr; }
  Tensor find(std::string_view name) const;  // throws IoError if missing

 private:
  void open_shards(OutsideLinks links);
  void check_all_are_read() const;
  Tensor locate(std::string_view name) const;

  std::filesystem::path folder_;
  std::vector<std::unique_ptr<SafetensorsReader>> files_;
};

}  // namespace colossal::io
