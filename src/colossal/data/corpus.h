// A corpus: text files as one stream of tokens, mapped from a cache or held in memory.
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
  std::filesystem::path cache;  // folder; empty: the tokens stay in memory
  int64_t most_memory = 0;      // bytes that they may take there; 0: no limit
};

// Immutable; a copy is a handle to the same tokens. May be read from several threads.
class Corpus {
 public:
  // Opens the files that the globs match (see glob.h), sorted by path, with their documents joined
  // by an end-of-text token. With a cache folder, files are tokenized once, until a file, the
  // tokenizer, or an option that decides what is text changes. A damaged cache is written again.
  // All ranks of a host simply call this: one tokenizes, the others wait for its cache. Without a
  // cache folder each caller holds tokens of its own. Throws ConfigError for globs without files,
  // text that is not UTF-8 where the tokenizer needs it, a corpus without text, and one that memory
  // does not hold; IoError for what cannot be read or written.
  static Corpus open(std::span<const std::string> globs, const text::Tokenizer& tokenizer,
                     const CorpusOptions& options = {});

  static Corpus from_tokens(std::span<const int32_t> tokens);

  int64_t num_tokens() const { return tokens_.counts.tokens; }
  int64_t num_files() const { return tokens_.counts.files; }
  int64_t num_documents() const { return tokens_.counts.documents; }
  int64_t num_skipped_lines() const { return tokens_.counts.skipped_lines; }
  int64_t num_skipped_files() const { return tokens_.counts.skipped_files; }
  bool from_cache() const { return from_cache_; }  // nothing had to be tokenized
  // Returns a hash of all tokens in their order, which include the ends of documents. It is made
  // once, by whoever tokenizes, and kept in the cache.
  std::string fingerprint() const;
  const std::string& setting() const { return setting_; }

  // out <- tokens [begin, begin + out.size()), which must lie within the corpus.
  void read(int64_t begin, std::span<int64_t> out) const;

 private:
  Corpus(StoredTokens tokens, bool from_cache, std::string setting);

  StoredTokens tokens_;
  bool from_cache_ = false;
  std::string setting_;  // the key that named the files, for messages
};

}  // namespace colossal::data
