// ConfigSchema::help(): for each key a line with its default and what it may be, and below it what
// it does.
#include "colossal/base/config_schema.h"

namespace colossal {
namespace {

constexpr std::size_t kWidth = 100;

// In lines of kWidth columns, the first indented by `first` columns, the others by `others`.
std::string wrap(const std::string& text, std::size_t first, std::size_t others) {
  std::string lines, rest = text;
  for (std::size_t indent = first;; indent = others) {
    const std::size_t width = kWidth - indent;
    const std::size_t space = rest.size() > width ? rest.rfind(' ', width) : std::string::npos;
    const bool at_space = space != std::string::npos && space > 0;
    const std::size_t end = rest.size() <= width ? rest.size() : at_space ? space : width;
    lines += std::string(indent, ' ') + rest.substr(0, end) + "\n";
    if (end == rest.size()) return lines;
    rest.erase(0, at_space ? end + 1 : end);
  }
}

}  // namespace

std::string ConfigSchema::help_of(const Key& key) const {
  constexpr std::size_t kKeyIndent = 2, kHelpIndent = 6;
  const std::string name = key.name.substr(key.name.find('.') + 1);
  const std::string by_default =
      key.default_value.is_null() ? "" : " = " + display(key, key.default_value);
  const std::string left_out = key.type.unset.empty() ? "" : "; left out: " + key.type.unset;
  const std::string per_rank = key.options.per_rank ? "; may differ by rank" : "";
  return wrap(fmt::format("{}{} ({}{}{})", name, by_default, key.type.values(key.options.unit),
                          left_out, per_rank),
              kKeyIndent, kHelpIndent) +
         wrap(key.help, kHelpIndent, kHelpIndent);
}

std::string ConfigSchema::help() const {
  std::string text;
  for (const std::string& section : sections_) {
    text += fmt::format("{}[{}]\n", text.empty() ? "" : "\n", section);
    for (const Key& key : keys_) {
      if (key.name.starts_with(section + ".")) text += help_of(key);
    }
    const auto open = open_sections_.find(section);
    if (open != open_sections_.end()) text += wrap("... " + open->second.help, 2, 6);
  }
  return text;
}

}  // namespace colossal
