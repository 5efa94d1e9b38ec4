#include "colossal/io/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>
#include <utility>

#include "colossal/base/error.h"
#include "colossal/io/json.h"
#include "colossal/io/safetensors_header.h"

namespace colossal::io {
namespace {

constexpr int64_t kLengthBytes = 8;
constexpr size_t kDataAlignment = 64;
static_assert(std::endian::native == std::endian::little);

// Returns a hint at what a file that is not safetensors probably is, by its first bytes.
std::string guess(std::string_view start) {
  const bool zip = start.starts_with("PK\3\4");
  const bool pickle = start.size() >= 2 && start[0] == '\x80' && start[1] >= 2 && start[1] <= 5;
  return zip || pickle
             ? " (it looks like a PyTorch pickle, which is never read: save the weights as "
               "safetensors)"
             : "";
}

}  // namespace

std::optional<int64_t> tensor_bytes(ScalarType type, std::span<const int64_t> shape) {
  int64_t bytes = scalar_type_bytes(type);
  for (const int64_t size : shape) {
    if (size < 0 || __builtin_mul_overflow(bytes, size, &bytes)) return std::nullopt;
  }
  return bytes;
}

SafetensorsReader::SafetensorsReader(const std::filesystem::path& path)
    : SafetensorsReader(File::open_for_reading(path)) {}

SafetensorsReader::SafetensorsReader(File file) : file_(std::move(file)) {
  read_header();
  index_names();
}

void SafetensorsReader::read_header() {
  const std::string source = path().string();
  const int64_t file_bytes = file_.size();
  if (file_bytes < kLengthBytes) {
    throw IoError(
        fmt::format("{}: is {} bytes long, too short for safetensors", source, file_bytes));
  }
  std::array<char, kLengthBytes> start;
  file_.read_at(std::as_writable_bytes(std::span(start)), 0);
  const auto header_bytes = std::bit_cast<uint64_t>(start);
  if (header_bytes > static_cast<uint64_t>(std::min(file_bytes - kLengthBytes, kMaxHeaderBytes))) {
    throw IoError(fmt::format(
        "{}: is not safetensors: states a header of {} bytes in a file of {} "
        "(at most {} are read){}",
        source, header_bytes, file_bytes, kMaxHeaderBytes, guess({start.data(), start.size()})));
  }
  std::string text(header_bytes, '\0');
  file_.read_at(std::as_writable_bytes(std::span(text)), kLengthBytes);
  SafetensorsHeader header = parse_safetensors_header(text, source);
  entries_ = std::move(header.entries);
  metadata_ = std::move(header.metadata);
  data_begin_ = kLengthBytes + static_cast<int64_t>(header_bytes);

  const int64_t stated = entries_.empty() ? 0 : entries_.back().end;
  if (stated != file_bytes - data_begin_) {
    throw IoError(
        fmt::format("{}: holds {} bytes of data where its header states {}: the file was "
                    "cut or is not what it says",
                    source, file_bytes - data_begin_, stated));
  }
}

void SafetensorsReader::index_names() {
  by_name_.resize(entries_.size());
  std::iota(by_name_.begin(), by_name_.end(), uint32_t{0});
  const auto name = [this](uint32_t index) -> const std::string& { return entries_[index].name; };
  std::sort(by_name_.begin(), by_name_.end(),
            [&](uint32_t a, uint32_t b) { return name(a) < name(b); });
  const auto twin = std::adjacent_find(by_name_.begin(), by_name_.end(),
                                       [&](uint32_t a, uint32_t b) { return name(a) == name(b); });
  if (twin != by_name_.end()) {
    throw IoError(
        fmt::format("{}: has the tensor {} twice", path().string(), quote_text(name(*twin))));
  }
}

const TensorEntry* SafetensorsReader::find(std::string_view name) const {
  const auto place = std::lower_bound(
      by_name_.begin(), by_name_.end(), name,
      [this](uint32_t index, std::string_view n) { return entries_[index].name < n; });
  if (place == by_name_.end() || entries_[*place].name != name) return nullptr;
  return &entries_[*place];
}

void SafetensorsReader::read(const TensorEntry& entry, int64_t offset,
                             std::span<std::byte> destination) const {
  COLOSSAL_CHECK(offset >= 0 && offset <= entry.bytes() &&
                     destination.size() <= static_cast<size_t>(entry.bytes() - offset),
                 "{}: {} bytes at offset {} of the {} bytes of {}", path().string(),
                 destination.size(), offset, entry.bytes(), entry.name);
  file_.read_at(destination, data_begin_ + entry.begin + offset);
}

SafetensorsPlan plan_safetensors(const std::vector<TensorSpec>& tensors,
                                 const SafetensorsMetadata& metadata) {
  SafetensorsPlan plan;
  for (const TensorSpec& tensor : tensors) {
    plan.entries.push_back({tensor.name, tensor.type, tensor.shape, 0, 0});
  }
  std::stable_sort(plan.entries.begin(), plan.entries.end(),
                   [](const TensorEntry& a, const TensorEntry& b) {
                     return scalar_type_bytes(a.type) > scalar_type_bytes(b.type);
                   });
  int64_t position = 0;
  for (TensorEntry& entry : plan.entries) {
    const auto bytes = tensor_bytes(entry.type, entry.shape);
    entry.begin = position;
    COLOSSAL_CHECK(bytes && !__builtin_add_overflow(position, *bytes, &position),
                   "tensor {} of shape [{}]", entry.name, fmt::join(entry.shape, ", "));
    entry.end = position;
  }
  plan.header = safetensors_header(plan.entries, metadata);
  plan.file_bytes = static_cast<int64_t>(plan.header.size()) + position;
  return plan;
}

std::string safetensors_header(std::span<const TensorEntry> entries,
                               const SafetensorsMetadata& metadata) {
  std::string text = "{";
  if (!metadata.empty())
    text += fmt::format("\"__metadata__\":{}", nlohmann::json(metadata).dump());
  std::set<std::string_view> names;
  for (const TensorEntry& entry : entries) {
    COLOSSAL_CHECK(names.insert(entry.name).second && entry.name != "__metadata__" &&
                       entry.name.size() <= static_cast<size_t>(kMaxNameBytes),
                   "tensor name {}", quote_text(entry.name));
    COLOSSAL_CHECK(entry.shape.size() <= static_cast<size_t>(kMaxRank), "tensor {} has {} dims",
                   entry.name, entry.shape.size());
    text += fmt::format(R"({}{}:{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})",
                        text.size() > 1 ? "," : "", nlohmann::json(entry.name).dump(),
                        scalar_type_name(entry.type), fmt::join(entry.shape, ","), entry.begin,
                        entry.end);
  }
  text += "}";
  const size_t unpadded = kLengthBytes + text.size();
  text.append((kDataAlignment - unpadded % kDataAlignment) % kDataAlignment, ' ');
  COLOSSAL_CHECK(text.size() <= static_cast<size_t>(kMaxHeaderBytes), "a header of {} bytes",
                 text.size());
  std::string header(kLengthBytes, '\0');
  const uint64_t length = text.size();
  std::memcpy(header.data(), &length, sizeof length);
  return header + text;
}

}  // namespace colossal::io
