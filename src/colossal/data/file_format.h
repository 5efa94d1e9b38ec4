// The format and the compression of a corpus file, determined by the file's name or by
// configuration.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace colossal::data {

enum class FileFormat {
  by_name,  // jsonl if the name, without ".gz" or ".zst", ends in ".jsonl"; else text
  text,     // the file is one document
  jsonl,    // each line is a JSON object, one field of which is a document
};

// Returns the names of the formats in configuration files. The parameter only selects this function
// among the functions of this name (config_value.h).
inline std::vector<std::pair<std::string, FileFormat>> config_names(FileFormat) {
  return {{"auto", FileFormat::by_name}, {"text", FileFormat::text}, {"jsonl", FileFormat::jsonl}};
}

// Whether each line of the file is a document, i.e. whether its format is jsonl. path: of the file.
// format: data.format, e.g. by_name.
bool holds_lines(std::string_view path, FileFormat format);

enum class Compression { none, gzip, zstd };

// Returns the compression of a file by the ending of its name: gzip for ".gz", zstd for ".zst",
// else none.
Compression compression_of(std::string_view path);

}  // namespace colossal::data
