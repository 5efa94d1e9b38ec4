#include "colossal/base/config_value.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <utility>

#include "colossal/base/nearest.h"
#include "colossal/base/toml.h"

namespace colossal {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;

// Returns a text such as "at least 1"; "" without limits.
template <class Show>
std::string limits(const KeyOptions& options, Show show) {
  if (options.minimum && options.maximum) {
    return fmt::format("between {} and {}", show(*options.minimum), show(*options.maximum));
  }
  if (options.minimum) return fmt::format("at least {}", show(*options.minimum));
  if (options.maximum) return fmt::format("at most {}", show(*options.maximum));
  return {};
}

// Returns a text such as "from 1 to 1024"; "" without limits.
template <class Show>
std::string range(const KeyOptions& options, Show show) {
  constexpr double kSlip = 1 << 20;  // help does not mention a maximum from here on
  const bool has_maximum = options.maximum.value_or(kSlip) < kSlip;
  if (options.minimum && has_maximum) {
    return fmt::format("from {} to {}", show(*options.minimum), show(*options.maximum));
  }
  if (options.minimum) return fmt::format("from {}", show(*options.minimum));
  if (has_maximum) return fmt::format("up to {}", show(*options.maximum));
  return {};
}

std::string show_number(double limit) {
  return fmt::format("{}", limit);
}

std::string show_seconds(double limit) {
  return exact_duration(milliseconds(std::llround(limit * 1000)));
}

std::string show_bytes(double limit) {
  return exact_bytes({std::llround(limit)});
}

template <class Show>
void check_limits(double value, const KeyOptions& options, Show show) {
  if (value < options.minimum.value_or(value) || value > options.maximum.value_or(value)) {
    throw BadValue("must be " + limits(options, show));
  }
}

std::string trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return std::string(text.substr(first, text.find_last_not_of(" \t") - first + 1));
}

// Whether the text is an integer that does not fit 64 bits. A flag's integer of that size stays
// text.
bool is_beyond_64_bits(std::string text) {
  std::erase(text, '_');
  if (text.starts_with('+')) text.erase(0, 1);
  int64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [parsed, error] = std::from_chars(text.data(), end, value);
  return error == std::errc::result_out_of_range && parsed == end;
}

[[noreturn]] void refuse_beyond_64_bits(const KeyOptions& options) {
  using Limits = std::numeric_limits<int64_t>;
  throw BadValue(
      fmt::format("must be between {} and {}",
                  options.minimum ? show_number(*options.minimum) : std::to_string(Limits::min()),
                  options.maximum ? show_number(*options.maximum) : std::to_string(Limits::max())));
}

// Returns the text of a flag that may be quoted as in a file: 8s or "8s".
json unquoted(std::string_view flag) {
  const bool quoted = flag.starts_with('"') || flag.starts_with('\'');
  return quoted ? toml_or_text(flag) : json(std::string(flag));
}

}  // namespace

json toml_or_text(std::string_view text) {
  return parse_toml_value(text).value_or(json(std::string(text)));
}

std::vector<std::string> split_list(std::string_view text) {
  std::vector<std::string> items;
  if (trimmed(text).empty()) return items;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    items.push_back(trimmed(text.substr(begin, end - begin)));
    begin = end + 1;
  }
  return items;
}

void refuse_word(const std::string& word, const std::vector<std::string>& choices) {
  throw BadValue(fmt::format("must be one of \"{}\"; nearest: \"{}\"", fmt::join(choices, "\", \""),
                             nearest(word, choices)));
}

std::string TypeDescription::values(const std::string& unit) const {
  std::string text;
  if (!name.empty()) {
    text = fmt::format("{}{}{}{}", name == "true or false" ? "" : "a ", name,
                       unit.empty() ? "" : " of " + unit, limits.empty() ? "" : " " + limits);
  }
  if (choices.empty()) return text;
  if (name == "list") return fmt::format("a list of: {}", fmt::join(choices, ", "));
  if (!text.empty()) text += ", or ";
  if (choices.size() > 1) text += "one of: ";
  return text + fmt::format("{}", fmt::join(choices, ", "));
}

TypeDescription ConfigType<bool>::describe(const KeyOptions&) {
  return {"true or false", "true", {}, {}};
}

