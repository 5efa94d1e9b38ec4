// Turns files into one stream of tokens.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "colossal/data/file_format.h"
#include "colossal/data/source_files.h"
#include "colossal/text/tokenizer.h"

namespace colossal::data {

// What to do with a file that is not UTF-8 where the tokenizer needs that, and with a line that is
// no document.
enum class InvalidFiles { error, skip };

inline std::vector<std::pair<std::string, InvalidFiles>> config_names(InvalidFiles) {
  return {{"error", InvalidFiles::error}, {"skip", InvalidFiles::skip}};
}

// Bytes of files as they lie on disk; they count when their tokens have reached the sink.
struct TokenizeProgress {
  int64_t bytes_done = 0;
  int64_t bytes_total = 0;
};

struct TokenizeOptions {
  int num_threads = 1;
  FileFormat format = FileFormat::by_name;
  std::string text_field = "text";  // of a line's object: holds the document
  InvalidFiles invalid = InvalidFiles::error;
  std::string setting = "data.train";                          // named in messages
  std::function<void(const TokenizeProgress&)> progress = {};  // called on the calling thread
};

struct TokenCounts {
  int64_t tokens = 0;
  int64_t files = 0;  // skipped ones not counted
  int64_t documents = 0;
  int64_t skipped_files = 0;
  int64_t skipped_lines = 0;
};

// Bytes that a stored token takes: 2 (uint16) where the vocabulary fits, else 4 (int32).
int token_width(const text::Tokenizer& tokenizer);

// Hands the tokens of the files, in the order given, with an end-of-text token between two
// documents, to `sink` on the calling thread, packed to token_width() bytes each. A document is a
// file, or a line of one that holds_lines(); files are decompressed as their names say. Memory: 4
// pieces a thread, where a piece is a file, or some MiB of one that goes in pieces: one that holds
// lines, and any where the tokenizer takes text in pieces. Throws ConfigError for text that is not
// UTF-8 and lines that are no documents (InvalidFiles::error), and for a file or line too large to
// be taken as a whole; IoError for a file that cannot be read or changes meanwhile.
TokenCounts tokenize_files(std::span<const SourceFile> files, const text::Tokenizer& tokenizer,
                           const TokenizeOptions& options,
                           const std::function<void(std::span<const std::byte>)>& sink);

}  // namespace colossal::data
