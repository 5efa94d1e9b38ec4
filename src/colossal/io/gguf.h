// Reads and writes GGUF files, the model files of llama.cpp. A file has a header with fields (named
// values) and a list of tensors, then the tensors' data in blocks (gguf_blocks.h). Files are
// untrusted: the reader validates everything, and allocates memory only for data that the file
// really has, whatever sizes its header states.
// Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "colossal/io/file.h"
#include "colossal/io/gguf_blocks.h"

namespace colossal::io {

// The types of fields, with the format's numbers.
enum class GgufFieldType : uint32_t {
  u8 = 0,
  i8 = 1,
  u16 = 2,
  i16 = 3,
  u32 = 4,
  i32 = 5,
  f32 = 6,
  boolean = 7,
  string = 8,
  array = 9,
  u64 = 10,
  i64 = 11,
  f64 = 12,
};

// The value of a field, not decoded.
struct GgufValue {
  GgufFieldType kind = GgufFieldType::u8;  // type of the value; of the elements if is_array
  bool is_array = false;
  uint64_t count = 1;  // number of elements; 1 unless is_array
  // The value as in the file, without the type and count before it. Each text begins with its
  // length, a u64.
  std::string bytes;

  // Return the value of a field to be written. Numbers become u32, i32 or f32.
  static GgufValue of(uint32_t number);
  static GgufValue of(float number);
  static GgufValue of(bool flag);
  static GgufValue of(std::string_view text);
  static GgufValue of(const std::vector<std::string>& texts);
  static GgufValue of(const std::vector<float>& numbers);
  static GgufValue of(const std::vector<int32_t>& numbers);
  // Without this overload, a string literal would convert to bool.
  static GgufValue of(const char* text) { return of(std::string_view(text)); }
};

// A tensor of a file.
struct GgufTensor {
  std::string name;
  GgufType type = GgufType::f32;
  std::vector<int64_t> shape;  // as in PyTorch, outermost dimension first; reversed in the file
  int64_t begin = 0;           // byte offset within the data section
  int64_t bytes = 0;           // size of all its blocks

  int64_t numel() const;  // number of elements
};

// The reader rejects a file with a larger header, a tensor of more dimensions, or a larger
// alignment of the data (in bytes).
inline constexpr int64_t kMaxGgufHeaderBytes = int64_t{256} << 20;
inline constexpr int64_t kMaxGgufRank = 4;
inline constexpr int64_t kMaxGgufAlignment = 1 << 16;

// A GGUF file that is open for reading. Thread-safe.
class GgufReader {
 public:
  // Opens the file, reads and validates the header. Throws IoError with the path and the first
  // error found. Throws ConfigError if a tensor has a type that GgufType does not list.
  explicit GgufReader(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return file_.path(); }
  const std::vector<GgufTensor>& tensors() const { return tensors_; }  // in order of their data
  // Returns the tensor of this name; null if there is none.
  const GgufTensor* find(std::string_view name) const;
  const std::map<std::string, GgufValue>& fields() const { return fields_; }  // by name

  // Return the decoded value of the field `key`; nullopt if there is no such field. texts() and
  // numbers() return the elements of an array. number() and numbers() accept integers, too. Throw
  // IoError if the field has another type, or if the magnitude of an integer() is above 2^53.
  std::optional<int64_t> integer(const std::string& key) const;
  std::optional<double> number(const std::string& key) const;
  std::optional<bool> flag(const std::string& key) const;
  std::optional<std::string> text(const std::string& key) const;
  std::optional<std::vector<std::string>> texts(const std::string& key) const;
  std::optional<std::vector<double>> numbers(const std::string& key) const;

  // Reads and dequantizes the elements [begin, begin + numbers.size()) of a tensor, counted in
  // row-major order, into `numbers`. `begin` and numbers.size() must be multiples of
  // elements_per_block(tensor.type). Throws IoError if the file was truncated.
  void read(const GgufTensor& tensor, int64_t begin, std::span<float> numbers) const;

 private:
  friend class GgufHeaderParser;
  // Returns the field `key`; null if there is none. Throws IoError if the field has another
  // is_array.
  const GgufValue* value(const std::string& key, bool is_array) const;

  File file_;
  int64_t data_begin_ = 0;  // byte offset of the data section in the file
  std::map<std::string, GgufValue> fields_;
  std::vector<GgufTensor> tensors_;
};

// The layout of a file to be written. The caller creates a file of `file_bytes` bytes, writes
// `header` at offset 0, and writes the blocks of each tensor (write_blocks()) at position().
struct GgufPlan {
  std::string header;               // all bytes before the data
  std::vector<GgufTensor> tensors;  // in order of their data
  int64_t file_bytes = 0;           // size of the file

  // Returns the byte offset in the file of a tensor of `tensors`.
  int64_t position(const GgufTensor& tensor) const {
    return static_cast<int64_t>(header.size()) + tensor.begin;
  }
};

// Plans a file with these fields and tensors, both in the given order. Data are aligned to 32
// bytes, the format's default; do not give the field general.alignment. Of `tensors`, the caller
// sets name, type and shape; GgufPlan::tensors also has `begin` and `bytes`. Throws InternalError
// if a tensor has no dimensions or more than kMaxGgufRank, or if its last dimension is not a whole
// number of blocks.
GgufPlan plan_gguf(const std::vector<std::pair<std::string, GgufValue>>& fields,
                   std::vector<GgufTensor> tensors);

}  // namespace colossal::io
