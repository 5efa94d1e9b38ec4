#include "colossal/data/glob.h"

#include <fnmatch.h>

#include <filesystem>
#include <span>

#include "colossal/base/error.h"

namespace colossal::data {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view kAnyFolders = "**";

// Returns the names between the slashes. "a/**" becomes "a/**/*"; "**/**" becomes "**".
std::vector<std::string> split(std::string_view pattern) {
  std::vector<std::string> names;
  for (const fs::path& part : fs::path(pattern)) {
    std::string name = part.string();
    if (name.empty() || name == "/") continue;
    if (name == kAnyFolders && !names.empty() && names.back() == kAnyFolders) continue;
    names.push_back(std::move(name));
  }
  if (!names.empty() && names.back() == kAnyFolders) names.push_back("*");
  return names;
}

bool is_literal(const std::string& name) {
  return name.find_first_of("*?[\\") == std::string::npos;
}

std::vector<fs::directory_entry> list(const fs::path& folder) {
  std::error_code error;
  fs::directory_iterator entries(folder.empty() ? "." : folder, error);
  if (error) {
    throw IoError(fmt::format("cannot list folder '{}': {}", folder.string(), error.message()));
  }
  return {begin(entries), end(entries)};
}

bool is_folder(const fs::path& path) {
  std::error_code error;
  return fs::is_directory(path.empty() ? "." : path, error);
}

bool is_file(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error);
}

void expand(const fs::path& base, std::span<const std::string> names,
            std::vector<std::string>& found) {
  if (names.empty()) {
    if (is_file(base)) found.push_back(base.string());
    return;
  }
  const std::string& name = names.front();
  if (is_literal(name)) return expand(base / name, names.subspan(1), found);
  if (!is_folder(base)) return;
  const bool any_folders = name == kAnyFolders;
  if (any_folders) expand(base, names.subspan(1), found);
  for (const fs::directory_entry& entry : list(base)) {
    const std::string entry_name = entry.path().filename().string();
    if (any_folders) {
      if (entry_name.front() == '.' || entry.is_symlink() || !is_folder(entry.path())) continue;
      expand(base / entry_name, names, found);
    } else if (fnmatch(name.c_str(), entry_name.c_str(), FNM_PERIOD) == 0) {
      expand(base / entry_name, names.subspan(1), found);
    }
  }
}

}  // namespace

std::vector<std::string> expand_glob(std::string_view pattern) {
  // The name of an existing file may have brackets or stars in it.
  if (is_file(pattern)) return {std::string(pattern)};
  std::vector<std::string> found;
  const std::vector<std::string> names = split(pattern);
  if (!names.empty()) expand(pattern.starts_with('/') ? "/" : "", names, found);
  return found;
}

}  // namespace colossal::data
