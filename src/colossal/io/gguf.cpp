#include "colossal/io/gguf.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <numeric>
#include <set>

#include "colossal/base/error.h"
#include "colossal/io/json.h"
#include "colossal/io/safetensors.h"

namespace colossal::io {
namespace {

constexpr std::string_view kMagic = "GGUF";
constexpr uint32_t kVersion = 3;
constexpr int64_t kDefaultAlignment = 32;
constexpr const char* kAlignmentKey = "general.alignment";
constexpr uint64_t kMaxFields = 1 << 16;

// Returns the bytes of a number of this type; 0 for strings and arrays.
int64_t kind_bytes(GgufFieldType kind) {
  switch (kind) {
    case GgufFieldType::u8:
    case GgufFieldType::i8:
    case GgufFieldType::boolean:
      return 1;
    case GgufFieldType::u16:
    case GgufFieldType::i16:
      return 2;
    case GgufFieldType::u32:
    case GgufFieldType::i32:
    case GgufFieldType::f32:
      return 4;
    case GgufFieldType::u64:
    case GgufFieldType::i64:
    case GgufFieldType::f64:
      return 8;
    case GgufFieldType::string:
    case GgufFieldType::array:
      break;
  }
  return 0;
}

template <typename Number>
Number load(const char* from) {
  Number number;
  std::memcpy(&number, from, sizeof number);
  return number;
}

template <typename Number>
void append(std::string& to, Number number) {
  to.append(reinterpret_cast<const char*>(&number), sizeof number);
}

void append_text(std::string& to, std::string_view text) {
  append<uint64_t>(to, text.size());
  to.append(text);
}

int64_t padded(int64_t bytes, int64_t alignment) {
  return (bytes + alignment - 1) / alignment * alignment;
}

// Returns the number at `index` as a double, which is exact for integers up to 2^53.
double number_at(const GgufValue& value, uint64_t index) {
  const char* from = value.bytes.data() + index * static_cast<uint64_t>(kind_bytes(value.kind));
  switch (value.kind) {
    case GgufFieldType::u8:
    case GgufFieldType::boolean:
      return load<uint8_t>(from);
    case GgufFieldType::i8:
      return load<int8_t>(from);
    case GgufFieldType::u16:
      return load<uint16_t>(from);
    case GgufFieldType::i16:
      return load<int16_t>(from);
    case GgufFieldType::u32:
      return load<uint32_t>(from);
    case GgufFieldType::i32:
      return load<int32_t>(from);
    case GgufFieldType::f32:
      return load<float>(from);
    case GgufFieldType::u64:
      return static_cast<double>(load<uint64_t>(from));
    case GgufFieldType::i64:
      return static_cast<double>(load<int64_t>(from));
    case GgufFieldType::f64:
      return load<double>(from);
    case GgufFieldType::string:
    case GgufFieldType::array:
      break;
  }
  return 0;
}

bool is_float(GgufFieldType kind) {
  return kind == GgufFieldType::f32 || kind == GgufFieldType::f64;
}

template <typename Number>
GgufValue array_of(const std::vector<Number>& numbers, GgufFieldType kind) {
  GgufValue value{.kind = kind, .is_array = true, .count = numbers.size(), .bytes = {}};
  for (const Number number : numbers) append(value.bytes, number);
  return value;
}

template <typename Number>
GgufValue one(Number number, GgufFieldType kind) {
  GgufValue value{.kind = kind, .bytes = {}};
  append(value.bytes, number);
  return value;
}

}  // namespace

GgufValue GgufValue::of(uint32_t number) {
  return one(number, GgufFieldType::u32);
}

GgufValue GgufValue::of(float number) {
  return one(number, GgufFieldType::f32);
}

GgufValue GgufValue::of(bool flag) {
  return one<uint8_t>(flag ? 1 : 0, GgufFieldType::boolean);
}

GgufValue GgufValue::of(std::string_view text) {
  GgufValue value{.kind = GgufFieldType::string, .bytes = {}};
  append_text(value.bytes, text);
  return value;
}

GgufValue GgufValue::of(const std::vector<std::string>& texts) {
  GgufValue value{
      .kind = GgufFieldType::string, .is_array = true, .count = texts.size(), .bytes = {}};
  for (const std::string& text : texts) append_text(value.bytes, text);
  return value;
}

GgufValue GgufValue::of(const std::vector<float>& numbers) {
  return array_of(numbers, GgufFieldType::f32);
}

GgufValue GgufValue::of(const std::vector<int32_t>& numbers) {
  return array_of(numbers, GgufFieldType::i32);
}

int64_t GgufTensor::numel() const {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

// Parses the header from the file's beginning.
class GgufHeaderParser {
 public:
  explicit GgufHeaderParser(GgufReader& reader)
      : reader_(reader), size_(reader.file_.size()), limit_(std::min(size_, kMaxGgufHeaderBytes)) {}

  void parse() {
    check_beginning();
    const auto tensors = number<uint64_t>("the number of tensors");
    const auto fields = number<uint64_t>("the number of fields");
    if (tensors > static_cast<uint64_t>(kMaxTensors)) refuse("it lists {} tensors", tensors);
    if (fields > kMaxFields) refuse("it lists {} fields", fields);
    for (uint64_t i = 0; i < fields; ++i) parse_field();
    for (uint64_t i = 0; i < tensors; ++i) parse_tensor();
    place_tensors();
  }

 private:
  template <typename... Arguments>
  [[noreturn]] void refuse(fmt::format_string<Arguments...> text, Arguments&&... arguments) const {
    throw IoError(fmt::format("{}: not a valid GGUF file: {}", reader_.path().string(),
                              fmt::format(text, std::forward<Arguments>(arguments)...)));
  }

  // Returns the next `count` bytes. Refuses the file if it has fewer.
  std::string take(uint64_t count, const char* what) {
    if (count > static_cast<uint64_t>(limit_ - position_)) {
      refuse("{} ({} bytes at byte {}) goes beyond {}", what, count, position_,
             limit_ < size_ ? "the largest header that is read" : "the end of the file");
    }
    std::string bytes(count, '\0');
    reader_.file_.read_at(std::as_writable_bytes(std::span(bytes)), position_);
    position_ += static_cast<int64_t>(count);
    return bytes;
  }

  // Reads small pieces through a buffer, because a header may have millions of them.
  void take_into(char* to, int64_t count, const char* what) {
    if (count > limit_ - position_) take(static_cast<uint64_t>(count), what);  // throws
    if (position_ < buffer_begin_ ||
        position_ + count > buffer_begin_ + static_cast<int64_t>(buffer_.size())) {
      constexpr int64_t kBuffer = 1 << 16;
      buffer_.resize(static_cast<size_t>(std::min(kBuffer, limit_ - position_)));
      buffer_begin_ = position_;
      reader_.file_.read_at(std::as_writable_bytes(std::span(buffer_)), buffer_begin_);
    }
    std::memcpy(to, buffer_.data() + (position_ - buffer_begin_), static_cast<size_t>(count));
    position_ += count;
  }

  template <typename Number>
  Number number(const char* what) {
    Number number;
    take_into(reinterpret_cast<char*>(&number), sizeof number, what);
    return number;
  }

  std::string text(const char* what, uint64_t most) {
    const auto length = number<uint64_t>(what);
    if (length > most) refuse("{} of {} bytes; at most {} are read", what, length, most);
    std::string text(length, '\0');
    take_into(text.data(), static_cast<int64_t>(length), what);
    return text;
  }

  void check_beginning() {
    char magic[4];
    take_into(magic, sizeof magic, "the magic number");
    if (std::string_view(magic, sizeof magic) != kMagic) {
      refuse("it does not begin with \"GGUF\"");
    }
    const auto version = number<uint32_t>("the version");
    if (version != 2 && version != kVersion) {
      refuse("version {}; only 2 and 3 are supported{}", version,
             (version & 0xFFFF) == 0 && version != 0 ? " (its numbers are big-endian)" : "");
    }
  }

  GgufFieldType kind(const char* what) {
    const auto found = number<uint32_t>(what);
    if (found > static_cast<uint32_t>(GgufFieldType::f64)) refuse("{} is {}", what, found);
    return static_cast<GgufFieldType>(found);
  }

  void append_string(GgufValue& value) {
    const auto length = number<uint64_t>("the length of a text");
    append(value.bytes, length);
    value.bytes += take(length, "a text");
  }

  void parse_array(GgufValue& value, const std::string& key) {
    value.is_array = true;
    value.kind = kind("the kind of an array's elements");
    value.count = number<uint64_t>("the length of an array");
    if (value.kind == GgufFieldType::array) refuse("field {}: an array of arrays", quote_text(key));
    const auto left = static_cast<uint64_t>(limit_ - position_);
    const auto least = static_cast<uint64_t>(
        value.kind == GgufFieldType::string ? sizeof(uint64_t) : kind_bytes(value.kind));
    if (value.count > left / least) {
      refuse("field {}: {} elements go beyond the end of the header", quote_text(key), value.count);
    }
    if (value.kind == GgufFieldType::string) {
      for (uint64_t i = 0; i < value.count; ++i) append_string(value);
    } else {
      value.bytes = take(value.count * least, "an array");
    }
  }

  void parse_field() {
    const std::string key = text("a field's name", kMaxNameBytes);
    if (key.empty()) refuse("a field without a name");
    GgufValue value{.kind = kind("the kind of a field"), .bytes = {}};
    if (value.kind == GgufFieldType::array) {
      parse_array(value, key);
    } else if (value.kind == GgufFieldType::string) {
      append_string(value);
    } else {
      value.bytes = take(static_cast<uint64_t>(kind_bytes(value.kind)), "a field's value");
    }
    if (!reader_.fields_.emplace(key, std::move(value)).second) {
      refuse("field {} twice", quote_text(key));
    }
  }

  void parse_tensor() {
    GgufTensor tensor{.name = text("a tensor's name", kMaxNameBytes), .shape = {}};
    if (tensor.name.empty()) refuse("a tensor without a name");
    if (!names_.insert(tensor.name).second) refuse("tensor {} twice", quote_text(tensor.name));
    const auto rank = number<uint32_t>("the number of a tensor's dims");
    if (rank < 1 || rank > kMaxGgufRank) {
      refuse("tensor {} has {} dims", quote_text(tensor.name), rank);
    }
    for (uint32_t dim = 0; dim < rank; ++dim) {
      const auto size = number<uint64_t>("a tensor's size");
      if (size > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
        refuse("tensor {}: a dim of {}", quote_text(tensor.name), size);
      }
      tensor.shape.insert(tensor.shape.begin(), static_cast<int64_t>(size));
    }
    const auto type = number<uint32_t>("a tensor's type");
    const auto known = find_gguf_type(type);
    if (!known) {
      throw ConfigError(
          fmt::format("{}: tensor {} is of GGUF's type {}, which is not read; those "
                      "that are: {}",
                      reader_.path().string(), quote_text(tensor.name), type, gguf_type_names()));
    }
    tensor.type = *known;
    tensor.bytes = bytes_of(tensor);
    const auto begin = number<uint64_t>("a tensor's place");
    if (begin > static_cast<uint64_t>(size_)) {
      refuse("tensor {} begins at byte {} of the data", quote_text(tensor.name), begin);
    }
    tensor.begin = static_cast<int64_t>(begin);
    reader_.tensors_.push_back(std::move(tensor));
  }

  int64_t bytes_of(const GgufTensor& tensor) const {
    int64_t numel = 1, bytes = 0;
    for (const int64_t size : tensor.shape) {
      if (__builtin_mul_overflow(numel, size, &numel)) {
        refuse("tensor {} is larger than any memory", quote_text(tensor.name));
      }
    }
    const int64_t numbers = elements_per_block(tensor.type);
    if (tensor.shape.back() % numbers != 0) {
      refuse("tensor {}: rows of {} are no whole blocks of {} ({})", quote_text(tensor.name),
             tensor.shape.back(), numbers, gguf_type_name(tensor.type));
    }
    if (__builtin_mul_overflow(numel / numbers, bytes_per_block(tensor.type), &bytes)) {
      refuse("tensor {} is larger than any memory", quote_text(tensor.name));
    }
    return bytes;
  }

  int64_t alignment() const {
    const int64_t found = reader_.integer(kAlignmentKey).value_or(kDefaultAlignment);
    if (found < 1 || found > kMaxGgufAlignment || (found & (found - 1)) != 0) {
      refuse("{} = {}: must be a power of 2 up to {}", kAlignmentKey, found, kMaxGgufAlignment);
    }
    return found;
  }

  // Tensors must follow each other without holes, as ggml requires.
  void place_tensors() {
    const int64_t unit = alignment();
    reader_.data_begin_ = padded(position_, unit);
    int64_t expected = 0;
    for (const GgufTensor& tensor : reader_.tensors_) {
      if (tensor.begin != expected) {
        refuse("tensor {} begins at byte {} of the data, not at {}, where the one before it ends",
               quote_text(tensor.name), tensor.begin, expected);
      }
      if (tensor.bytes > size_ - reader_.data_begin_ - tensor.begin) {
        refuse("tensor {} goes beyond the end of the file", quote_text(tensor.name));
      }
      expected = padded(tensor.begin + tensor.bytes, unit);
    }
  }

  GgufReader& reader_;
  int64_t size_, limit_;
  int64_t position_ = 0;
  std::string buffer_;
  int64_t buffer_begin_ = 0;
  std::set<std::string> names_;
};

GgufReader::GgufReader(const std::filesystem::path& path) : file_(File::open_for_reading(path)) {
  GgufHeaderParser(*this).parse();
}

const GgufTensor* GgufReader::find(std::string_view name) const {
  const auto found = std::ranges::find(tensors_, name, &GgufTensor::name);
  return found == tensors_.end() ? nullptr : &*found;
}

namespace {

[[noreturn]] void refuse_kind(const std::filesystem::path& path, const std::string& key,
                              const char* needed) {
  throw IoError(fmt::format("{}: field {} must be {}", path.string(), quote_text(key), needed));
}

std::vector<std::string> texts_of(const GgufValue& value) {
  std::vector<std::string> texts;
  const char* from = value.bytes.data();
  for (uint64_t i = 0; i < value.count; ++i) {
    const auto length = load<uint64_t>(from);
    texts.emplace_back(from + sizeof length, length);
    from += sizeof length + length;
  }
  return texts;
}

}  // namespace

const GgufValue* GgufReader::value(const std::string& key, bool is_array) const {
  const auto found = fields_.find(key);
  if (found == fields_.end()) return nullptr;
  if (found->second.is_array != is_array) {
    refuse_kind(path(), key, is_array ? "an array" : "one value");
  }
  return &found->second;
}

std::optional<int64_t> GgufReader::integer(const std::string& key) const {
  const GgufValue* const found = value(key, false);
  if (!found) return std::nullopt;
  if (is_float(found->kind) || found->kind == GgufFieldType::string ||
      found->kind == GgufFieldType::boolean) {
    refuse_kind(path(), key, "an integer");
  }
  const double number = number_at(*found, 0);
  constexpr double kMost = int64_t{1} << 53;
  if (number > kMost || number < -kMost) refuse_kind(path(), key, "an integer below 2^53");
  return static_cast<int64_t>(number);
}

std::optional<double> GgufReader::number(const std::string& key) const {
  const GgufValue* const found = value(key, false);
  if (!found) return std::nullopt;
  if (found->kind == GgufFieldType::string || found->kind == GgufFieldType::boolean) {
    refuse_kind(path(), key, "a number");
  }
  return number_at(*found, 0);
}

std::optional<bool> GgufReader::flag(const std::string& key) const {
  const GgufValue* const found = value(key, false);
  if (!found) return std::nullopt;
  if (found->kind != GgufFieldType::boolean) refuse_kind(path(), key, "true or false");
  return number_at(*found, 0) != 0;
}

std::optional<std::string> GgufReader::text(const std::string& key) const {
  const GgufValue* const found = value(key, false);
  if (!found) return std::nullopt;
  if (found->kind != GgufFieldType::string) refuse_kind(path(), key, "a text");
  return texts_of(*found).front();
}

std::optional<std::vector<std::string>> GgufReader::texts(const std::string& key) const {
  const GgufValue* const found = value(key, true);
  if (!found) return std::nullopt;
  if (found->kind != GgufFieldType::string) refuse_kind(path(), key, "an array of texts");
  return texts_of(*found);
}

std::optional<std::vector<double>> GgufReader::numbers(const std::string& key) const {
  const GgufValue* const found = value(key, true);
  if (!found) return std::nullopt;
  if (found->kind == GgufFieldType::string) refuse_kind(path(), key, "an array of numbers");
  std::vector<double> numbers;
  for (uint64_t i = 0; i < found->count; ++i) numbers.push_back(number_at(*found, i));
  return numbers;
}

void GgufReader::read(const GgufTensor& tensor, int64_t begin, std::span<float> numbers) const {
  const int64_t of_block = elements_per_block(tensor.type), bytes = bytes_per_block(tensor.type);
  const auto count = static_cast<int64_t>(numbers.size());
  COLOSSAL_CHECK(begin % of_block == 0 && count % of_block == 0 && begin >= 0 &&
                     begin + count <= tensor.numel(),
                 "numbers {} + {} of {}", begin, count, tensor.numel());
  std::vector<std::byte> blocks(static_cast<size_t>(count / of_block * bytes));
  file_.read_at(blocks, data_begin_ + tensor.begin + begin / of_block * bytes);
  read_blocks(tensor.type, blocks, numbers);
}

GgufPlan plan_gguf(const std::vector<std::pair<std::string, GgufValue>>& fields,
                   std::vector<GgufTensor> tensors) {
  GgufPlan plan{.header = std::string(kMagic), .tensors = std::move(tensors)};
  append(plan.header, kVersion);
  append<uint64_t>(plan.header, plan.tensors.size());
  append<uint64_t>(plan.header, fields.size());
  for (const auto& [key, value] : fields) {
    append_text(plan.header, key);
    if (value.is_array) append(plan.header, GgufFieldType::array);
    append(plan.header, value.kind);
    if (value.is_array) append(plan.header, value.count);
    plan.header += value.bytes;
  }
  int64_t begin = 0;
  for (GgufTensor& tensor : plan.tensors) {
    const int64_t numbers = elements_per_block(tensor.type);
    const auto rank = static_cast<int64_t>(tensor.shape.size());
    COLOSSAL_CHECK(rank >= 1 && rank <= kMaxGgufRank && tensor.shape.back() % numbers == 0,
                   "{}: {} dims, rows of {} in blocks of {}", tensor.name, rank,
                   tensor.shape.empty() ? 0 : tensor.shape.back(), numbers);
    tensor.begin = begin;
    tensor.bytes = tensor.numel() / numbers * bytes_per_block(tensor.type);
    begin = padded(begin + tensor.bytes, kDefaultAlignment);
    append_text(plan.header, tensor.name);
    append(plan.header, static_cast<uint32_t>(rank));
    for (int64_t dim = rank - 1; dim >= 0; --dim) {
      append(plan.header, static_cast<uint64_t>(tensor.shape[static_cast<size_t>(dim)]));
    }
    append(plan.header, tensor.type);
    append(plan.header, static_cast<uint64_t>(tensor.begin));
  }
  plan.header.resize(
      static_cast<size_t>(padded(static_cast<int64_t>(plan.header.size()), kDefaultAlignment)));
  plan.file_bytes = static_cast<int64_t>(plan.header.size()) + begin;
  return plan;
}

}  // namespace colossal::io
