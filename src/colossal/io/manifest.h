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
  int64_t offset = 0;
  int64_t length = 0;
  uint64_t xxh3 = 0;
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

  ManifestFile& file(const std::string& name);  // adds the file if it is new
  void add(const Manifest& other);              // adds the ranges of another rank
  void sort();                                  // sorts files by name, ranges by offset

  // Returns "" if the sorted ranges of each file cover it exactly once from 0 to its size; else
  // what is wrong.
  std::string incomplete() const;

  // Includes its own checksum: parse() fails if any byte has changed.
  std::string to_json() const;
  // Throws IoError "SOURCE: reason". File names are validated, so that they cannot leave the
  // folder.
  static Manifest parse(std::string_view text, const std::string& source);

  bool operator==(const Manifest&) const = default;
};

// Returns true if each segment matches [A-Za-z0-9._-]+ and does not begin with a dot.
bool is_plain_relative_name(std::string_view name);

uint64_t checksum(std::span<const std::byte> bytes);  // 64-bit XXH3

}  // namespace colossal::io
