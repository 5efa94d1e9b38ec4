// Splits the text of corpus files into pieces of some MiB, which can be tokenized in parallel.
// PieceReader finds the pieces of all files, in order; PieceText holds the text of one piece in
// memory. Used by tokenize_files() and by read_samples() (tune/samples/samples.h).
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "colossal/data/byte_stream.h"
#include "colossal/data/tokenize.h"
#include "colossal/io/mapped_file.h"

namespace colossal::data {

// Maximum number of bytes, after decompression, of a file that must be tokenized as a whole, and of
// a row of a file that is not plain jsonl. The limit bounds memory, because each thread holds a
// whole text and its tokens.
inline constexpr int64_t kLargestWholeText = int64_t{1} << 30;

// A part of a file, or a whole file.
struct TextPiece {
  int64_t file = 0;         // index of the file in PieceReader's `files`
  bool begins_file = true;  // whether the piece is the first of its file
  // A range of bytes [begin, end) of the file on disk. In an uncompressed jsonl file, the piece
  // consists of the lines that begin in this range. In an uncompressed text, it is the range
  // itself, which may begin or end within a character. In any other file, the range has the bytes
  // that were read for the piece, and serves only to show progress.
  int64_t begin = 0;
  int64_t end = 0;
  // `content` and `lines_before` are set only if the file is split into pieces and is compressed or
  // has rows of another format than jsonl. Otherwise PieceText reads the text from the file.
  std::optional<std::string> content = {};  // the decompressed text; of rows: whole JSON lines
  int64_t lines_before = 0;                 // number of lines before the piece in the file
};

// Returns the pieces of all files, one after the other. A file is split into pieces if it has rows
// (holds_rows(), file_format.h), or if the tokenizer can encode a text in pieces; otherwise the
// whole file is one piece. Rows of all formats become JSON lines (row_stream.h). Not thread-safe.
class PieceReader {
 public:
  // is_concatenative: Tokenizer::is_concatenative(), i.e. whether a text can be encoded in pieces.
  // `files` and `options` must outlive this object. Throws ConfigError if a file that must be
  // tokenized as a whole has more than kLargestWholeText bytes on disk.
  PieceReader(std::span<const SourceFile> files, bool is_concatenative,
              const TokenizeOptions& options);

  // Returns the next piece; nullopt after the last piece. Reads only the files of which it sets
  // TextPiece::content. For these, throws ConfigError if a row is longer than kLargestWholeText,
  // and what open_rows() throws.
  std::optional<TextPiece> next();

 private:
  // The state of a file of which pieces have `content`.
  struct Stream {
    std::unique_ptr<ByteStream> bytes;
    std::string rest = {};     // of a file with rows: bytes after the last whole line
    int64_t lines_before = 0;  // number of line feeds in all pieces so far
    bool begins = true;        // no piece has been returned yet
    bool ended = false;        // the last piece has been returned
  };
  // Whether the file is split into pieces; otherwise it is one piece.
  bool is_cut(const SourceFile& file) const;
  // Return the next piece of a file: next_of_stream() with `content` (nullopt after its last
  // piece), next_of_plain() without.
  TextPiece next_of_plain(const SourceFile& file);
  std::optional<TextPiece> next_of_stream(const SourceFile& file);
  std::string read_stream(const SourceFile& file);  // returns the text of the next piece

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
  // Reads the text of a piece. file: the file of the piece. The piece must outlive this object.
  // Throws ConfigError if a compressed file that must be tokenized as a whole has more than
  // kLargestWholeText bytes; IoError if the file cannot be read, has changed or is damaged.
  PieceText(const TextPiece& piece, const SourceFile& file, const TokenizeOptions& options);

  // Returns the text of the piece. (Of an uncompressed jsonl file: the whole file; use
  // for_each_line().)
  std::string_view text() const { return text_; }

  // For files with rows: calls on_line(line, number) for each line of the piece, in order. line:
  // without the line feed. number(): returns the number of the line or row, from 1. It counts
  // the line feeds before the line, so call it only for messages.
  template <typename OnLine>  // void(std::string_view line, const auto& number)
  void for_each_line(const OnLine& on_line) const {
    for (size_t begin = first_line(); begin < lines_end_;) {
      const size_t end = std::min(text_.find('\n', begin), text_.size());
      on_line(text_.substr(begin, end - begin), [&] { return line_number(begin); });
      begin = end + 1;
    }
  }

 private:
  size_t first_line() const;                // offset in text_ of the piece's first line
  int64_t line_number(size_t begin) const;  // of the line that begins at this offset in text_

  std::optional<io::MappedFile> mapped_;  // for uncompressed files
  std::string decompressed_;              // for compressed files that are one piece
  std::string_view text_;                 // see text()
  size_t lines_begin_ = 0;  // the piece has the lines that begin in [lines_begin_, lines_end_)
  size_t lines_end_ = 0;
  int64_t lines_before_ = 0;  // TextPiece::lines_before
};

}  // namespace colossal::data
