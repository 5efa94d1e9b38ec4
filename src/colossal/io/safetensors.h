// The safetensors format: 8 bytes of header length (little endian), a JSON header, the data.
//
//   {"__metadata__": {"format": "pt"},
//    "wte.weight": {"dtype": "F32", "shape": [512, 256], "data_offsets": [0, 524288]}, ...}
//
// Offsets count from the start of the data. Files may come from anywhere, so a reader believes
// nothing that it has not checked, and memory is never reserved by a number that a file states.
// Format: https://github.com/huggingface/safetensors
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
  int64_t begin = 0;  // bytes within the data section: [begin, end)
  int64_t end = 0;

  int64_t bytes() const { return end - begin; }
  bool operator==(const TensorEntry&) const = default;
};

using SafetensorsMetadata = std::map<std::string, std::string>;

// Limits of what is read and written; the first is below the format's own 100,000,000.
inline constexpr int64_t kMaxHeaderBytes = int64_t{64} << 20;
inline constexpr int64_t kMaxTensors = 1'000'000;
inline constexpr int64_t kMaxRank = 8;
inline constexpr int64_t kMaxNameBytes = 1024;

// One file, open for reading. Its functions may be called from several threads at once.
class SafetensorsReader {
 public:
  // Reads and checks the header. Throws IoError naming the file and the first thing wrong with it.
  explicit SafetensorsReader(const std::filesystem::path& path);
  explicit SafetensorsReader(File file);

  const std::filesystem::path& path() const { return file_.path(); }
  const std::vector<TensorEntry>& entries() const { return entries_; }  // in order of their data
  const SafetensorsMetadata& metadata() const { return metadata_; }
  const TensorEntry* find(std::string_view name) const;  // null when there is none

  // Bytes [offset, offset + size) of a tensor of this file, size being the destination's: a rank
  // reads its own slice only. Throws IoError when the file has become shorter.
  void read(const TensorEntry& entry, int64_t offset, std::span<std::byte> destination) const;

 private:
  void read_header();
  void index_names();

  File file_;
  int64_t data_begin_ = 0;
  std::vector<TensorEntry> entries_;
  std::vector<uint32_t> by_name_;  // indices of entries_, sorted by name
  SafetensorsMetadata metadata_;
};

struct TensorSpec {
  std::string name;
  ScalarType type = ScalarType::f32;
  std::vector<int64_t> shape;
};

// A file before it is written: create it with `file_bytes` bytes, write `header` at 0, and let each
// rank write its parts of the tensors at position(entry) + offset within the tensor.
struct SafetensorsPlan {
  std::string header;                // length and padding included: a multiple of 64 bytes
  std::vector<TensorEntry> entries;  // in order of their data
  int64_t file_bytes = 0;

  int64_t position(const TensorEntry& entry) const {
    return static_cast<int64_t>(header.size()) + entry.begin;
  }
};

// Tensors in the order given, those of wider types first, so that each lies at a multiple of its
// element size. What a reader would refuse (a name twice, too many dims ...) is an InternalError.
SafetensorsPlan plan_safetensors(const std::vector<TensorSpec>& tensors,
                                 const SafetensorsMetadata& metadata);

// All bytes before the data, padded with spaces so that the data begins at a multiple of 64.
std::string safetensors_header(std::span<const TensorEntry> entries,
                               const SafetensorsMetadata& metadata);

// Bytes of a dense tensor; nothing when that is more than 63 bits can hold, or a size is negative.
std::optional<int64_t> tensor_bytes(ScalarType type, std::span<const int64_t> shape);

}  // namespace colossal::io
