// Tokenizes files into one stream of tokens.
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

// What to do with invalid input: a text file that is not UTF-8 if the tokenizer requires UTF-8, or
// a line of a jsonl file from which no document can be read. skip: leave out the file or line.
enum class InvalidFiles { error, skip };

inline std::vector<std::pair<std::string, InvalidFiles>> config_names(InvalidFiles) {
  return {{"error", InvalidFiles::error}, {"skip", InvalidFiles::skip}};
}

// Counts bytes of the files on disk (compressed bytes of compressed files). A piece is done when
// its tokens have been passed to the sink.
struct TokenizeProgress {
  int64_t bytes_done = 0;
  int64_t bytes_total = 0;
};

struct TokenizeOptions {
  int num_threads = 1;
  FileFormat format = FileFormat::by_name;
  std::string text_field = "text";  // the field of a jsonl line that holds the document
  InvalidFiles invalid = InvalidFiles::error;
  std::string setting = "data.train";  // config key of the files, for error messages
  std::function<void(const TokenizeProgress&)> progress = {};  // called on the calling thread
};

struct TokenCounts {
  int64_t tokens = 0;
  int64_t files = 0;  // without skipped files
  int64_t documents = 0;
  int64_t skipped_files = 0;
  int64_t skipped_lines = 0;
};

// Returns the bytes per stored token: 2 (uint16) if the vocabulary has at most 65536 tokens, else 4
// (int32).
int token_width(const text::Tokenizer& tokenizer);

// Tokenizes the files in the given order, with an end-of-text token between documents, and passes
// the tokens, token_width() bytes each, to `sink` on the calling thread. A document is a file, or a
// line if holds_lines(). Files are decompressed according to their names. Holds up to 4 pieces per
// thread in memory. A piece is a whole file, or some MiB of a file if the file holds lines or the
// tokenizer is_concatenative(). Throws ConfigError for invalid input (with InvalidFiles::error),
// and for a file or line beyond kLargestWholeText (text_pieces.h); IoError for a file that cannot
// be read or that changes meanwhile.
TokenCounts tokenize_files(std::span<const SourceFile> files, const text::Tokenizer& tokenizer,
                           const TokenizeOptions& options,
                           const std::function<void(std::span<const std::byte>)>& sink);

}  // namespace colossal::data
