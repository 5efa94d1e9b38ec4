// The text of files in pieces that can be tokenized at once.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "colossal/data/compressed_file.h"
#include "colossal/data/tokenize.h"
#include "colossal/io/mapped_file.h"

namespace colossal::data {

// The largest file, or line of one, that is taken as a whole: each thread holds one with its
// tokens.
inline constexpr int64_t kLargestWholeText = int64_t{1} << 30;

struct TextPiece {
  int64_t file = 0;  // its number
  bool begins_file = true;
  // Bytes of the file as it lies on disk. A piece of lines in a file that is not compressed has the
  // lines that begin among these bytes.
  int64_t begin = 0;
  int64_t end = 0;
  // If the file is compressed: the piece itself (whole lines, in a file of lines) and the number of
  // lines before it. Else the piece is read from the file.
  std::optional<std::string> content = {};
  int64_t lines_before = 0;
};

// Cuts files into pieces, in order. One thread at a time.
class PieceReader {
 public:
  // takes_pieces: whether text may be cut anywhere. The files must outlive the reader.
  PieceReader(std::span<const SourceFile> files, bool takes_pieces, const TokenizeOptions& options);

  // The next piece; none at the end. Throws what tokenize_files() throws.
  std::optional<TextPiece> next();

 private:
  struct Stream {
    CompressedFile file;
    std::string rest = {};  // the beginning of a line whose end has not been read
    int64_t lines_before = 0;
    bool begins = true;
    bool ended = false;
  };
  bool cuts(const SourceFile& file) const;
  TextPiece next_of_plain(const SourceFile& file);
  std::optional<TextPiece> next_of_stream(const SourceFile& file);
  std::string read_stream(const SourceFile& file);

  std::span<const SourceFile> files_;
  bool takes_pieces_;
  const TokenizeOptions& options_;
  int64_t file_ = 0;      // being read
  int64_t position_ = 0;  // in it
  std::optional<Stream> stream_;
};

// A piece's text, held for as long as this lives.
class PieceText {
 public:
  // piece: must outlive this. Throws what tokenize_files() throws.
  PieceText(const TextPiece& piece, const SourceFile& file, const TokenizeOptions& options);

  std::string_view text() const { return text_; }

  // Calls `on_line` with each line that begins in a piece of lines, without the line feed, and with
  // a function that returns its number in the file, from 1.
  template <typename OnLine>  // void(std::string_view line, const auto& number)
  void for_each_line(const OnLine& on_line) const {
    for (size_t begin = first_line(); begin < lines_end_;) {
      const size_t end = std::min(text_.find('\n', begin), text_.size());
      on_line(text_.substr(begin, end - begin), [&] { return line_number(begin); });
      begin = end + 1;
    }
  }

 private:
  size_t first_line() const;
  int64_t line_number(size_t begin) const;

  std::optional<io::MappedFile> mapped_;
  std::string decompressed_;
  std::string_view text_;   // of a piece of lines: beyond it, too
  size_t lines_begin_ = 0;  // lines that begin in [lines_begin_, lines_end_) are the piece's
  size_t lines_end_ = 0;
  int64_t lines_before_ = 0;
};

}  // namespace colossal::data