bool ConfigType<bool>::read(const json& found, const KeyOptions&) {
  if (!found.is_boolean()) throw WrongType();
  return found.get<bool>();
}

TypeDescription ConfigType<int64_t>::describe(const KeyOptions& options) {
  return {"whole number", "100", {}, range(options, show_number)};
}

int64_t ConfigType<int64_t>::read(const json& found, const KeyOptions& options) {
  if (found.is_string() && is_beyond_64_bits(found.get<std::string>())) {
    refuse_beyond_64_bits(options);
  }
  if (!found.is_number_integer()) throw WrongType();
  const auto value = found.get<int64_t>();
  check_limits(static_cast<double>(value), options, show_number);
  return value;
}

TypeDescription ConfigType<int>::describe(const KeyOptions& options) {
  return {"whole number", "100", {}, range(options, show_number)};
}

int ConfigType<int>::read(const json& found, const KeyOptions& options) {
  const int64_t value = ConfigType<int64_t>::read(found, options);
  if (!std::in_range<int>(value)) {
    throw BadValue(fmt::format("must be between {} and {}", std::numeric_limits<int>::min(),
                               std::numeric_limits<int>::max()));
  }
  return static_cast<int>(value);
}

TypeDescription ConfigType<double>::describe(const KeyOptions& options) {
  return {"number", "0.1", {}, range(options, show_number)};
}

double ConfigType<double>::read(const json& found, const KeyOptions& options) {
  if (!found.is_number()) throw WrongType();
  const auto value = found.get<double>();
  if (!std::isfinite(value)) throw BadValue("must be finite");
  check_limits(value, options, show_number);
  return value;
}

TypeDescription ConfigType<std::string>::describe(const KeyOptions& options) {
  if (options.choices.empty()) return {"string", "\"name\"", {}, {}};
  return {"", fmt::format("\"{}\"", options.choices.front()), options.choices, {}};
}

json ConfigType<std::string>::parse(std::string_view flag, const KeyOptions&) {
  return std::string(flag);
}

std::string ConfigType<std::string>::read(const json& found, const KeyOptions& options) {
  if (!found.is_string()) throw WrongType();
  const auto text = found.get<std::string>();
  const auto& choices = options.choices;
  if (!choices.empty() && std::find(choices.begin(), choices.end(), text) == choices.end()) {
    refuse_word(text, choices);
  }
  return text;
}

TypeDescription ConfigType<milliseconds>::describe(const KeyOptions& options) {
  return {"duration", "\"300s\"", {}, range(options, show_seconds)};
}

json ConfigType<milliseconds>::parse(std::string_view flag, const KeyOptions&) {
  return unquoted(flag);
}

milliseconds ConfigType<milliseconds>::read(const json& found, const KeyOptions& options) {
  const std::string text = found.is_string()   ? found.get<std::string>()
                           : found.is_number() ? fmt::format("{}", found.get<double>())
                                               : std::string();
  const std::optional<milliseconds> value = parse_duration(text);
  if (!value) throw WrongType();
  check_limits(std::chrono::duration<double>(*value).count(), options, show_seconds);
  return *value;
}

json ConfigType<milliseconds>::show(milliseconds value) {
  return exact_duration(value);
}

TypeDescription ConfigType<ByteSize>::describe(const KeyOptions& options) {
  // A minimum of one byte is not worth a mention.
  const bool says_nothing = options.minimum.value_or(1) == 1;
  return {"size", "\"12GiB\"", {}, says_nothing ? "" : range(options, show_bytes)};
}

json ConfigType<ByteSize>::parse(std::string_view flag, const KeyOptions&) {
  return unquoted(flag);
}

ByteSize ConfigType<ByteSize>::read(const json& found, const KeyOptions& options) {
  const std::string text = found.is_string()           ? found.get<std::string>()
                           : found.is_number_integer() ? found.dump()
                                                       : std::string();
  const std::optional<ByteSize> value = parse_bytes(text);
  if (!value) throw WrongType();
  check_limits(static_cast<double>(value->bytes), options, show_bytes);
  return *value;
}

json ConfigType<ByteSize>::show(ByteSize value) {
  return exact_bytes(value);
}

}  // namespace colossal
