#include "colossal/data/source_files.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <system_error>

#include "colossal/base/error.h"
#include "colossal/base/log.h"
#include "colossal/data/byte_stream.h"
#include "colossal/data/glob.h"
#include "colossal/io/file.h"

namespace colossal::data {
namespace fs = std::filesystem;
namespace {

[[noreturn]] void raise_no_match(const std::string& pattern, const std::string& setting) {
  std::error_code error;
  const fs::path path = fs::absolute(pattern).lexically_normal();
  if (fs::is_directory(path, error)) {
    const std::string folder = pattern.ends_with('/') ? pattern : pattern + '/';
    throw ConfigError(
        fmt::format("{}: '{}' is a folder; give files: '{}*' matches those in it, '{}**' also "
                    "those in subfolders",
                    setting, pattern, folder, folder));
  }
  if (fs::exists(path, error)) {
    throw ConfigError(fmt::format(
        "{}: '{}' is {}; a corpus needs regular files, because ranks read them from any position: "
        "write it to a file first",
        setting, pattern, fs::is_fifo(path, error) ? "a pipe" : "not a regular file"));
  }
  fs::path nearest = path;
  while (!fs::is_directory(nearest, error)) nearest = nearest.parent_path();
  throw ConfigError(fmt::format("{}: no file matches '{}'; the nearest folder that exists is '{}'",
                                setting, pattern, nearest.string()));
}

int64_t nanoseconds(const timespec& time) {
  return time.tv_sec * 1'000'000'000 + time.tv_nsec;
}

SourceFile describe(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) {
    throw IoError(
        fmt::format("cannot read '{}': {}", path, std::generic_category().message(errno)));
  }
  return {.path = path,
          .size = status.st_size,
          .modified_time_ns = nanoseconds(status.st_mtim),
          .changed_time_ns = nanoseconds(status.st_ctim),
          .compression = compression_of(path)};
}

// Returns the first bytes of a file, at most `most`.
std::string read_beginning(const SourceFile& file, int64_t most) {
  std::string bytes(static_cast<size_t>(std::min(file.size, most)), '\0');
  if (bytes.empty()) return bytes;
  io::File::open_for_reading(file.path).read_at(std::as_writable_bytes(std::span(bytes)), 0);
  return bytes;
}

// Returns the first bytes of the text of a file.
std::string read_beginning_of_text(const SourceFile& file, int64_t most) {
  std::string text(static_cast<size_t>(most), '\0');
  text.resize(open_bytes(file)->read(text));
  return text;
}

// Sets the format of a file, whose compression is that of its name. Returns false if the file
// cannot be read.
bool determine_format(SourceFile& file, const std::string& setting, const FormatOptions& options) {
  constexpr int64_t kMagicBytes = 32, kJsonBytes = int64_t{1} << 20;
  file.format = format_of_name(file.path);
  if (file.format == FileFormat::json && options.otherwise == FileFormat::text) {
    file.format = format_of_json(read_beginning_of_text(file, kJsonBytes), options.text_field);
  }
  if (file.format != FileFormat::by_name) return true;
  file.format = options.otherwise;
  if (file.compression != Compression::none) return true;
  const std::optional<Recognized> found = recognize(read_beginning(file, kMagicBytes));
  if (!found) return true;
  if (found->format) file.format = *found->format;
  if (found->compression) file.compression = *found->compression;
  if (found->format || found->compression) {
    log::info("{}: '{}' is {}, and is read as such", setting, file.path, found->what);
    return true;
  }
  if (options.skip_unreadable) return false;
  throw ConfigError(fmt::format(
      "{}: '{}' is {}, which cannot be read as text: convert or unpack it to text in UTF-8, leave "
      "it out, or set data.invalid = \"skip\" to skip such files; data.format = \"text\" takes the "
      "bytes of all files as they are",
      setting, file.path, found->what));
}

// Whether a file that is read as one text begins with a line of JSON that has the field of
// documents.
bool looks_like_lines(const SourceFile& file, const std::string& text_field) {
  constexpr int64_t kLineBytes = int64_t{64} << 10;
  if (!read_beginning_of_text(file, 1).starts_with('{')) return false;
  const std::string beginning = read_beginning_of_text(file, kLineBytes);
  const nlohmann::json first = nlohmann::json::parse(beginning.substr(0, beginning.find('\n')),
                                                     nullptr, /*allow_exceptions=*/false);
  return first.is_object() && first.contains(text_field);
}

void warn_of_lines(const std::string& first, int64_t files, const std::string& setting) {
  log::warn(
      "{}: '{}'{} looks like JSON lines, but is read as one text, because of its name; "
      "data.format = \"jsonl\" reads a document from each line",
      setting, first, files > 1 ? fmt::format(" (and {} other files)", files - 1) : "");
}

}  // namespace

std::vector<SourceFile> find_source_files(std::span<const std::string> patterns,
                                          const std::string& setting, const FormatOptions& options,
                                          int64_t* skipped) {
  if (patterns.empty()) {
    throw ConfigError(fmt::format(
        R"({} is empty: give the files of the corpus, such as ["text/**/*.txt"])", setting));
  }
  std::set<std::string> paths;  // sorted by bytes
  for (const std::string& pattern : patterns) {
    const std::vector<std::string> found = expand_glob(pattern);
    if (found.empty()) raise_no_match(pattern, setting);
    for (const std::string& path : found) {
      paths.insert(fs::absolute(path).lexically_normal().string());
    }
  }
  std::vector<SourceFile> files;
  files.reserve(paths.size());
  std::string first_with_lines;
  int64_t with_lines = 0;
  for (const std::string& path : paths) {
    SourceFile file = describe(path);
    file.format = options.format;
    if (options.format == FileFormat::by_name && !determine_format(file, setting, options)) {
      if (skipped) ++*skipped;
      continue;
    }
    if (options.format == FileFormat::by_name && file.format == FileFormat::text &&
        format_of_name(path) == FileFormat::by_name && looks_like_lines(file, options.text_field)) {
      if (with_lines++ == 0) first_with_lines = path;
    }
    files.push_back(std::move(file));
  }
  if (with_lines > 0) warn_of_lines(first_with_lines, with_lines, setting);
  return files;
}

}  // namespace colossal::data
