#include "colossal/data/text_pieces.h"

#include <algorithm>

#include "colossal/base/error.h"
#include "colossal/base/units.h"

namespace colossal::data {
namespace {

constexpr int64_t kPieceBytes = int64_t{16} << 20;
// Smaller, because lines take longer to tokenize.
constexpr int64_t kPieceOfLinesBytes = int64_t{4} << 20;

[[noreturn]] void raise_too_large(const std::string& what, int64_t bytes,
                                  const TokenizeOptions& options) {
  throw ConfigError(
      fmt::format("{}: {} has {}; this tokenizer needs {} in one piece, of at most {}: split it",
                  options.setting, what, format_bytes(bytes),
                  what.starts_with("a row") ? "a row" : "a file", format_bytes(kLargestWholeText)));
}

std::string decompress_whole(const SourceFile& file, const TokenizeOptions& options) {
  const std::unique_ptr<ByteStream> compressed = open_bytes(file);
  std::string content;
  size_t length = 0;
  do {
    content.resize(length + kPieceBytes);
    length += compressed->read(std::span(content).subspan(length));
    if (static_cast<int64_t>(length) > kLargestWholeText) {
      raise_too_large(fmt::format("'{}'", file.path), static_cast<int64_t>(length), options);
    }
  } while (length == content.size());
  content.resize(length);
  return content;
}

}  // namespace

PieceReader::PieceReader(std::span<const SourceFile> files, bool is_concatenative,
                         const TokenizeOptions& options)
    : files_(files), is_concatenative_(is_concatenative), options_(options) {
  for (const SourceFile& file : files) {
    if (!is_cut(file) && file.size > kLargestWholeText) {
      raise_too_large(fmt::format("'{}'", file.path), file.size, options);
    }
  }
}

bool PieceReader::is_cut(const SourceFile& file) const {
  return is_concatenative_ || holds_rows(file.format);
}

std::optional<TextPiece> PieceReader::next() {
  while (file_ < std::ssize(files_)) {
    const SourceFile& file = files_[file_];
    const bool streams =
        is_cut(file) && (file.compression != Compression::none || converts_rows(file.format));
    if (!streams) return next_of_plain(file);
    if (auto piece = next_of_stream(file)) return piece;
    stream_.reset();
    position_ = 0;
    ++file_;
  }
  return std::nullopt;
}

TextPiece PieceReader::next_of_plain(const SourceFile& file) {
  const int64_t most = !is_cut(file)             ? file.size
                       : holds_rows(file.format) ? kPieceOfLinesBytes
                                                 : kPieceBytes;
  const int64_t end = std::min(position_ + std::max<int64_t>(most, 1), file.size);
  TextPiece piece{.file = file_, .begins_file = position_ == 0, .begin = position_, .end = end};
  position_ = end;
  if (end == file.size) {
    position_ = 0;
    ++file_;
  }
  return piece;
}

std::optional<TextPiece> PieceReader::next_of_stream(const SourceFile& file) {
  if (!stream_) {
    stream_.emplace(
        Stream{holds_rows(file.format) ? open_rows(file, options_.rows) : open_bytes(file)});
  }
  if (stream_->ended) return std::nullopt;
  TextPiece piece{.file = file_, .begins_file = stream_->begins, .begin = position_};
  piece.lines_before = stream_->lines_before;
  piece.content = read_stream(file);
  stream_->lines_before += std::ranges::count(*piece.content, '\n');
  stream_->begins = false;
  position_ = piece.end =
      stream_->ended ? file.size : std::min(stream_->bytes->bytes_read(), file.size);
  return piece;
}

// Returns the next bytes of the stream; for files of lines, whole lines.
std::string PieceReader::read_stream(const SourceFile& file) {
  const bool lines = holds_rows(file.format);
  const int64_t most = lines ? kPieceOfLinesBytes : kPieceBytes;
  std::string content = std::exchange(stream_->rest, {});
  for (;;) {
    const size_t held = content.size();
    content.resize(held + static_cast<size_t>(most));
    const size_t read = stream_->bytes->read(std::span(content).subspan(held));
    content.resize(held + read);
    stream_->ended = static_cast<int64_t>(read) < most;
    if (!lines || stream_->ended) return content;
    if (const size_t last = content.rfind('\n'); last != std::string::npos) {
      stream_->rest = content.substr(last + 1);
      content.resize(last + 1);
      return content;
    }
    if (std::ssize(content) > kLargestWholeText) {
      raise_too_large(fmt::format("a row of '{}'", file.path), std::ssize(content), options_);
    }
  }
}

PieceText::PieceText(const TextPiece& piece, const SourceFile& file, const TokenizeOptions& options)
    : lines_before_(piece.lines_before) {
  if (piece.content) {
    text_ = *piece.content;
  } else if (file.compression != Compression::none) {
    decompressed_ = decompress_whole(file, options);
    text_ = decompressed_;
  } else if (piece.begin < piece.end) {
    mapped_.emplace(file.path, file.size);
    text_ = {reinterpret_cast<const char*>(mapped_->bytes().data()), mapped_->bytes().size()};
    lines_begin_ = static_cast<size_t>(piece.begin);
    lines_end_ = static_cast<size_t>(piece.end);
    if (!holds_rows(file.format)) {
      text_ = text_.substr(lines_begin_, lines_end_ - lines_begin_);
    }
    return;
  }
  lines_end_ = text_.size();
}

size_t PieceText::first_line() const {
  if (lines_begin_ == 0) return 0;
  const size_t end_of_line_before = text_.find('\n', lines_begin_ - 1);
  return end_of_line_before == std::string_view::npos ? lines_end_ : end_of_line_before + 1;
}

int64_t PieceText::line_number(size_t begin) const {
  return lines_before_ + std::ranges::count(text_.substr(0, begin), '\n') + 1;
}

}  // namespace colossal::data
