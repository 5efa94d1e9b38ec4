// Files that a test puts in its folder.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>

namespace colossal::test {

// Makes the folders that lead to it too, and returns its path.
inline std::filesystem::path write_file(const std::filesystem::path& path,
                                        const std::string& text) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << text;
  return path;
}

}  // namespace colossal::test
