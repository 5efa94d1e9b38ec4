// Splits the text of files into pieces that can be tokenized in parallel.
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

// Maximum bytes (after decompression) of a file that must be tokenized as a whole, and of a line of
// a compressed file. It limits memory: each thread holds a whole text and its tokens.
inline constexpr int64_t kLargestWholeText = int64_t{1} << 30;

struct TextPiece {
  int64_t file = 0;         // index of the file
  bool begins_file = true;  // the piece is the first of its file
  // Byte range of the piece in the file on disk. In an uncompressed file of lines, the piece has
  // the lines that begin in this range.
  int64_t begin = 0;
  int64_t end = 0;
  // Only if the file is compressed and is cut into pieces: the text of the piece (in a file of
  // lines: whole lines) and the number of line feeds before it in the file. Otherwise PieceText
  // reads the text from the file.
  std::optional<std::string> content = {};
  int64_t lines_before = 0;
};

// Splits files into pieces, in order. Not thread-safe.
class PieceReader {
 public:
  // is_concatenative: see Tokenizer::is_concatenative(). The files and options must outlive the
  // reader. Throws ConfigError if a file that must be tokenized as a whole is too large.
  PieceReader(std::span<const SourceFile> files, bool is_concatenative,
              const TokenizeOptions& options);

  // Returns the next piece; nullopt at the end. Throws the errors of tokenize_files().
  std::optional<TextPiece> next();

 private:
  // A compressed file that is being cut into pieces.
  struct Stream {
    CompressedFile file;
    std::string rest = {};  // the bytes read after the last whole line
    int64_t lines_before = 0;
    bool begins = true;  // no piece has been returned yet
    bool ended = false;  // the last piece has been returned
  };
  // Whether the file is cut into pieces; otherwise it is one piece.
  bool is_cut(const SourceFile& file) const;
  TextPiece next_of_plain(const SourceFile& file);
  std::optional<TextPiece> next_of_stream(const SourceFile& file);
  std::string read_stream(const SourceFile& file);

  std::span<const SourceFile> files_;
  bool is_concatenative_;
  const TokenizeOptions& options_;
  int64_t file_ = 0;      // index of the file being read
  int64_t position_ = 0;  // where the next piece begins in the file on disk
  std::optional<Stream> stream_;
};

// Holds the text of a piece in memory.
class PieceText {
 public:
  // file: that of the piece. The piece must outlive this object. Throws the errors of
  // tokenize_files().
  PieceText(const TextPiece& piece, const SourceFile& file, const TokenizeOptions& options);

  std::string_view text() const { return text_; }

  // Only for a file of lines. Calls on_line(line, number) for each line of the piece: `line`
  // excludes the line feed, and number() returns the 1-based line number in the file.
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
  std::string_view text_;   // the piece; of an uncompressed file of lines: the whole file
  size_t lines_begin_ = 0;  // the piece has the lines that begin in [lines_begin_, lines_end_)
  size_t lines_end_ = 0;
  int64_t lines_before_ = 0;
};

}  // namespace colossal::data
