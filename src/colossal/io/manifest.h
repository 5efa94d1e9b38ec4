// The list of a checkpoint's files: their sizes, and the checksums of the ranges that the ranks
// wrote.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace colossal::io {

inline constexpr const char* kManifestFile = "manifest.json";

struct ManifestRange {
  int64_t offset = 0;  // in bytes
  int64_t length = 0;  // in bytes
  uint64_t xxh3 = 0;   // checksum() of the range
  bool operator==(const ManifestRange&) const = default;
};

struct ManifestFile {
  std::string name;  // relative path with '/': "training_state/step.json"
  int64_t size = 0;  // end of the last range
  std::vector<ManifestRange> ranges;
  bool operator==(const ManifestFile&) const = default;
};

struct Manifest {
  std::vector<ManifestFile> files;

  ManifestFile& file(const std::string& name);  // returns the file, after adding it if it is new
  void add(const Manifest& other);              // adds the files and ranges of another rank
  void sort();                                  // sorts files by name, ranges by offset

  // After sort(): returns "" if the ranges of each file cover every byte from 0 to its size exactly
  // once, otherwise a message that says what is wrong.
  std::string coverage_error() const;

  // The text includes a checksum of the manifest itself: parse() throws if a value has changed.
  std::string to_json() const;
  // source: where the text comes from, for error messages. Throws IoError "SOURCE: reason". Rejects
  // file names that are not plain relative names, so that none leads out of the folder.
  static Manifest parse(std::string_view text, const std::string& source);

  bool operator==(const Manifest&) const = default;
};

// Returns true if each part between slashes matches [A-Za-z0-9._-]{1,255} and does not begin with a
// dot.
bool is_plain_relative_name(std::string_view name);

uint64_t checksum(std::span<const std::byte> bytes);  // 64-bit XXH3

}  // namespace colossal::io
