// Tokenizes the files of a corpus into one sequence of tokens, on several threads. Used by
// Corpus::open() (corpus.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "colossal/data/row_stream.h"
#include "colossal/data/source_files.h"
#include "colossal/text/tokenizer/tokenizer.h"

namespace colossal::data {

// What to do with invalid input (data.invalid). Invalid are a file that cannot be read as text
// (FormatOptions::skip_unreadable), a text file that is not UTF-8, if the tokenizer requires UTF-8,
// and a row from which no document can be read.
enum class InvalidFiles {
  error,  // throws ConfigError
  skip    // leaves out the file or the row, and counts it
};

// Returns the names of the values in configuration files.
inline std::vector<std::pair<std::string, InvalidFiles>> config_names(InvalidFiles) {
  return {{"error", InvalidFiles::error}, {"skip", InvalidFiles::skip}};
}

// Progress of tokenize_files(), in bytes of the files on disk (of compressed files: compressed
// bytes).
struct TokenizeProgress {
  int64_t bytes_done = 0;   // bytes whose tokens have been passed to the argument `sink`
  int64_t bytes_total = 0;  // bytes of all files
};

struct TokenizeOptions {
  int num_threads = 1;
  std::string text_field = "text";  // in a row: the field with the document
  RowOptions rows = {};             // how the rows of files are read
  // Tokens before each document that is not empty, such as a beginning-of-text token.
  std::vector<int32_t> before_document = {};
  InvalidFiles invalid = InvalidFiles::error;
  std::string setting = "data.train";  // configuration key of the files, for messages
  // Called after each piece of a file (some MiB), on the thread that called tokenize_files(); may
  // be empty.
  std::function<void(const TokenizeProgress&)> progress = {};
};

struct TokenCounts {
  int64_t tokens = 0;  // end-of-text tokens between documents included
  int64_t files = 0;   // without skipped files
  int64_t documents = 0;
  int64_t skipped_files = 0;
  int64_t skipped_lines = 0;
  // Number of text files that are not UTF-8, whose bytes are tokenized as they are by a tokenizer
  // that allows it; the name of the first of them, if it was tokenized by this call.
  int64_t not_utf8_files = 0;
  std::string not_utf8_file = {};
};

// Returns the bytes in which a token is stored: 2 (uint16) if the vocabulary has at most 65536
// tokens, else 4 (int32).
int token_width(const text::Tokenizer& tokenizer);

// Tokenizes the files, in the given order, with an end-of-text token between documents that are not
// empty, and returns counts. Passes the tokens to `sink`, piece by piece and in order, as
// token_width() bytes each, little-endian. `sink` is called on the calling thread. A document is a
// text file, or a row of a file with rows (holds_rows(), file_format.h); blank lines are ignored.
//
// Holds up to 4 pieces per thread in memory. A piece is some MiB of a file, or a whole file if a
// text file must be tokenized as a whole (text_pieces.h).
//
// Throws ConfigError for invalid input, with InvalidFiles::error. Throws ConfigError if a file that
// must be tokenized as a whole, or a row of a file that is not plain jsonl, has more than
// kLargestWholeText bytes (text_pieces.h). Throws IoError if a file cannot be read, is damaged, or
// has changed since find_source_files().
TokenCounts tokenize_files(std::span<const SourceFile> files, const text::Tokenizer& tokenizer,
                           const TokenizeOptions& options,
                           const std::function<void(std::span<const std::byte>)>& sink);

}  // namespace colossal::data
