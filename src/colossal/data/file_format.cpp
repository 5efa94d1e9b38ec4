#include "colossal/data/file_format.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace colossal::data {
namespace {

using namespace std::string_view_literals;

// Whether `path` ends in `ending`, which is in lower case.
bool ends_in(std::string_view path, std::string_view ending) {
  if (path.size() < ending.size()) return false;
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; };
  return std::ranges::equal(path.substr(path.size() - ending.size()), ending, {}, lower);
}

constexpr std::pair<std::string_view, FileFormat> kEndings[] = {
    {".jsonl", FileFormat::jsonl},     {".ndjson", FileFormat::jsonl},
    {".jsonlines", FileFormat::jsonl}, {".json", FileFormat::json},
    {".csv", FileFormat::csv},         {".tsv", FileFormat::tsv},
    {".parquet", FileFormat::parquet}, {".arrow", FileFormat::arrow},
    {".feather", FileFormat::arrow},   {".ipc", FileFormat::arrow}};

struct Magic {
  std::string_view bytes;
  const char* what;
};

constexpr Magic kMagics[] = {{"PK\3\4"sv, "a zip archive"},
                             {"PK\5\6"sv, "an empty zip archive"},
                             {"\xfd"
                              "7zXZ\0"sv,
                              "compressed by xz"},
                             {"7z\xbc\xaf\x27\x1c"sv, "a 7z archive"},
                             {"\x04\x22\x4d\x18"sv, "compressed by lz4"},
                             {"Rar!\x1a\x07"sv, "a rar archive"},
                             {"%PDF-"sv, "a PDF"},
                             {"\x89PNG\r\n\x1a\n"sv, "a PNG image"},
                             {"\xff\xd8\xff"sv, "a JPEG image"},
                             {"GIF87a"sv, "a GIF image"},
                             {"GIF89a"sv, "a GIF image"},
                             {"\x7f"
                              "ELF"sv,
                              "a program or library"},
                             {"\x93NUMPY"sv, "a NumPy array"},
                             {"SQLite format 3\0"sv, "an SQLite database"},
                             {"\x89HDF\r\n\x1a\n"sv, "an HDF5 file"},
                             {"ORC"sv, "an ORC table"},
                             {"Obj\1"sv, "an Avro file"},
                             {"\0\0\xfe\xff"sv, "text in UTF-32"},
                             {"\xff\xfe"sv, "text in UTF-16"},
                             {"\xfe\xff"sv, "text in UTF-16"}};

// bzip2: "BZh", a digit, and the magic number of a block or of the end.
bool is_bzip2(std::string_view bytes) {
  return bytes.starts_with("BZh") && bytes.size() > 9 && bytes[3] >= '1' && bytes[3] <= '9' &&
         (bytes.substr(4, 6) == "1AY&SY"sv || bytes.substr(4, 6) == "\x17rE8P\x90"sv);
}

std::string_view without_blanks_before(std::string_view text) {
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  text.remove_prefix(std::min(text.find_first_not_of(" \t\r\n"), text.size()));
  return text;
}

}  // namespace

Compression compression_of(std::string_view path) {
  if (ends_in(path, ".gz")) return Compression::gzip;
  if (ends_in(path, ".zst")) return Compression::zstd;
  return Compression::none;
}

FileFormat format_of_name(std::string_view path) {
  if (compression_of(path) != Compression::none) path = path.substr(0, path.rfind('.'));
  for (const auto& [ending, format] : kEndings) {
    if (ends_in(path, ending)) return format;
  }
  return FileFormat::by_name;
}

std::optional<Recognized> recognize(std::string_view beginning) {
  if (beginning.starts_with("\x1f\x8b\x08")) {
    return Recognized{.what = "compressed by gzip", .compression = Compression::gzip};
  }
  if (beginning.starts_with("\x28\xb5\x2f\xfd")) {
    return Recognized{.what = "compressed by zstd", .compression = Compression::zstd};
  }
  if (beginning.starts_with("PAR1")) {
    return Recognized{.what = "a Parquet file", .format = FileFormat::parquet};
  }
  if (beginning.starts_with("ARROW1\0\0"sv)) {
    return Recognized{.what = "an Arrow file", .format = FileFormat::arrow};
  }
  if (is_bzip2(beginning)) return Recognized{.what = "compressed by bzip2"};
  for (const Magic& magic : kMagics) {
    if (beginning.starts_with(magic.bytes)) return Recognized{.what = magic.what};
  }
  return std::nullopt;
}

FileFormat format_of_json(std::string_view beginning, const std::string& text_field) {
  std::string_view text = without_blanks_before(beginning);
  if (text.starts_with('[')) {
    return without_blanks_before(text.substr(1)).starts_with('{') ? FileFormat::json
                                                                  : FileFormat::text;
  }
  if (!text.starts_with('{')) return FileFormat::text;
  const size_t end = text.find('\n');
  const std::string_view line = text.substr(0, end);
  const nlohmann::json first = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  // A first line longer than `beginning` is of data: files with settings have short lines.
  if (first.is_discarded()) {
    return end == std::string_view::npos && text.size() > 4096 ? FileFormat::json
                                                               : FileFormat::text;
  }
  const bool more_follow =
      end != std::string_view::npos && without_blanks_before(text.substr(end)).starts_with('{');
  return more_follow || first.contains(text_field) ? FileFormat::json : FileFormat::text;
}

}  // namespace colossal::data
