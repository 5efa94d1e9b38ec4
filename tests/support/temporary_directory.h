// A folder of the test's own, removed with it.
//
// Storage::memory: on a file system in memory where there is one. For tests that sync or replace
// small files thousands of times and would mostly wait for the disk.
#pragma once

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>

namespace colossal::test {

enum class Storage { disk, memory };

class TemporaryDirectory {
 public:
  explicit TemporaryDirectory(Storage storage = Storage::disk) {
    const bool memory = storage == Storage::memory && std::filesystem::is_directory("/dev/shm");
    const auto parent = memory ? "/dev/shm" : std::filesystem::temp_directory_path();
    std::string name = (parent / "colossal-test-XXXXXX").string();
    if (!::mkdtemp(name.data())) throw std::runtime_error("mkdtemp " + name);
    path_ = name;
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  ~TemporaryDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(std::string_view name) const { return path_ / name; }

  // Makes a file and the folders that it lies in. Its path.
  std::string write(std::string_view name, std::string_view content) const {
    const std::filesystem::path path = path_ / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << content;
    return path.string();
  }

 private:
  std::filesystem::path path_;
};

}  // namespace colossal::test
