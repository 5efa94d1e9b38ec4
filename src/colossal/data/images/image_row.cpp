#include "colossal/data/images/image_row.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "colossal/base/base64.h"
#include "colossal/data/json_line.h"
#include "colossal/io/json.h"

namespace colossal::data {
namespace {

using nlohmann::json;

// Returns the one of two fields that an object has, with its name; null if it has neither.
std::pair<const char*, const json*> one_of(const json& fields, const char* first,
                                           const char* second) {
  static const json null;
  const auto has = [&](const char* name) {
    return fields.contains(name) && !fields[name].is_null();
  };
  if (has(first) && has(second)) {
    throw InvalidLine(fmt::format("has both \"{}\" and \"{}\": remove one of them", first, second));
  }
  if (has(first)) return {first, &fields[first]};
  if (has(second)) return {second, &fields[second]};
  return {first, &null};
}

[[noreturn]] void refuse(const char* field, const json& value, const char* wanted) {
  throw InvalidLine(
      fmt::format("has \"{}\": {}, and {} is needed", field, io::show_value(value), wanted));
}

std::optional<Label> read_label(const json& fields) {
  const auto [name, value] = one_of(fields, "label", "labels");
  if (value->is_null()) return std::nullopt;
  if (value->is_string()) return Label(value->get<std::string>());
  if (value->is_number_integer()) return Label(value->get<int64_t>());
  refuse(name, *value, "a class's name or number");
}

std::string read_text(const json& fields) {
  const auto [name, value] = one_of(fields, "text", "caption");
  if (value->is_null()) return "";
  if (!value->is_string()) refuse(name, *value, "a text");
  return value->get<std::string>();
}

// image: {"path": ...}, {"bytes": ...}, or both, as data sets of the Hugging Face Hub have them;
// then the bytes count.
void read_image_object(const char* name, const json& image, ImageRow& row) {
  const auto bytes = image.find("bytes"), path = image.find("path");
  row.has_null_bytes = bytes != image.end() && bytes->is_null();
  if (bytes != image.end() && bytes->is_string()) {
    auto content = decode_base64(bytes->get_ref<const std::string&>());
    if (!content || content->empty()) {
      throw InvalidLine(fmt::format("has bytes in \"{}\" that are not base64", name));
    }
    row.content = std::move(*content);
  } else if (path != image.end() && path->is_string()) {
    row.path = path->get<std::string>();
  } else {
    refuse(name, image, "an object with \"path\" or with \"bytes\" in base64");
  }
}

void read_image(const json& fields, ImageRow& row) {
  const auto [name, value] = one_of(fields, "image", "file_name");
  if (value->is_null()) {
    throw InvalidLine("has no field \"image\" or \"file_name\" with the path of an image");
  }
  if (value->is_object()) return read_image_object(name, *value, row);
  if (!value->is_string()) refuse(name, *value, "the path of an image");
  row.path = value->get<std::string>();
  if (row.path.empty()) refuse(name, *value, "the path of an image");
}

}  // namespace

ImageRow read_label_and_text(const json& fields) {
  if (!fields.is_object()) {
    throw InvalidLine(fmt::format("is {}, and an object is needed", io::show_value(fields)));
  }
  return {.path = "", .content = "", .label = read_label(fields), .text = read_text(fields)};
}

ImageRow read_image_row(std::string_view line) {
  json fields;
  try {
    fields = json::parse(line);
  } catch (const json::exception& error) {
    throw InvalidLine(fmt::format("is no JSON ({}): correct it", error.what()));
  }
  ImageRow row = read_label_and_text(fields);
  read_image(fields, row);
  return row;
}

}  // namespace colossal::data
