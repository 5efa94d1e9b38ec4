// The help of ConfigSchema: for each key, a line with its default and the values that it accepts,
// and below it a description.
#include "colossal/base/config_schema.h"

namespace colossal {
namespace {

constexpr std::size_t kWidth = 100;

// Breaks `text` into lines of up to kWidth columns. Indents the first line by `first` columns and
// the others by `others`.
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

std::string help_text(const ConfigSchema::KeyHelp& key) {
  constexpr std::size_t kKeyIndent = 2, kHelpIndent = 6;
  const std::string name = key.key.substr(key.key.find('.') + 1);
  const std::string by_default = key.default_value.empty() ? "" : " = " + key.default_value;
  const std::string computed_default =
      key.computed_default.empty() ? "" : "; left out: " + key.computed_default;
  const std::string per_rank = key.per_rank ? "; may differ by rank" : "";
  return wrap(
             fmt::format("{}{} ({}{}{})", name, by_default, key.values, computed_default, per_rank),
             kKeyIndent, kHelpIndent) +
         wrap(key.text, kHelpIndent, kHelpIndent);
}

}  // namespace

ConfigSchema::KeyHelp ConfigSchema::help_of(const Key& key) const {
  return {.key = key.name,
          .default_value = key.default_value.is_null() ? "" : display(key, key.default_value),
          .computed_default = key.type.unset,
          .values = key.type.values(key.options.unit),
          .per_rank = key.options.per_rank,
          .text = key.help};
}

std::vector<ConfigSchema::KeyHelp> ConfigSchema::key_helps() const {
  std::vector<KeyHelp> helps;
  for (const std::string& section : sections_) {
    for (const Key& key : keys_) {
      if (key.name.starts_with(section + ".")) helps.push_back(help_of(key));
    }
  }
  return helps;
}

std::string ConfigSchema::open_section_help(const std::string& section) const {
  const auto open = open_sections_.find(section);
  return open == open_sections_.end() ? "" : open->second.help;
}

std::string ConfigSchema::help() const {
  const std::vector<KeyHelp> keys = key_helps();
  std::string text;
  for (const std::string& section : sections_) {
    text += fmt::format("{}[{}]\n", text.empty() ? "" : "\n", section);
    for (const KeyHelp& key : keys) {
      if (key.key.starts_with(section + ".")) text += help_text(key);
    }
    const std::string more = open_section_help(section);
    if (!more.empty()) text += wrap("... " + more, 2, 6);
  }
  return text;
}

}  // namespace colossal
