// A corpus: the text files of data.train or data.validation as one sequence of tokens,
// memory-mapped from a cache on disk or held in memory.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "colossal/data/token_cache.h"
#include "colossal/data/tokenize.h"
#include "colossal/text/tokenizer/tokenizer.h"

namespace colossal::data {

struct CorpusOptions : TokenizeOptions {
  FileFormat format = FileFormat::by_name;  // of all files; by_name: of each file by itself
  // Folder of token caches (token_cache.h); empty: the tokens are held in memory.
  std::filesystem::path cache;
  // Maximum bytes of tokens held in memory; 0: no limit. Has no effect with a cache folder.
  int64_t memory_limit = 0;
};

// Immutable and thread-safe. Copies of a corpus share its tokens.
class Corpus {
 public:
  // Returns the corpus of the files that the globs match (glob.h). The files are sorted by path; an
  // end-of-text token separates documents.
  //
  // With a cache folder, files are tokenized only if the folder has no valid cache for them. A
  // cache is not valid if it is damaged (read_token_cache(), token_cache.h), or if a file, the
  // tokenizer or an option that affects the text has changed. All ranks of a host may call open()
  // at the same time: one rank tokenizes while the other ranks wait for the cache. Without a cache
  // folder, each call tokenizes the files and holds its own copy of the tokens.
  //
  // Throws ConfigError if a glob matches no files, if the tokens need more than memory_limit, or if
  // the corpus has no text; IoError if a file cannot be read or written; also what tokenize_files()
  // throws.
  static Corpus open(std::span<const std::string> globs, const text::Tokenizer& tokenizer,
                     const CorpusOptions& options = {});

  // Returns a corpus with one file and one document, which holds a copy of the tokens in memory.
  static Corpus from_tokens(std::span<const int32_t> tokens);

  // Tokens include the end-of-text tokens between documents; files do not include skipped files.
  // With InvalidFiles::skip (TokenizeOptions::invalid), files that are not texts and rows without a
  // document are skipped; otherwise none are.
  int64_t num_tokens() const { return tokens_.counts.tokens; }
  int64_t num_files() const { return tokens_.counts.files; }
  int64_t num_documents() const { return tokens_.counts.documents; }
  // Number of text files that are not UTF-8 and were tokenized all the same. not_utf8_file(): the
  // name of the first of them; empty if from_cache() is true.
  int64_t num_not_utf8_files() const { return tokens_.counts.not_utf8_files; }
  const std::string& not_utf8_file() const { return tokens_.counts.not_utf8_file; }
  int64_t num_skipped_lines() const { return tokens_.counts.skipped_lines; }
  int64_t num_skipped_files() const { return tokens_.counts.skipped_files; }
  // Whether the tokens come from an existing cache, so that open() did not tokenize.
  bool from_cache() const { return from_cache_; }
  // Returns a hash of all tokens, end-of-text tokens included, as hexadecimal digits. It was
  // computed when the corpus was tokenized, so calling this costs nothing.
  std::string fingerprint() const;
  // Returns the configuration key that names the files (TokenizeOptions::setting), for messages;
  // "tokens" for from_tokens().
  const std::string& setting() const { return setting_; }

  // Copies the tokens [begin, begin + out.size()) to `out`. Throws InternalError if the range is
  // not within the corpus.
  void read(int64_t begin, std::span<int64_t> out) const;

 private:
  Corpus(StoredTokens tokens, bool from_cache, std::string setting);

  StoredTokens tokens_;
  bool from_cache_ = false;
  std::string setting_;
};

}  // namespace colossal::data
