// A folder of weights as the Hugging Face hub has them: model.safetensors, or
// model.safetensors.index.json with its shards.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "colossal/io/file.h"
#include "colossal/io/safetensors.h"

namespace colossal::io {

// Whether a folder has weights that TensorDirectory reads; false where it has none of any kind.
// Throws ConfigError naming them, with advice, where all it has are others: pickles, which are
// never read, other formats, or *.safetensors of other names.
bool holds_weights(const std::filesystem::path& folder);

class TensorDirectory {
 public:
  // Reads and checks the index and every header. Throws IoError when a shard's name is no plain
  // file name or a link leaves the folder (unless told to follow), a shard is missing, or index and
  // shards do not name exactly the same tensors; ConfigError when the folder has no weights that
  // are read, or a *.safetensors besides those that are. ("consolidated*.safetensors" may be there:
  // the same weights under other names, as Mistral publishes them.)
  explicit TensorDirectory(const std::filesystem::path& folder,
                           OutsideLinks links = OutsideLinks::refuse);

  const std::filesystem::path& path() const { return folder_; }
  const std::vector<std::unique_ptr<SafetensorsReader>>& files() const { return files_; }
  std::vector<std::string> names() const;  // sorted within each file, file after file

  struct Tensor {
    const SafetensorsReader* file;  // lives as long as the directory
    const TensorEntry* entry;
  };
  bool contains(std::string_view name) const { return locate(name).entry != nullptr; }
  Tensor find(std::string_view name) const;  // throws IoError when there is none

 private:
  void open_shards(OutsideLinks links);
  void check_all_are_read() const;
  Tensor locate(std::string_view name) const;

  std::filesystem::path folder_;
  std::vector<std::unique_ptr<SafetensorsReader>> files_;
};

}  // namespace colossal::io
