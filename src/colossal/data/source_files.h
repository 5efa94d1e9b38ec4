// Finds the files of a corpus, which the user names by patterns in data.train or data.validation.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace colossal::data {

struct SourceFile {
  std::string path;              // absolute
  int64_t size = 0;              // bytes on disk
  int64_t modified_time_ns = 0;  // time of the last change, in nanoseconds since 1970-01-01 UTC
};

// Returns the files that the patterns match (glob.h), sorted by the bytes of their paths, without
// duplicates. setting: the configuration key of the patterns, for messages. Throws ConfigError if
// there are no patterns, or if a pattern matches no regular file. The message then says what is
// wrong: it names the nearest existing folder, says that the path is a pipe or a device, or gives a
// pattern for the files of a folder. Throws IoError if a file or folder cannot be read.
std::vector<SourceFile> find_source_files(std::span<const std::string> patterns,
                                          const std::string& setting);

}  // namespace colossal::data
