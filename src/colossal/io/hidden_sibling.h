// Hidden names for unfinished or replaced files and folders. A hidden name for a path FOLDER/NAME
// is in FOLDER, too:
//   .NAME.tmp-0123456789abcdef   what is being written or removed; of no use after a crash
//   .NAME.old-0123456789abcdef   the previous FOLDER/NAME while it is replaced; after a crash it
//                                counts as FOLDER/NAME if FOLDER/NAME is missing
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace colossal::io {

enum class HiddenKind {
  temporary,  // .NAME.tmp-...
  replaced    // .NAME.old-...
};

// Returns a hidden path for `path`, with random digits, as an absolute path. Creates nothing.
std::filesystem::path hidden_sibling(const std::filesystem::path& path, HiddenKind kind);

struct HiddenName {
  std::string name;  // NAME above
  HiddenKind kind;
};
// Parses a file name without folders; returns nullopt if it is no hidden name.
std::optional<HiddenName> parse_hidden_name(const std::string& file_name);

}  // namespace colossal::io
