// Reads safetensors files, and plans files to be written. A file has the length of the header (8
// bytes, little-endian), a JSON header, and the data:
//
//   {"__metadata__": {"format": "pt"},
//    "wte.weight": {"dtype": "F32", "shape": [512, 256], "data_offsets": [0, 524288]}, ...}
//
// data_offsets are in bytes from the start of the data. Files are untrusted: the reader validates
// everything, and allocates memory only for data that the file really has, whatever sizes its
// header states. Format: https://github.com/huggingface/safetensors
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "colossal/io/file.h"
#include "colossal/io/scalar_type.h"

namespace colossal::io {

// A tensor of a file.
struct TensorEntry {
  std::string name;
  ScalarType type = ScalarType::f32;
  std::vector<int64_t> shape;
  int64_t begin = 0;  // the tensor is the byte range [begin, end) of the data section
  int64_t end = 0;

  int64_t bytes() const { return end - begin; }
  bool operator==(const TensorEntry&) const = default;
};

// The "__metadata__" of a file.
using SafetensorsMetadata = std::map<std::string, std::string>;

// Limits for reading and, except kMaxTensors, for writing. kMaxHeaderBytes is below the format's
// own limit of 100,000,000.
inline constexpr int64_t kMaxHeaderBytes = int64_t{64} << 20;
inline constexpr int64_t kMaxTensors = 1'000'000;  // in a file
inline constexpr int64_t kMaxRank = 8;             // number of dimensions of a tensor
inline constexpr int64_t kMaxNameBytes = 1024;     // of a tensor's name

// A file that is open for reading. Thread-safe.
class SafetensorsReader {
 public:
  // Reads and validates the header. Throws IoError with the path and the first error found.
  explicit SafetensorsReader(const std::filesystem::path& path);
  explicit SafetensorsReader(File file);

  const std::filesystem::path& path() const { return file_.path(); }
  const std::vector<TensorEntry>& entries() const { return entries_; }  // in order of their data
  const SafetensorsMetadata& metadata() const { return metadata_; }
  // Returns the tensor of this name; null if there is none.
  const TensorEntry* find(std::string_view name) const;

  // Fills `destination` from byte `offset` of a tensor, so that a rank can read its own shard
  // alone. Throws IoError if the file was truncated, and InternalError if the bytes are not all
  // within the tensor.
  void read(const TensorEntry& entry, int64_t offset, std::span<std::byte> destination) const;

 private:
  void read_header();
  void index_names();  // fills by_name_; throws IoError if a name occurs twice

  File file_;
  int64_t data_begin_ = 0;  // byte offset of the data section in the file
  std::vector<TensorEntry> entries_;
  std::vector<uint32_t> by_name_;  // indices into entries_, sorted by name
  SafetensorsMetadata metadata_;
};

// A tensor to be written.
struct TensorSpec {
  std::string name;
  ScalarType type = ScalarType::f32;
  std::vector<int64_t> shape;
};

// The layout of a file to be written. The ranks create a file of `file_bytes` bytes, write `header`
// at offset 0, and write their shards of each tensor at its position().
struct SafetensorsPlan {
  std::string header;                // all bytes before the data, a multiple of 64
  std::vector<TensorEntry> entries;  // in order of their data
  int64_t file_bytes = 0;            // size of the file

  // Returns the offset in the file of the first byte of a tensor of `entries`.
  int64_t position(const TensorEntry& entry) const {
    return static_cast<int64_t>(header.size()) + entry.begin;
  }
};

// Plans a file with these tensors. Tensors of larger element types come first, so that each tensor
// is aligned to its element size; tensors of equal element size keep the given order. Throws
// InternalError if a name occurs twice, a size overflows, or a limit above is exceeded.
SafetensorsPlan plan_safetensors(const std::vector<TensorSpec>& tensors,
                                 const SafetensorsMetadata& metadata);

// Returns all bytes of a file before the data: the length and the JSON header, padded with spaces
// to a multiple of 64 bytes. Throws InternalError if a name occurs twice or a limit above is
// exceeded.
std::string safetensors_header(std::span<const TensorEntry> entries,
                               const SafetensorsMetadata& metadata);

// Returns the size in bytes of a dense tensor; nullopt if a dimension is negative or the size does
// not fit into an int64_t.
std::optional<int64_t> tensor_bytes(ScalarType type, std::span<const int64_t> shape);

}  // namespace colossal::io
