// The manifest of a checkpoint: the list of its files with their sizes and checksums, stored as
// manifest.json. Each rank's DirectoryWriter (checkpoint_directory.h) records what it writes; the
// sum of these records is the manifest.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace colossal::io {

inline constexpr const char* kManifestFile = "manifest.json";

// A range of a file that a rank has written in one piece.
struct ManifestRange {
  int64_t offset = 0;  // in bytes
  int64_t length = 0;  // in bytes
  uint64_t xxh3 = 0;   // checksum() of the range
  bool operator==(const ManifestRange&) const = default;
};

struct ManifestFile {
  std::string name;  // path relative to the checkpoint, with '/': "training_state/state.json"
  int64_t size = 0;  // of the file in bytes: where the last range ends
  std::vector<ManifestRange> ranges;
  bool operator==(const ManifestFile&) const = default;
};

struct Manifest {
  std::vector<ManifestFile> files;

  // Returns the file of this name. Adds a file of size 0 if there is none. Whoever adds a range to
  // the result must also update its size. The reference is valid until another file is added.
  ManifestFile& file(const std::string& name);
  // Adds the files and ranges of another rank. A file that both have gets the ranges of both and
  // the larger size.
  void add(const Manifest& other);
  void sort();  // sorts files by name, ranges by offset

  // Returns an error message if the ranges of a file do not cover every byte from 0 to its size
  // exactly once; empty if they do. Call sort() first.
  std::string coverage_error() const;

  // Returns the text of manifest.json. It includes a checksum of the manifest itself.
  std::string to_json() const;
  // Parses the text of manifest.json. source: where the text comes from, such as a path. Throws
  // IoError with the message "SOURCE: reason" if the text is invalid, its own checksum does not
  // match, or a file name is not a plain relative name and so might lead out of the folder.
  static Manifest parse(std::string_view text, const std::string& source);

  bool operator==(const Manifest&) const = default;
};

// Whether all parts of `name` between slashes match [A-Za-z0-9._-]{1,255} and do not begin with a
// dot.
bool is_plain_relative_name(std::string_view name);

// Returns the 64-bit XXH3 hash of `bytes`.
uint64_t checksum(std::span<const std::byte> bytes);

}  // namespace colossal::io
