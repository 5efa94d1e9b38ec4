// Names beside a path P for what is not finished or not wanted any more:
//   .NAME.tmp-0123456789abcdef   under way (or half removed): worthless after a crash
//   .NAME.old-0123456789abcdef   what P was until a moment ago: stands for P while P is missing
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace colossal::io {

enum class HiddenKind { temporary, replaced };

// A new name, drawn at random, in the folder of `path`.
std::filesystem::path hidden_sibling(const std::filesystem::path& path, HiddenKind kind);

struct HiddenName {
  std::string name;  // what it stands beside
  HiddenKind kind;
};
std::optional<HiddenName> parse_hidden_name(const std::string& file_name);

}  // namespace colossal::io
