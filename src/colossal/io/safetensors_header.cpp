#include "colossal/io/safetensors_header.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <tuple>
#include <utility>

#include "colossal/base/error.h"
#include "colossal/io/json.h"

namespace colossal::io {
namespace {

using Json = nlohmann::json;

// Handles the events of the header's JSON. `place_` is the innermost element that is open.
class HeaderHandler final : public Json::json_sax_t {
 public:
  explicit HeaderHandler(const std::string& source) : source_(source) {}

  SafetensorsHeader take() { return std::move(header_); }

  bool start_object(size_t) override {
    if (place_ == Place::outside) {
      place_ = Place::header;
    } else if (place_ == Place::header && key_ == kMetadataKey) {
      place_ = Place::metadata;
    } else if (place_ == Place::header) {
      begin_tensor();
    } else {
      refuse_value("an object");
    }
    return true;
  }

  bool end_object() override {
    if (place_ == Place::tensor) end_tensor();
    place_ = place_ == Place::header ? Place::outside : Place::header;
    return true;
  }

  bool key(std::string& name) override {
    if (place_ == Place::tensor) {
      begin_field(name);
    } else {
      key_ = name;
    }
    if (place_ == Place::header && name == kMetadataKey) {
      if (metadata_seen_) refuse("the key \"__metadata__\" stands twice");
      metadata_seen_ = true;
    }
    return true;
  }

  bool string(std::string& value) override {
    if (place_ == Place::metadata) {
      if (!header_.metadata.emplace(key_, value).second) {
        refuse(fmt::format("the metadata key {} stands twice", quote_text(key_)));
      }
    } else if (place_ == Place::tensor && field_ == kType) {
      const auto type = find_scalar_type(value);
      if (!type) {
        refuse_tensor(
            fmt::format("has the type {}; known are {}", quote_text(value), scalar_type_names()));
      }
      entry_.type = *type;
    } else {
      refuse_value("a string");
    }
    return true;
  }

  bool start_array(size_t) override {
    if (place_ != Place::tensor || field_ == kType) refuse_value("a list");
    place_ = field_ == kShape ? Place::shape : Place::offsets;
    return true;
  }

  bool end_array() override {
    if (place_ == Place::offsets && offsets_.size() != 2) {
      refuse_tensor(fmt::format("has {} data_offsets instead of 2", offsets_.size()));
    }
    place_ = Place::tensor;
    return true;
  }

  bool number_unsigned(uint64_t value) override {
    if (place_ != Place::shape && place_ != Place::offsets) refuse_value("a number");
    if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      refuse_tensor(fmt::format("has the number {}, more than 63 bits hold", value));
    }
    auto& numbers = place_ == Place::shape ? entry_.shape : offsets_;
    const size_t limit = place_ == Place::shape ? static_cast<size_t>(kMaxRank) : 2;
    if (numbers.size() == limit) {
      refuse_tensor(fmt::format("has more than {} numbers in its {}", limit,
                                place_ == Place::shape ? "shape" : "data_offsets"));
    }
    numbers.push_back(static_cast<int64_t>(value));
    return true;
  }

  bool number_integer(int64_t) override { refuse_value("a negative number"); }
  bool number_float(double, const std::string&) override { refuse_value("a fraction"); }
  bool null() override { refuse_value("null"); }
  bool boolean(bool) override { refuse_value("true or false"); }
  bool binary(Json::binary_t&) override { refuse_value("binary data"); }

  bool parse_error(size_t, const std::string&, const nlohmann::detail::exception& error) override {
    refuse(fmt::format("the header is not JSON: {:.200}", error.what()));
  }

 private:
  enum class Place { outside, header, metadata, tensor, shape, offsets };
  enum Field : unsigned { kNone = 0, kType = 1, kShape = 2, kOffsets = 4, kAll = 7 };
  static constexpr std::string_view kMetadataKey = "__metadata__";

