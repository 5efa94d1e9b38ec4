// The list of a checkpoint's files: the size of each, and the checksums of the ranges that the
// ranks wrote.
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
  std::string name;  // relative, '/' between plain segments: "training_state/step.json"
  int64_t size = 0;  // the end of the last range
  std::vector<ManifestRange> ranges;
  bool operator==(const ManifestFile&) const = default;
};

struct Manifest {
  std::vector<ManifestFile> files;

  ManifestFile& file(const std::string& name);  // added when it is new
  void add(const Manifest& other);              // what another rank wrote
  void sort();                                  // files by name, ranges by offset

  // Empty when each file's sorted ranges cover it from 0 to its size once; else what is wrong.
  std::string incomplete() const;

  // A text that checks itself: any changed byte makes parse() fail.
  std::string to_json() const;
  // Throws IoError "SOURCE: reason". The names are safe to join to a folder.
  static Manifest parse(std::string_view text, const std::string& source);

  bool operator==(const Manifest&) const = default;
};

// Whether each segment is [A-Za-z0-9._-]+ and does not begin with a dot.
bool is_plain_relative_name(std::string_view name);

uint64_t checksum(std::span<const std::byte> bytes);  // XXH3, 64 bits

}  // namespace colossal::io
