#include "colossal/data/source_files.h"

#include <sys/stat.h>

#include <cerrno>
#include <filesystem>
#include <set>
#include <system_error>

#include "colossal/base/error.h"
#include "colossal/data/glob.h"

namespace colossal::data {
namespace fs = std::filesystem;
namespace {

[[noreturn]] void raise_no_match(const std::string& pattern, const std::string& setting) {
  std::error_code error;
  const fs::path path = fs::absolute(pattern).lexically_normal();
  if (fs::is_directory(path, error)) {
    const std::string folder = pattern.ends_with('/') ? pattern : pattern + '/';
    throw ConfigError(
        fmt::format("{}: '{}' is a folder; give files: '{}*' matches those in it, '{}**' also "
                    "those in subfolders",
                    setting, pattern, folder, folder));
  }
  if (fs::exists(path, error)) {
    throw ConfigError(fmt::format(
        "{}: '{}' is {}; a corpus needs regular files, because ranks read them from any position: "
        "write it to a file first",
        setting, pattern, fs::is_fifo(path, error) ? "a pipe" : "not a regular file"));
  }
  fs::path nearest = path;
  while (!fs::is_directory(nearest, error)) nearest = nearest.parent_path();
  throw ConfigError(fmt::format("{}: no file matches '{}'; the nearest folder that exists is '{}'",
                                setting, pattern, nearest.string()));
}

SourceFile describe(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) {
    throw IoError(
        fmt::format("cannot read '{}': {}", path, std::generic_category().message(errno)));
  }
  return {path, status.st_size, status.st_mtim.tv_sec * 1'000'000'000 + status.st_mtim.tv_nsec};
}

}  // namespace

std::vector<SourceFile> find_source_files(std::span<const std::string> patterns,
                                          const std::string& setting) {
  if (patterns.empty()) {
    throw ConfigError(fmt::format(
        R"({} is empty: give the files of the corpus, such as ["text/**/*.txt"])", setting));
  }
  std::set<std::string> paths;  // sorted by bytes
  for (const std::string& pattern : patterns) {
    const std::vector<std::string> found = expand_glob(pattern);
    if (found.empty()) raise_no_match(pattern, setting);
    for (const std::string& path : found) {
      paths.insert(fs::absolute(path).lexically_normal().string());
    }
  }
  std::vector<SourceFile> files;
  files.reserve(paths.size());
  for (const std::string& path : paths) files.push_back(describe(path));
  return files;
}

}  // namespace colossal::data
