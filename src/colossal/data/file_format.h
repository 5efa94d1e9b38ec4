// The format of a corpus file, determined by its name.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace colossal::data {

enum class FileFormat {
  by_name,  // jsonl if the name without ".gz" or ".zst" ends in ".jsonl", else text
  text,     // each file is a document
  jsonl,    // each line is a JSON object; one of its fields is a document
};

inline std::vector<std::pair<std::string, FileFormat>> config_names(FileFormat) {
  return {{"auto", FileFormat::by_name}, {"text", FileFormat::text}, {"jsonl", FileFormat::jsonl}};
}

// Returns true if each line of the file is a document.
bool holds_lines(std::string_view path, FileFormat format);

enum class Compression { none, gzip, zstd };

// Returns the compression by the name's ending: gzip for ".gz", zstd for ".zst", else none.
Compression compression_of(std::string_view path);

}  // namespace colossal::data
