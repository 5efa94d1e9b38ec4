// The safetensors format: 8 bytes with the length of the header (little-endian), a JSON header, and
// the data:
//
//   {"__metadata__": {"format": "pt"},
//    "wte.weight": {"dtype": "F32", "shape": [512, 256], "data_offsets": [0, 524288]}, ...}
//
// Offsets count from the start of the data. Files are untrusted: the reader validates everything,
// and never allocates memory only because the file states a size. Format:
// https://github.com/huggingface/safetensors
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

struct TensorEntry {
  std::string name;
  ScalarType type = ScalarType::f32;
  std::vector<int64_t> shape;
  int64_t begin = 0;  // byte range [begin, end) within the data section
  int64_t end = 0;

  int64_t bytes() const { return end - begin; }
  bool operator==(const TensorEntry&) const = default;
};

using SafetensorsMetadata = std::map<std::string, std::string>;

// Limits for reading and writing; kMaxHeaderBytes is below the format's own limit of 100,000,000.
inline constexpr int64_t kMaxHeaderBytes = int64_t{64} << 20;
inline constexpr int64_t kMaxTensors = 1'000'000;
inline constexpr int64_t kMaxRank = 8;
inline constexpr int64_t kMaxNameBytes = 1024;

// A file open for reading. Thread-safe.
class SafetensorsReader {
 public:
  // Reads and validates the header. Throws IoError naming the file and the first error in it.
  explicit SafetensorsReader(const std::filesystem::path& path);
  explicit SafetensorsReader(File file);

  const std::filesystem::path& path() const { return file_.path(); }
  const std::vector<TensorEntry>& entries() const { return entries_; }  // in order of their data
  const SafetensorsMetadata& metadata() const { return metadata_; }
  const TensorEntry* find(std::string_view name) const;  // null if there is none

  // Reads destination.size() bytes of a tensor, from byte `offset` of the tensor, so that a rank
  // can read only its own shard. Throws IoError if the file has been truncated.
  void read(const TensorEntry& entry, int64_t offset, std::span<std::byte> destination) const;

 private:
  void read_header();
  void index_names();

  File file_;
  int64_t data_begin_ = 0;
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

// The layout of a file to be written. To write it: create it with `file_bytes` bytes, write
// `header` at offset 0, and let each rank write its parts of each tensor. Byte b of a tensor is at
// position(entry) + b.
struct SafetensorsPlan {
  std::string header;                // all bytes before the data: a multiple of 64
  std::vector<TensorEntry> entries;  // in order of their data
  int64_t file_bytes = 0;

  int64_t position(const TensorEntry& entry) const {
    return static_cast<int64_t>(header.size()) + entry.begin;
  }
};

// Places tensors of wider element types first, so that each tensor is aligned to its element size;
// tensors of equal width keep the given order. Throws InternalError for anything that a reader
// would reject (duplicate names, too many dimensions, ...).
SafetensorsPlan plan_safetensors(const std::vector<TensorSpec>& tensors,
                                 const SafetensorsMetadata& metadata);

// Returns all bytes before the data (length and JSON header), padded with spaces to a multiple
// of 64.
std::string safetensors_header(std::span<const TensorEntry> entries,
                               const SafetensorsMetadata& metadata);

// Returns the size in bytes of a dense tensor; nullopt if a dimension is negative or the result
// exceeds 63 bits.
std::optional<int64_t> tensor_bytes(ScalarType type, std::span<const int64_t> shape);

}  // namespace colossal::io
