#include "colossal/data/file_format.h"

namespace colossal::data {

bool holds_lines(std::string_view path, FileFormat format) {
  if (format != FileFormat::by_name) return format == FileFormat::jsonl;
  if (compression_of(path) != Compression::none) path = path.substr(0, path.rfind('.'));
  return path.ends_with(".jsonl");
}

Compression compression_of(std::string_view path) {
  if (path.ends_with(".gz")) return Compression::gzip;
  if (path.ends_with(".zst")) return Compression::zstd;
  return Compression::none;
}

}  // namespace colossal::data
