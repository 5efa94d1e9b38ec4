#include "colossal/io/manifest.h"

#include <fmt/format.h>
#include <xxhash.h>
#ifdef __x86_64__
#include <xxh_x86dispatch.h>  // AVX2 and AVX-512 where the CPU has them: 1.5 times as fast
#endif

#include <algorithm>
#include <charconv>
#include <limits>
#include <nlohmann/json.hpp>

#include "colossal/base/error.h"
#include "colossal/io/json.h"

namespace colossal::io {
namespace {

using nlohmann::json;

constexpr const char* kFormat = "colossal-manifest-1";

std::string hexadecimal(uint64_t value) {
  return fmt::format("{:016x}", value);
}

uint64_t parse_hexadecimal(const json& value, const std::string& source) {
  uint64_t number = 0;
  const std::string text = value.is_string() ? value.get<std::string>() : "";
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, 16);
  if (text.size() != 16 || error != std::errc() || end != text.data() + text.size()) {
    throw IoError(fmt::format("{}: has the checksum {}, not 16 hexadecimal digits", source,
                              show_value(value)));
  }
  return number;
}

int64_t parse_bytes(const json& value, const std::string& source) {
  constexpr auto kLargest = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
  if (!value.is_number_unsigned() || value.get<uint64_t>() > kLargest) {
    throw IoError(fmt::format("{}: has {} where bytes are counted", source, show_value(value)));
  }
  return value.get<int64_t>();
}

ManifestFile parse_file(const json& value, const std::string& source) {
  ManifestFile file;
  file.name = value.at("name").get<std::string>();
  if (!is_plain_relative_name(file.name)) {
    throw IoError(fmt::format("{}: names the file {}", source, quote_text(file.name)));
  }
  file.size = parse_bytes(value.at("size"), source);
  for (const json& range : value.at("ranges")) {
    file.ranges.push_back({parse_bytes(range.at("offset"), source),
                           parse_bytes(range.at("length"), source),
                           parse_hexadecimal(range.at("xxh3"), source)});
  }
  return file;
}

json to_value(const Manifest& manifest) {
  json files = json::array();
  for (const ManifestFile& file : manifest.files) {
    json ranges = json::array();
    for (const ManifestRange& range : file.ranges) {
      ranges.push_back(
          {{"offset", range.offset}, {"length", range.length}, {"xxh3", hexadecimal(range.xxh3)}});
    }
    files.push_back({{"name", file.name}, {"size", file.size}, {"ranges", std::move(ranges)}});
  }
  return {{"format", kFormat}, {"files", std::move(files)}};
}

// Returns the checksum of the canonical text (sorted keys, no spaces) of all but the checksum
// itself.
std::string own_checksum(json value) {
  value.erase("checksum");
  const std::string text = value.dump();
  return hexadecimal(checksum(std::as_bytes(std::span(text))));
}

Manifest parse_value(const json& value, const std::string& source) {
  if (value.at("format") != kFormat) {
    throw IoError(fmt::format("{}: is of format {}, this program reads {}", source,
                              show_value(value.at("format")), kFormat));
  }
  if (value.at("checksum") != own_checksum(value)) {
    throw IoError(fmt::format("{}: does not match its own checksum: it was damaged", source));
  }
  Manifest manifest;
  for (const json& file : value.at("files")) manifest.files.push_back(parse_file(file, source));
  return manifest;
}

}  // namespace

bool is_plain_relative_name(std::string_view name) {
  const auto plain = [](char c) {
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
  };
  for (;;) {
    const std::string_view segment = name.substr(0, name.find('/'));
    if (segment.empty() || segment.front() == '.' || segment.size() > 255) return false;
    if (!std::all_of(segment.begin(), segment.end(), plain)) return false;
    if (segment.size() == name.size()) return true;
    name.remove_prefix(segment.size() + 1);
  }
}

uint64_t checksum(std::span<const std::byte> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

ManifestFile& Manifest::file(const std::string& name) {
  const auto found = std::find_if(files.begin(), files.end(),
                                  [&](const ManifestFile& file) { return file.name == name; });
  return found == files.end() ? files.emplace_back(ManifestFile{name, 0, {}}) : *found;
}

void Manifest::add(const Manifest& other) {
  for (const ManifestFile& theirs : other.files) {
    ManifestFile& ours = file(theirs.name);
    ours.size = std::max(ours.size, theirs.size);
    ours.ranges.insert(ours.ranges.end(), theirs.ranges.begin(), theirs.ranges.end());
  }
}

void Manifest::sort() {
  std::sort(files.begin(), files.end(),
            [](const ManifestFile& a, const ManifestFile& b) { return a.name < b.name; });
  for (ManifestFile& file : files) {
    std::sort(file.ranges.begin(), file.ranges.end(),
              [](const ManifestRange& a, const ManifestRange& b) { return a.offset < b.offset; });
  }
}

std::string Manifest::coverage_error() const {
  for (const ManifestFile& file : files) {
    int64_t position = 0;
    for (const ManifestRange& range : file.ranges) {
      if (range.offset != position) {
        return fmt::format("bytes {} to {} of {} were written {}", std::min(position, range.offset),
                           std::max(position, range.offset), file.name,
                           range.offset > position ? "by no rank" : "twice");
      }
      if (range.length > file.size - position) {
        return fmt::format("{} bytes were written at {} into {} of {} bytes", range.length,
                           position, file.name, file.size);
      }
      position += range.length;
    }
    if (position != file.size) {
      return fmt::format("bytes {} to {} of {} were written by no rank", position, file.size,
                         file.name);
    }
  }
  return "";
}

std::string Manifest::to_json() const {
  json value = to_value(*this);
  value["checksum"] = own_checksum(value);
  return value.dump(1) + "\n";
}

Manifest Manifest::parse(std::string_view text, const std::string& source) {
  const json value = parse_json(text, source);
  Manifest manifest;
  try {
    manifest = parse_value(value, source);
  } catch (const json::exception& error) {
    throw IoError(fmt::format("{}: is not a manifest: {:.200}", source, error.what()));
  }
  return manifest;
}

}  // namespace colossal::io
