// The files of a corpus.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace colossal::data {

struct SourceFile {
  std::string path;              // absolute
  int64_t size = 0;              // bytes
  int64_t modified_time_ns = 0;  // since 1970
};

// The files that the patterns match (see glob.h), sorted by the bytes of their paths, each once.
// setting: the key that holds the patterns, named in messages.
// Throws ConfigError for no patterns, a pattern without files (naming the nearest folder that
// exists), a pipe or device, and a folder (saying what would match its files); IoError for what
// cannot be read.
std::vector<SourceFile> find_source_files(std::span<const std::string> patterns,
                                          const std::string& setting);

}  // namespace colossal::data
