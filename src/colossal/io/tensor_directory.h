// Reads a folder of weights in the layout of the Hugging Face Hub: the file model.safetensors or,
// if it does not exist, the *.safetensors files that the index model.safetensors.index.json names.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "colossal/io/file.h"
#include "colossal/io/safetensors.h"

namespace colossal::io {

// Returns true if the folder has model.safetensors or the index, and false if it has no weights in
// any format. Throws ConfigError with advice if it has only weights that TensorDirectory does not
// read: pickles, other formats, or *.safetensors files with other names.
bool holds_weights(const std::filesystem::path& folder);

// The tensors of a folder. Immutable and thread-safe.
class TensorDirectory {
 public:
  // Opens all files; reads and validates the index and the files' headers. Throws IoError if
  //   - the index gives a tensor's file as a path, or by a name that is not *.safetensors;
  //   - a file that the index names is missing;
  //   - a link leads out of the folder, and File::open_inside() does not follow it with `links`;
  //   - the index and the files do not list the same tensors;
  //   - the index or a file is invalid.
  // Throws ConfigError if the folder has no weights that can be read, or has a *.safetensors file
  // that would not be read. Files named "consolidated*.safetensors" may stay unread, because
  // Mistral publishes its weights a second time under such names.
  explicit TensorDirectory(const std::filesystem::path& folder,
                           OutsideLinks links = OutsideLinks::refuse);

  const std::filesystem::path& path() const { return folder_; }
  const std::vector<std::unique_ptr<SafetensorsReader>>& files() const { return files_; }
  // Returns the names of all tensors, file by file, sorted within each file.
  std::vector<std::string> names() const;

  struct Tensor {
    const SafetensorsReader* file;  // owned by the TensorDirectory
    const TensorEntry* entry;       // owned by `file`
  };
  bool contains(std::string_view name) const { return locate(name).entry != nullptr; }
  // Returns the tensor of this name. Throws IoError if there is none.
  Tensor find(std::string_view name) const;

 private:
  // Opens the files that the index names.
  void open_shards(OutsideLinks links);
  // Throws ConfigError if the folder has a *.safetensors file that is not in files_.
  void check_all_are_read() const;
  // Returns the tensor of this name; null pointers if there is none.
  Tensor locate(std::string_view name) const;

  std::filesystem::path folder_;
  std::vector<std::unique_ptr<SafetensorsReader>> files_;
};

}  // namespace colossal::io
