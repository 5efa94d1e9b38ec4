// The GGUF format: a header of typed fields and the list of tensors, then their data in blocks.
// Files may come from anywhere, so a reader believes nothing that it has not checked, and memory is
// never reserved by a number that a file states.
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

// The enumerators have the numbers that files use.
enum class GgufKind : uint32_t {
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

// The value of a field: its bytes as a file has them, decoded when they are asked for.
struct GgufValue {
  GgufKind kind = GgufKind::u8;  // of the value, or of an array's elements
  bool is_array = false;
  uint64_t count = 1;  // of an array's elements
  std::string bytes;

  static GgufValue of(uint32_t number);
  static GgufValue of(float number);
  static GgufValue of(bool flag);
  static GgufValue of(std::string_view text);
  static GgufValue of(const std::vector<std::string>& texts);
  static GgufValue of(const std::vector<float>& numbers);
  static GgufValue of(const std::vector<int32_t>& numbers);
  // A string's literal is text, not a flag.
  static GgufValue of(const char* text) { return of(std::string_view(text)); }
};

struct GgufTensor {
  std::string name;
  GgufType type = GgufType::f32;
  std::vector<int64_t> shape;  // outermost dim first, as everywhere here; files have it reversed
  int64_t begin = 0;           // bytes within the data
  int64_t bytes = 0;

  int64_t numel() const;
};

inline constexpr int64_t kMaxGgufHeaderBytes = int64_t{256} << 20;
inline constexpr int64_t kMaxGgufRank = 4;
inline constexpr int64_t kMaxGgufAlignment = 1 << 16;

// One file, open for reading.
class GgufReader {
 public:
  // Reads and checks the header. Throws IoError naming the file and the first thing wrong with it;
  // ConfigError for a type of tensors that is not read, naming those that are.
  explicit GgufReader(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return file_.path(); }
  const std::vector<GgufTensor>& tensors() const { return tensors_; }  // in order of their data
  const GgufTensor* find(std::string_view name) const;                 // null when there is none
  const std::map<std::string, GgufValue>& fields() const { return fields_; }

  // A field as what is asked for; nothing where there is none. Throws IoError naming the field
  // where it is of another kind, or a number does not fit.
  std::optional<int64_t> integer(const std::string& key) const;
  std::optional<double> number(const std::string& key) const;  // integers too
  std::optional<bool> flag(const std::string& key) const;
  std::optional<std::string> text(const std::string& key) const;
  std::optional<std::vector<std::string>> texts(const std::string& key) const;
  std::optional<std::vector<double>> numbers(const std::string& key) const;

  // Numbers [begin, begin + numbers.size()) of a tensor, both whole blocks. Throws IoError when the
  // file has become shorter.
  void read(const GgufTensor& tensor, int64_t begin, std::span<float> numbers) const;

 private:
  friend class GgufHeaderParser;
  const GgufValue* value(const std::string& key, bool is_array) const;

  File file_;
  int64_t data_begin_ = 0;
  std::map<std::string, GgufValue> fields_;
  std::vector<GgufTensor> tensors_;
};

// A file before it is written: `header` at 0, each tensor's blocks at data_begin + its begin.
struct GgufPlan {
  std::string header;  // padding included: the data begins at its end
  std::vector<GgufTensor> tensors;
  int64_t file_bytes = 0;

  int64_t position(const GgufTensor& tensor) const {
    return static_cast<int64_t>(header.size()) + tensor.begin;
  }
};

// Tensors in the order given, with names, types and shapes; their places are filled in.
// InternalError: rows that are no whole blocks, or what a reader would refuse.
GgufPlan plan_gguf(const std::vector<std::pair<std::string, GgufValue>>& fields,
                   std::vector<GgufTensor> tensors);

}  // namespace colossal::io
