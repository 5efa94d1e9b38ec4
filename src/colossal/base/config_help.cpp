// ConfigSchema::help(): a table of four columns for each section, aligned throughout.
#include <algorithm>
#include <array>

#include "colossal/base/config_schema.h"

namespace colossal {
namespace {

constexpr std::size_t kColumns = 4;  // key, type, default, help
constexpr std::size_t kWidth = 100;
constexpr std::size_t kIndent = 2;
constexpr std::size_t kGap = 2;
// Beyond these a cell goes on in the next line; the help has what is left.
constexpr std::array<std::size_t, kColumns - 1> kWidest{20, 19, 18};

using Row = std::array<std::string, kColumns>;

std::vector<std::string> wrap(const std::string& text, std::size_t width) {
  std::vector<std::string> lines;
  std::string rest = text;
  while (rest.size() > width) {
    const std::size_t space = rest.rfind(' ', width);
    const bool at_space = space != std::string::npos && space > 0;
    const std::size_t end = at_space ? space : width;
    lines.push_back(rest.substr(0, end));
    rest.erase(0, at_space ? end + 1 : end);
  }
  lines.push_back(rest);
  return lines;
}

std::array<std::size_t, kColumns> column_widths(const std::vector<Row>& rows) {
  std::array<std::size_t, kColumns> widths{};
  std::size_t left = kWidth - kIndent;
  for (std::size_t i = 0; i + 1 < kColumns; ++i) {
    for (const Row& row : rows) widths[i] = std::max(widths[i], row[i].size());
    widths[i] = std::min(widths[i], kWidest[i]);
    left -= widths[i] + kGap;
  }
  widths.back() = left;
  return widths;
}

std::string lay_out(const std::vector<Row>& rows, const std::array<std::size_t, kColumns>& widths) {
  std::string table;
  for (const Row& row : rows) {
    std::array<std::vector<std::string>, kColumns> cells;
    std::size_t height = 0;
    for (std::size_t i = 0; i < kColumns; ++i) {
      cells[i] = wrap(row[i], widths[i]);
      height = std::max(height, cells[i].size());
    }
    for (std::size_t line = 0; line < height; ++line) {
      std::string text(kIndent, ' ');
      for (std::size_t i = 0; i < kColumns; ++i) {
        text +=
            fmt::format("{:<{}}", line < cells[i].size() ? cells[i][line] : "", widths[i] + kGap);
      }
      table += text.substr(0, text.find_last_not_of(' ') + 1) + "\n";
    }
  }
  return table;
}

}  // namespace

std::string ConfigSchema::help() const {
  std::vector<Row> all;
  for (const std::string& section : sections_) {
    const std::vector<Row> rows = help_rows(section);
    all.insert(all.end(), rows.begin(), rows.end());
  }
  const std::array<std::size_t, kColumns> widths = column_widths(all);
  std::string text;
  for (const std::string& section : sections_) {
    text += fmt::format("{}[{}]\n{}", text.empty() ? "" : "\n", section,
                        lay_out(help_rows(section), widths));
  }
  return text;
}

std::vector<ConfigSchema::HelpRow> ConfigSchema::help_rows(const std::string& section) const {
  std::vector<Row> rows;
  for (const Key& key : keys_) {
    if (!key.name.starts_with(section + ".")) continue;
    const std::string& unit = key.options.unit;
    const std::string type =
        unit.empty() ? key.type.name : fmt::format("{} ({})", key.type.name, unit);
    std::vector<std::string> help{key.help};
    if (!key.type.choices.empty()) {
      help.push_back(fmt::format("one of {}", fmt::join(key.type.choices, ", ")));
    }
    if (!key.type.limits.empty()) help.push_back(key.type.limits);
    if (key.options.per_rank) help.push_back("may differ by rank");
    rows.push_back({key.name.substr(section.size() + 1), type, display(key, key.default_value),
                    fmt::format("{}", fmt::join(help, "; "))});
  }
  const auto open = open_sections_.find(section);
  if (open != open_sections_.end()) rows.push_back({"...", "any", "", open->second.help});
  return rows;
}

}  // namespace colossal
