// How the files of a corpus hold its documents, as their names say.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace colossal::data {

enum class FileFormat {
  by_name,  // jsonl where the name ends in ".jsonl", before a compression's ending, else text
  text,     // a file is a document
  jsonl,    // a line is a document: a field of an object in JSON
};

inline std::vector<std::pair<std::string, FileFormat>> config_names(FileFormat) {
  return {{"auto", FileFormat::by_name}, {"text", FileFormat::text}, {"jsonl", FileFormat::jsonl}};
}

// Whether each line of the file is a document.
bool holds_lines(std::string_view path, FileFormat format);

enum class Compression { none, gzip, zstd };

// Finds the compression by the ending of the name: ".gz", ".zst".
Compression compression_of(std::string_view path);

}  // namespace colossal::data
