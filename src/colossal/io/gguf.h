// The GGUF format: a header with typed fields and a list of tensors, followed by the tensors' data
// in blocks. Files are untrusted: the reader validates everything, and never allocates memory only
// because the file states a size.
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

// The values are those of the file format.
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

// The value of a field: its bytes as in the file, decoded on access.
struct GgufValue {
  GgufFieldType kind = GgufFieldType::u8;  // type of the value, or of the elements if is_array
  bool is_array = false;
  uint64_t count = 1;  // number of elements if is_array
  std::string bytes;   // without the type and count that precede them in the file

  // Return values for writing.
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

struct GgufTensor {
  std::string name;
  GgufType type = GgufType::f32;
  std::vector<int64_t> shape;  // outermost dimension first; the file has the reverse order
  int64_t begin = 0;           // byte offset within the data section
  int64_t bytes = 0;           // size of its blocks

  int64_t numel() const;
};

// A file beyond these limits is rejected.
inline constexpr int64_t kMaxGgufHeaderBytes = int64_t{256} << 20;
inline constexpr int64_t kMaxGgufRank = 4;
inline constexpr int64_t kMaxGgufAlignment = 1 << 16;

// A file open for reading. Thread-safe.
class GgufReader {
 public:
  // Reads and validates the header. Throws IoError naming the file and the first error in it;
  // ConfigError for an unsupported tensor type, listing the supported ones.
  explicit GgufReader(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return file_.path(); }
  const std::vector<GgufTensor>& tensors() const { return tensors_; }  // in order of their data
  const GgufTensor* find(std::string_view name) const;                 // null if there is none
  const std::map<std::string, GgufValue>& fields() const { return fields_; }

  // Return the value or array of the field `key`; nullopt if there is no such field. Throw IoError
  // naming the field if its type does not match or a number is out of range.
  std::optional<int64_t> integer(const std::string& key) const;
  std::optional<double> number(const std::string& key) const;  // accepts integers, too
  std::optional<bool> flag(const std::string& key) const;
  std::optional<std::string> text(const std::string& key) const;
  std::optional<std::vector<std::string>> texts(const std::string& key) const;
  std::optional<std::vector<double>> numbers(const std::string& key) const;

  // Reads and dequantizes the elements [begin, begin + numbers.size()) of a tensor, in row-major
  // order; both bounds must be multiples of elements_per_block(). Throws IoError if the file has
  // been truncated.
  void read(const GgufTensor& tensor, int64_t begin, std::span<float> numbers) const;

 private:
  friend class GgufHeaderParser;
  const GgufValue* value(const std::string& key, bool is_array) const;

  File file_;
  int64_t data_begin_ = 0;
  std::map<std::string, GgufValue> fields_;
  std::vector<GgufTensor> tensors_;
};

// The layout of a file to be written: `header` at offset 0, the blocks of each tensor at
// position().
struct GgufPlan {
  std::string header;  // with the padding before the data
  std::vector<GgufTensor> tensors;
  int64_t file_bytes = 0;

  int64_t position(const GgufTensor& tensor) const {
    return static_cast<int64_t>(header.size()) + tensor.begin;
  }
};

// Plans a file with these fields and tensors, both in the given order. tensors: with name, type and
// shape; the plan's copies also have `begin` and `bytes`. Throws InternalError if a tensor has no
// dimensions or more than kMaxGgufRank, or if a row is not a whole number of blocks.
GgufPlan plan_gguf(const std::vector<std::pair<std::string, GgufValue>>& fields,
                   std::vector<GgufTensor> tensors);

}  // namespace colossal::io
