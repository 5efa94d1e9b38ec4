#include "colossal/data/images/image_rows.h"

#include <algorithm>
#include <filesystem>

#include "colossal/base/error.h"
#include "colossal/data/images/class_names.h"
#include "colossal/data/images/fingerprint.h"
#include "colossal/data/images/image_row.h"
#include "colossal/data/images/packed_strings.h"
#include "colossal/data/json_line.h"
#include "colossal/data/row_stream.h"
#include "colossal/io/file.h"

namespace colossal::data {
namespace fs = std::filesystem;
namespace {

constexpr int64_t kLargestKeptRow = int64_t{64} << 10;
constexpr int64_t kLargestRow = int64_t{1} << 30;

// Splits a stream into lines, and counts where they begin.
class LineReader {
 public:
  LineReader(std::unique_ptr<ByteStream> stream, std::string path)
      : stream_(std::move(stream)), path_(std::move(path)) {}

  struct Line {
    std::string_view text;  // valid until the next call
    int64_t offset;         // of its first byte in the stream
  };

  // Returns the next line without its line feed; nullopt at the end.
  std::optional<Line> next() {
    for (;;) {
      const std::string_view rest = std::string_view(buffer_).substr(used_);
      const size_t end = rest.find('\n', searched_);
      if (end != std::string_view::npos) return take(rest.substr(0, end), end + 1);
      if (at_end_) {
        if (rest.empty()) return std::nullopt;
        return take(rest, rest.size());
      }
      searched_ = rest.size();
      refill();
    }
  }

 private:
  static constexpr size_t kReadAtOnce = size_t{1} << 20;

  Line take(std::string_view line, size_t bytes) {
    const Line found{line, offset_};
    used_ += bytes;
    offset_ += static_cast<int64_t>(bytes);
    searched_ = 0;
    return found;
  }

  void refill() {
    buffer_.erase(0, used_);
    used_ = 0;
    if (std::ssize(buffer_) > kLargestRow) {
      throw IoError(fmt::format("'{}' has a row of more than 1 GiB", path_));
    }
    const size_t before = buffer_.size();
    buffer_.resize(before + kReadAtOnce);
    const size_t count = stream_->read(std::span(buffer_).subspan(before));
    buffer_.resize(before + count);
    at_end_ = count < kReadAtOnce;
  }

  std::unique_ptr<ByteStream> stream_;
  std::string path_;
  std::string buffer_;
  size_t used_ = 0;      // bytes of buffer_ that were returned
  size_t searched_ = 0;  // bytes after these without a line feed
  int64_t offset_ = 0;   // of buffer_[used_] in the stream
  bool at_end_ = false;
};

class ImageRows : public ImageSource {
 public:
  ImageRows(std::span<const SourceFile> files, const ImageSourceOptions& options)
      : setting_(options.setting), names_(options.classes) {
    Fingerprint fingerprint;
    for (const SourceFile& file : files) {
      files_.push_back(file.path);
      add_file(file, fingerprint);
    }
    if (rows_.empty()) {
      throw ConfigError(fmt::format("{}: '{}' has no rows with images", setting_, files_.front()));
    }
    rows_.shrink_to_fit();
    kept_.shrink_to_fit();
    classes_ = names_.finish();
    fingerprint_ = fingerprint.digits();
  }

  int64_t size() const override { return std::ssize(rows_); }
  std::optional<int64_t> label(int64_t i) const override { return names_.label(i); }

  ImageSample read(int64_t i) const override {
    const Row& row = rows_[static_cast<size_t>(i)];
    const std::string& file = files_[static_cast<size_t>(row.file)];
    ImageRow fields = read_row(row, file);
    ImageSample sample{.content = std::move(fields.content),
                       .label = label(i),
                       .text = std::move(fields.text),
                       .name = fmt::format("{}, row {} of the images", file, i)};
    if (sample.content.empty()) {
      const fs::path path = image_path(file, fields.path);
      sample.content = io::read_file(path);
      sample.name = path.string();
    }
    return sample;
  }