  void begin_tensor() {
    if (key_.size() > static_cast<size_t>(kMaxNameBytes)) {
      refuse(fmt::format("the tensor name {} is {} bytes long; {} are allowed", quote_text(key_),
                         key_.size(), kMaxNameBytes));
    }
    if (header_.entries.size() == static_cast<size_t>(kMaxTensors)) {
      refuse(fmt::format("there are more than {} tensors", kMaxTensors));
    }
    place_ = Place::tensor;
    entry_ = TensorEntry{};
    entry_.name = key_;
    offsets_.clear();
    field_ = kNone;
    fields_seen_ = kNone;
  }

  void begin_field(const std::string& name) {
    field_ = name == "dtype"          ? kType
             : name == "shape"        ? kShape
             : name == "data_offsets" ? kOffsets
                                      : kNone;
    if (field_ == kNone) refuse_tensor(fmt::format("has an unknown key {}", quote_text(name)));
    if (fields_seen_ & field_) refuse_tensor(fmt::format("has the key \"{}\" twice", name));
    fields_seen_ |= field_;
  }

  void end_tensor() {
    if (fields_seen_ != kAll) refuse_tensor("lacks one of dtype, shape and data_offsets");
    const auto bytes = tensor_bytes(entry_.type, entry_.shape);
    if (!bytes) {
      refuse_tensor(fmt::format("has a shape [{}] of more bytes than 63 bits count",
                                fmt::join(entry_.shape, ", ")));
    }
    entry_.begin = offsets_[0];
    entry_.end = offsets_[1];
    if (entry_.begin > entry_.end || entry_.bytes() != *bytes) {
      refuse_tensor(
          fmt::format("is {} bytes by its shape [{}] and type {}, but its data_offsets "
                      "are [{}, {}]",
                      *bytes, fmt::join(entry_.shape, ", "), scalar_type_name(entry_.type),
                      entry_.begin, entry_.end));
    }
    header_.entries.push_back(std::move(entry_));
  }

  [[noreturn]] void refuse(const std::string& reason) const {
    throw IoError(fmt::format("{}: {}", source_, reason));
  }
  [[noreturn]] void refuse_tensor(const std::string& reason) const {
    refuse(fmt::format("tensor {} {}", quote_text(entry_.name), reason));
  }
  [[noreturn]] void refuse_value(const char* kind) const {
    if (place_ == Place::outside) refuse(fmt::format("the header is {}, not an object", kind));
    if (place_ == Place::header || place_ == Place::metadata) {
      refuse(fmt::format("the value of {} in the header is {}", quote_text(key_), kind));
    }
    refuse_tensor(fmt::format("has {} where its {} should be", kind,
                              field_ == kType    ? "dtype"
                              : field_ == kShape ? "shape"
                                                 : "data_offsets"));
  }

  const std::string& source_;
  SafetensorsHeader header_;
  Place place_ = Place::outside;
  std::string key_;  // the last key in the header or in the metadata
  bool metadata_seen_ = false;
  TensorEntry entry_;  // the tensor whose object is open
  std::vector<int64_t> offsets_;
  Field field_ = kNone;
  unsigned fields_seen_ = kNone;
};

void check_contiguous(std::vector<TensorEntry>& entries, const std::string& source) {
  std::sort(entries.begin(), entries.end(), [](const TensorEntry& a, const TensorEntry& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  int64_t position = 0;
  for (const TensorEntry& entry : entries) {
    if (entry.begin != position) {
      throw IoError(fmt::format(
          "{}: tensor {} begins at {}, {} {}: tensors must follow each other "
          "without {}",
          source, quote_text(entry.name), entry.begin,
          entry.begin < position ? "within another that ends at" : "but the one before it ends at",
          position, entry.begin < position ? "overlaps" : "holes"));
    }
    position = entry.end;
  }
}

}  // namespace

SafetensorsHeader parse_safetensors_header(std::string_view text, const std::string& source) {
  if (!text.starts_with('{')) {
    throw IoError(fmt::format("{}: the header does not begin with '{{'", source));
  }
  // The parser takes a NUL byte as the end of the text and would ignore what follows.
  if (text.find('\0') != std::string_view::npos) {
    throw IoError(fmt::format("{}: the header holds a NUL byte", source));
  }
  HeaderHandler handler(source);
  Json::sax_parse(text, &handler);
  SafetensorsHeader header = handler.take();
  check_contiguous(header.entries, source);
  return header;
}

}  // namespace colossal::io
