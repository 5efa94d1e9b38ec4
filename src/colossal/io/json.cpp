#include "colossal/io/json.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "colossal/base/error.h"
#include "colossal/io/file.h"

namespace colossal::io {
namespace {

constexpr int kMaxDepth = 64;
constexpr size_t kShown = 80;  // bytes of a file's text that a message shows

}  // namespace

nlohmann::json parse_json(std::string_view text, const std::string& source) {
  using Event = nlohmann::json::parse_event_t;
  // The parser takes a NUL byte as the end of the text and would ignore what follows.
  if (text.find('\0') != std::string_view::npos) {
    throw IoError(fmt::format("{}: is not JSON: it holds a NUL byte", source));
  }
  std::vector<std::set<std::string>> keys;  // of each open object
  const auto check = [&](int depth, Event event, nlohmann::json& value) {
    if (depth >= kMaxDepth && (event == Event::object_start || event == Event::array_start)) {
      throw IoError(fmt::format("{}: is nested deeper than {} levels", source, kMaxDepth));
    }
    if (event == Event::object_start) keys.emplace_back();
    if (event == Event::object_end) keys.pop_back();
    if (event == Event::key && !keys.back().insert(value.get<std::string>()).second) {
      throw IoError(fmt::format("{}: has the key {} twice in one object", source,
                                quote_text(value.get_ref<const std::string&>())));
    }
    return true;
  };
  try {
    return nlohmann::json::parse(text, check);
  } catch (const nlohmann::json::exception& error) {
    throw IoError(fmt::format("{}: is not JSON: {:.200}", source, error.what()));
  }
}

nlohmann::json read_json(const std::filesystem::path& path, int64_t limit) {
  return parse_json(read_file(path, limit), path.string());
}

std::string quote_text(std::string_view text) {
  const std::string shown(text.substr(0, kShown));
  return nlohmann::json(text.size() > kShown ? shown + "..." : shown)
      .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string show_value(const nlohmann::json& value) {
  if (value.is_string()) return quote_text(value.get_ref<const std::string&>());
  const std::string text = value.dump(-1, ' ', true);
  return text.size() > kShown ? text.substr(0, kShown) + "..." : text;
}

}  // namespace colossal::io
