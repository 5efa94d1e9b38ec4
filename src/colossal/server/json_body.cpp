#include "colossal/server/json_body.h"

#include <cmath>

namespace colossal::server {
namespace {

constexpr int kMaxDepth = 64;
// Most keys of an object: the parser compares each key with all keys before it.
constexpr size_t kMaxKeysOfObject = 1100;
constexpr size_t kMaxKeys = 50'000;
constexpr size_t kMaxListed = 100'000;  // most strings or tokens in a field

// Refuses, during parsing, a body whose parsing would take long or much memory.
class BodyGuard {
 public:
  bool operator()(int depth, Json::parse_event_t event, Json& value) {
    using Event = Json::parse_event_t;
    if (depth >= kMaxDepth && (event == Event::object_start || event == Event::array_start)) {
      throw ApiError(400, fmt::format("the body is nested deeper than {} levels", kMaxDepth));
    }
    if (event == Event::object_start) keys_.emplace_back();
    if (event == Event::object_end) keys_.pop_back();
    if (event == Event::key) take_key(value.get<std::string>());
    return true;
  }

 private:
  void take_key(std::string key) {
    if (keys_.back().size() >= kMaxKeysOfObject || ++num_keys_ > kMaxKeys) {
      throw ApiError(400, "the body has more keys than a request may have");
    }
    if (!keys_.back().insert(key).second) {
      throw ApiError(400, "the body has the same key twice in one object", key.substr(0, 80));
    }
  }

  std::vector<std::set<std::string>> keys_;  // the keys of each open object, outermost first
  size_t num_keys_ = 0;
};

std::string shown(const Json& value) {
  const std::string text = to_text(value);
  return text.size() > 60 ? text.substr(0, 60) + "..." : text;
}

template <class T>
T check_range(const char* name, T value, T minimum, T maximum) {
  if (value >= minimum && value <= maximum) return value;
  throw ApiError(400, fmt::format("{} = {}: must be from {} to {}", name, value, minimum, maximum),
                 name);
}

}  // namespace

std::optional<Json> parse_text(const std::string& text) {
  BodyGuard guard;
  Json json = Json::parse(text, std::ref(guard), /*allow_exceptions=*/false);
  if (json.is_discarded()) return std::nullopt;
  return json;
}

Json parse_body(std::string_view body) {
  // The parser would take a NUL byte for the end of the body.
  if (body.find('\0') != std::string_view::npos) {
    throw ApiError(400, "the body is not JSON: it contains a NUL byte");
  }
  try {
    BodyGuard guard;
    Json json = Json::parse(body, std::ref(guard));
    if (!json.is_object()) throw ApiError(400, "the body must be a JSON object");
    return json;
  } catch (const Json::exception& error) {
    throw ApiError(400, fmt::format("the body is not JSON: {:.200}", error.what()));
  }
}

std::string to_text(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

void refuse_type(const std::string& field, std::string_view wanted, const Json& found) {
  throw ApiError(400, fmt::format("{} = {}: must be {}", field, shown(found), wanted), field);
}

int32_t read_token(const Json& value, const std::string& field) {
  if (!value.is_number_integer() || value < 0 || value > INT32_MAX) {
    refuse_type(field, "the number of a token", value);
  }
  return value.get<int32_t>();
}

const Json* Fields::find(const char* name) {
  known_.insert(name);
  const auto found = object_.find(name);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

bool Fields::boolean(const char* name, bool otherwise) {
  const Json* value = find(name);
  if (value && !value->is_boolean()) refuse_type(name, "true or false", *value);
  return value ? value->get<bool>() : otherwise;
}

std::optional<std::string> Fields::string(const char* name) {
  const Json* value = find(name);
  if (!value) return {};
  if (!value->is_string()) refuse_type(name, "a string", *value);
  return value->get<std::string>();
}

std::optional<double> Fields::number(const char* name, double minimum, double maximum) {
  const Json* value = find(name);
  if (!value) return {};
  if (!value->is_number()) refuse_type(name, "a number", *value);
  return check_range(name, value->get<double>(), minimum, maximum);
}

std::optional<int64_t> Fields::integer(const char* name, int64_t minimum, int64_t maximum) {
  const Json* value = find(name);
  if (!value) return {};
  const bool fits = value->is_number_integer() &&
                    (!value->is_number_unsigned() || value->get<uint64_t>() <= INT64_MAX);
  if (!fits) refuse_type(name, "an integer", *value);
  return check_range(name, value->get<int64_t>(), minimum, maximum);
}

std::vector<std::string> Fields::strings(const char* name) {
  const Json* value = find(name);
  if (!value) return {};
  if (value->is_string()) return {value->get<std::string>()};
  if (!value->is_array()) refuse_type(name, "a string or a list of strings", *value);
  check_range<size_t>(name, value->size(), 0, kMaxListed);
  std::vector<std::string> strings;
  for (const Json& item : *value) {
    if (!item.is_string()) refuse_type(name, "a string or a list of strings", *value);
    strings.push_back(item.get<std::string>());
  }
  return strings;
}

std::vector<int32_t> Fields::tokens(const char* name) {
  const Json* value = find(name);
  if (!value) return {};
  if (!value->is_array()) refuse_type(name, "a list of token numbers", *value);
  check_range<size_t>(name, value->size(), 0, kMaxListed);
  std::vector<int32_t> tokens;
  for (const Json& item : *value) tokens.push_back(read_token(item, name));
  return tokens;
}

void Fields::refuse_unless(const char* name, const Json& accepted, std::string_view instead) {
  const Json* value = find(name);
  if (!value || *value == accepted) return;
  throw ApiError(400, fmt::format("{} = {}: {}", name, shown(*value), instead), name);
}

std::vector<std::string> Fields::unknown() const {
  std::vector<std::string> names;
  for (const auto& [name, value] : object_.items()) {
    if (!known_.contains(name)) names.push_back(name);
  }
  return names;
}

}  // namespace colossal::server
