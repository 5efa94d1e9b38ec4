// The format and the compression of a file with texts or rows: by the file's name, by its first
// bytes, or by configuration.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace colossal::data {

enum class FileFormat {
  by_name,  // determined for each file by find_source_files() (source_files.h)
  text,     // the file is one document
  jsonl,    // each line is a JSON object
  json,     // a list of JSON objects, or JSON objects one after the other
  csv,      // each record is a row; the first one names the columns (RFC 4180)
  tsv,      // csv with tabs instead of commas
  parquet,  // Apache Parquet
  arrow,    // Apache Arrow IPC, as a file or as a stream
};

// Returns the names of the formats in configuration files. The parameter only selects this function
// among the functions of this name (config_value.h).
inline std::vector<std::pair<std::string, FileFormat>> config_names(FileFormat) {
  return {{"auto", FileFormat::by_name},    {"text", FileFormat::text},
          {"jsonl", FileFormat::jsonl},     {"json", FileFormat::json},
          {"csv", FileFormat::csv},         {"tsv", FileFormat::tsv},
          {"parquet", FileFormat::parquet}, {"arrow", FileFormat::arrow}};
}

enum class Compression { none, gzip, zstd };

// Returns the compression of a file by the ending of its name, in any case: gzip for ".gz", zstd
// for ".zst", else none.
Compression compression_of(std::string_view path);

// Returns the format that the ending of a file's name, in any case, stands for; the ending of a
// compressed file is that before ".gz" or ".zst". Returns by_name if the ending stands for none.
FileFormat format_of_name(std::string_view path);

// Whether a file of this format has rows: JSON objects, or the rows of a table. A row has one
// document. format: not by_name.
inline bool holds_rows(FileFormat format) {
  return format != FileFormat::text;
}

// What a line of a message calls a row of a file: "line" or "row".
inline const char* row_name(FileFormat format) {
  return format == FileFormat::jsonl ? "line" : "row";
}

// What the first bytes of a file say about it.
struct Recognized {
  std::string what;                             // "a zip archive"
  std::optional<FileFormat> format = {};        // set if it is a format that can be read
  std::optional<Compression> compression = {};  // set if it can be decompressed
};
// Recognizes files that are not texts by their first bytes (at least 16, or the whole file).
// Returns nullopt if they are not known.
std::optional<Recognized> recognize(std::string_view beginning);

// Returns whether a .json file is read as rows or is itself a document: json if it begins with a
// list of objects, with objects on several lines, or with an object on a line of its own that has
// the field `text_field`; else text, as for a file with settings. beginning: of the text of the
// file, at most some MiB.
FileFormat format_of_json(std::string_view beginning, const std::string& text_field);

}  // namespace colossal::data
