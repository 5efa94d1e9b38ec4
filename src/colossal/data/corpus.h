// A corpus: text files as one stream of tokens, memory-mapped from a cache or held in memory.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "colossal/data/token_cache.h"
#include "colossal/data/tokenize.h"
#include "colossal/text/tokenizer.h"

namespace colossal::data {

struct CorpusOptions : TokenizeOptions {
  std::filesystem::path cache;  // cache folder; empty: tokens are held in memory
  int64_t memory_limit = 0;     // limit in bytes on tokens held in memory; 0: no limit
};

// Immutable and thread-safe. Copies of a corpus share its tokens.
class Corpus {
 public:
  // Opens the files that the globs match (see glob.h), sorted by path; their documents are
  // separated by an end-of-text token. With a cache folder, files are tokenized only once, until a
  // file, the tokenizer, or an option that affects the text changes. A cache that
  // read_token_cache() finds damaged is rebuilt. All ranks of a host can call open() at once: one
  // rank tokenizes while the others wait for its cache. Without a cache folder, each caller
  // tokenizes and holds its own copy. Throws ConfigError for globs that match no files, for tokens
  // beyond memory_limit, for a corpus without text, and like tokenize_files(); IoError for files
  // that cannot be read or written.
  static Corpus open(std::span<const std::string> globs, const text::Tokenizer& tokenizer,
                     const CorpusOptions& options = {});

  // Returns a corpus of one file and one document that holds a copy of the tokens in memory.
  static Corpus from_tokens(std::span<const int32_t> tokens);

  int64_t num_tokens() const { return tokens_.counts.tokens; }
  int64_t num_files() const { return tokens_.counts.files; }
  int64_t num_documents() const { return tokens_.counts.documents; }
  int64_t num_skipped_lines() const { return tokens_.counts.skipped_lines; }
  int64_t num_skipped_files() const { return tokens_.counts.skipped_files; }
  bool from_cache() const { return from_cache_; }  // true if open() did not have to tokenize
  // Returns a hash of all tokens, including the end-of-text tokens. The hash was computed when the
  // corpus was tokenized.
  std::string fingerprint() const;
  const std::string& setting() const { return setting_; }  // TokenizeOptions::setting

  // Copies the tokens [begin, begin + out.size()) to `out`; they must lie within the corpus.
  void read(int64_t begin, std::span<int64_t> out) const;

 private:
  Corpus(StoredTokens tokens, bool from_cache, std::string setting);

  StoredTokens tokens_;
  bool from_cache_ = false;
  std::string setting_;  // the config key with the globs, for error messages
};

}  // namespace colossal::data
