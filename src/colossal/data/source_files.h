// Finds the files of a corpus, which the user names by patterns in data.train or data.validation,
// and the format of each.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "colossal/data/file_format.h"

namespace colossal::data {

struct SourceFile {
  std::string path;              // absolute
  int64_t size = 0;              // bytes on disk
  int64_t modified_time_ns = 0;  // time of the last change, in nanoseconds since 1970-01-01 UTC
  int64_t changed_time_ns = 0;   // likewise of the last change, also of metadata; cannot be set
  FileFormat format = FileFormat::text;  // not by_name
  Compression compression = Compression::none;
};

struct FormatOptions {
  FileFormat format = FileFormat::by_name;  // data.format: of all files; by_name: of each file
  // With by_name: the format of files whose name says nothing.
  FileFormat otherwise = FileFormat::text;
  std::string text_field = "text";  // field of the documents; tells rows from other .json files
  // With by_name: whether files that cannot be read as text, such as archives, are left out of the
  // result; otherwise they are an error.
  bool skip_unreadable = false;
};

// Returns the files that the patterns match (glob.h), sorted by the bytes of their paths, without
// duplicates. setting: the configuration key of the patterns, for messages.
//
// With FormatOptions::by_name, the name of a file gives its format (format_of_name()), and its
// first bytes give the format of a file with another name (recognize()). A .json file can be rows
// or a document (format_of_json()); it has rows if `otherwise` is not text.
//
// Throws ConfigError if there are no patterns, or if a pattern matches no regular file. The message
// then says what is wrong: it names the nearest existing folder, says that the path is a pipe or a
// device, or gives a pattern for the files of a folder. Throws ConfigError if a file is of a kind
// that cannot be read, such as an archive or text in UTF-16, with by_name and not skip_unreadable.
// Throws IoError if a file or folder cannot be read. skipped: receives the number of files that
// skip_unreadable leaves out; may be null.
std::vector<SourceFile> find_source_files(std::span<const std::string> patterns,
                                          const std::string& setting,
                                          const FormatOptions& options = {},
                                          int64_t* skipped = nullptr);

}  // namespace colossal::data
