// The files of a corpus.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace colossal::data {

struct SourceFile {
  std::string path;              // absolute
  int64_t size = 0;              // bytes on disk
  int64_t modified_time_ns = 0;  // since 1970-01-01
};

// Returns the files that the patterns match (see glob.h), sorted bytewise by path, without
// duplicates. setting: the config key of the patterns, for error messages. Throws ConfigError if
// there are no patterns, or if a pattern matches no regular file: the message names the nearest
// existing folder, says that the path is a pipe or a device, or gives a pattern for the files of a
// folder. Throws IoError if a file or folder cannot be accessed.
std::vector<SourceFile> find_source_files(std::span<const std::string> patterns,
                                          const std::string& setting);

}  // namespace colossal::data
