#include "colossal/text/tokenizer/json_node.h"

#include "colossal/base/error.h"
#include "colossal/io/json.h"

namespace colossal::text {

nlohmann::json parse_json(std::string_view text, const std::string& file) {
  try {
    return io::parse_json(text, file);
  } catch (const IoError& error) {  // invalid content counts as a wrong setting
    throw ConfigError(error.what());
  }
}

void JsonNode::refuse(std::string_view what) const {
  throw ConfigError(fmt::format("{}: {} {}", file_, path_.empty() ? "the file" : path_, what));
}

void JsonNode::refuse_type(std::string_view wanted) const {
  refuse(is_null() ? fmt::format("is missing; {} is needed", wanted)
                   : fmt::format("is of type {}; {} is needed", value_.type_name(), wanted));
}

JsonNode JsonNode::operator[](const char* key) const {
  static const nlohmann::json missing;
  if (!value_.is_object()) refuse_type("an object");
  const auto found = value_.find(key);
  return {found == value_.end() ? missing : *found, file_, path_.empty() ? key : path_ + "." + key};
}

JsonNode JsonNode::element(size_t index) const {
  return {value_[index], file_, path_ + "[" + std::to_string(index) + "]"};
}

std::string JsonNode::string() const {
  if (!is_string()) refuse_type("a string");
  return value_.get<std::string>();
}

std::optional<std::string> JsonNode::optional_string() const {
  return is_null() ? std::nullopt : std::optional(string());
}

bool JsonNode::boolean(bool otherwise) const {
  if (is_null()) return otherwise;
  if (!value_.is_boolean()) refuse_type("true or false");
  return value_.get<bool>();
}

double JsonNode::number(std::optional<double> otherwise) const {
  if (is_null() && otherwise) return *otherwise;
  if (!value_.is_number()) refuse_type("a number");
  return value_.get<double>();
}

int32_t JsonNode::token() const {
  if (!value_.is_number_integer()) refuse_type("a whole number");
  const bool too_large = value_.is_number_unsigned() && value_.get<uint64_t>() > kMaxToken;
  if (too_large || value_.get<int64_t>() < 0) {
    refuse(fmt::format("is {}, outside 0 to {}", value_.dump(), kMaxToken));
  }
  return value_.get<int32_t>();
}

}  // namespace colossal::text