 private:
  struct Row {
    int64_t place;  // its first byte in the file; if it is held in memory, its index in kept_
    int32_t bytes;  // 0: held in memory
    int32_t file;
  };

  static fs::path image_path(const std::string& file, const std::string& path) {
    return (fs::path(file).parent_path() / path).lexically_normal();
  }

  void add_file(const SourceFile& file, Fingerprint& fingerprint) {
    const bool stays_on_disk = !converts_rows(file.format) && file.compression == Compression::none;
    LineReader lines(open_rows(file), file.path);
    int64_t number = 0;
    while (const auto line = lines.next()) {
      ++number;
      std::string_view text = line->text;
      int64_t offset = line->offset;
      if (offset == 0 && text.starts_with("\xef\xbb\xbf")) {
        text.remove_prefix(3);
        offset += 3;
      }
      if (is_blank(text)) continue;
      const std::string where =
          fmt::format("{}: '{}' {} {}", setting_, file.path, row_name(file.format), number);
      add_row(text, where, file, fingerprint);
      keep_row(text, stays_on_disk ? offset : -1, where);
    }
  }

  // offset: -1: the row is to be held in memory.
  void keep_row(std::string_view text, int64_t offset, const std::string& where) {
    const auto file = static_cast<int32_t>(files_.size() - 1);
    if (offset >= 0) {
      rows_.push_back({offset, static_cast<int32_t>(text.size()), file});
      return;
    }
    if (std::ssize(text) > kLargestKeptRow) {
      throw ConfigError(fmt::format(
          "{}: has more than 64 KiB, and such rows are read from jsonl files that are not "
          "compressed: convert it, or store the images in files or tar shards",
          where));
    }
    rows_.push_back({kept_.size(), 0, file});
    kept_.push_back(text);
  }

  void add_row(std::string_view text, const std::string& where, const SourceFile& file,
               Fingerprint& fingerprint) {
    try {
      const ImageRow row = read_image_row(text);
      refuse_unread_bytes(row, file.format, where);
      names_.add(row.label, where);
      fingerprint.add(text);
      if (row.content.empty()) fingerprint.add(size_of_image(file.path, row.path, where));
    } catch (const InvalidLine& error) {
      throw ConfigError(fmt::format("{}: {}", where, error.what()));
    }
  }

  // Of Arrow files. open_rows() gives null for binary values; where there are none, no member.
  static void refuse_unread_bytes(const ImageRow& row, FileFormat format,
                                  const std::string& where) {
    const bool is_table = format == FileFormat::parquet || format == FileFormat::arrow;
    if (!is_table || !row.has_null_bytes) return;
    throw ConfigError(fmt::format(
        "{}: has the bytes of an image in a binary column, and such columns are read from Parquet "
        "files: write the file as Parquet, or the images to files or to tar shards",
        where));
  }

  static int64_t size_of_image(const std::string& file, const std::string& path,
                               const std::string& where) {
    const fs::path image = image_path(file, path);
    std::error_code error;
    const auto size = fs::file_size(image, error);
    if (error) {
      throw ConfigError(fmt::format(
          "{}: the image '{}' cannot be read ({}); paths are relative to the file with the row",
          where, image.string(), error.message()));
    }
    return static_cast<int64_t>(size);
  }

  ImageRow read_row(const Row& row, const std::string& file) const {
    try {
      if (row.bytes == 0) return read_image_row(kept_[row.place]);
      std::string text(static_cast<size_t>(row.bytes), '\0');
      io::File::open_for_reading(file).read_at(std::as_writable_bytes(std::span(text)), row.place);
      return read_image_row(text);
    } catch (const InvalidLine& error) {
      throw IoError(
          fmt::format("'{}' has changed while it was used: a row {}", file, error.what()));
    }
  }

  std::string setting_;
  std::vector<std::string> files_;
  std::vector<Row> rows_;
  PackedStrings kept_;
  ClassNames names_;
};

}  // namespace

std::unique_ptr<ImageSource> open_image_rows(std::span<const SourceFile> files,
                                             const ImageSourceOptions& options) {
  return std::make_unique<ImageRows>(files, options);
}

}  // namespace colossal::data
