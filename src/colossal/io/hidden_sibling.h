// Hidden names beside a path P for unfinished or obsolete files and folders:
//   .NAME.tmp-0123456789abcdef   being written or removed; worthless after a crash
//   .NAME.old-0123456789abcdef   the previous P while it is replaced; counts as P if P is missing
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace colossal::io {

enum class HiddenKind { temporary, replaced };

// Returns a new random name in the folder of `path`.
std::filesystem::path hidden_sibling(const std::filesystem::path& path, HiddenKind kind);

struct HiddenName {
  std::string name;  // file name of P
  HiddenKind kind;
};
// Returns nullopt if the name has neither form.
std::optional<HiddenName> parse_hidden_name(const std::string& file_name);

}  // namespace colossal::io
