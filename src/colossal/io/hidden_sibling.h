// Hidden names for unfinished or obsolete files and folders, in the same folder as the path P/NAME
// that they belong to:
//   .NAME.tmp-0123456789abcdef   being written or removed; worthless after a crash
//   .NAME.old-0123456789abcdef   the previous P/NAME while it is replaced; used if P/NAME is
//   missing
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace colossal::io {

enum class HiddenKind { temporary, replaced };  // .tmp-, .old-

// Returns a new random name in the folder of `path`.
std::filesystem::path hidden_sibling(const std::filesystem::path& path, HiddenKind kind);

struct HiddenName {
  std::string name;  // NAME
  HiddenKind kind;
};
// Parses a file name without folders; returns nullopt if it has neither form.
std::optional<HiddenName> parse_hidden_name(const std::string& file_name);

}  // namespace colossal::io
