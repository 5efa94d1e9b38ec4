// Token caches: files with the tokens of a corpus, written once and memory-mapped by every rank.
// Used by Corpus::open() (corpus.h).
//
// The file DIRECTORY/KEY.tokens has a header of 128 bytes, followed by the tokens, little-endian.
// The header and the tokens each have an XXH3 checksum. A writer holds a file lock on
// KEY.tokens.partial, writes this file, syncs it to disk, and renames it to KEY.tokens. A file
// named KEY.tokens is therefore always complete. A second writer of the same file waits for the
// lock. If the process of a writer is killed, the lock is released, and the next writer starts from
// the beginning.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "colossal/data/tokenize.h"
#include "colossal/io/file.h"

struct XXH3_state_s;

namespace colossal::data {

// A 128-bit hash of everything on which the tokens of a corpus depend.
struct CacheKey {
  uint64_t high = 0;
  uint64_t low = 0;
  bool operator==(const CacheKey&) const = default;
};

// Returns the key of a corpus: a hash of the tokenizer's fingerprint, of the path, size, format and
// times of each file, and of the options that affect which text is read. Besides the modification
// time, which tools such as rsync set, the time of the last change counts (SourceFile).
CacheKey make_cache_key(std::span<const SourceFile> files, const text::Tokenizer& tokenizer,
                        const TokenizeOptions& options);

// Returns the path of the cache file, directory/KEY.tokens, with the key as 32 hexadecimal digits.
std::filesystem::path cache_path(const std::filesystem::path& directory, const CacheKey& key);

// The tokens of a corpus, in memory or memory-mapped.
struct StoredTokens {
  std::shared_ptr<const void> owner;  // owns the memory of `bytes`
  std::span<const std::byte> bytes;   // the tokens, little-endian
  int width = 0;                      // bytes per token: 2 (uint16) or 4 (int32)
  TokenCounts counts;
  uint64_t checksum = 0;  // XXH3 of `bytes`
};

// Memory-maps a cache file and returns its tokens; nullopt if the file is missing, has a different
// key or format, or is damaged. Always verifies the header and the size of the file. Verifies the
// checksum of the tokens only if they have at most 512 MiB, which takes a fraction of a second.
// Throws IoError if the file cannot be mapped.
std::optional<StoredTokens> read_token_cache(const std::filesystem::path& path,
                                             const CacheKey& key);

// Returns the XXH3 checksum (64 bits) of the bytes, for StoredTokens::checksum.
uint64_t checksum_of(std::span<const std::byte> tokens);

// The state of an XXH3 checksum that is computed piece by piece.
using Checksum = std::unique_ptr<XXH3_state_s, void (*)(XXH3_state_s*)>;

// Writes one cache file. Not thread-safe. All functions throw IoError, which names the file and the
// reason, if they fail.
class TokenCacheWriter {
 public:
  // Creates the folder of `path` if it is missing, and locks the partial file. Waits while another
  // process or thread writes the same cache file. That writer may have completed the file, so call
  // read_token_cache() again before writing. path: result of cache_path(). width: bytes per token.
  TokenCacheWriter(const std::filesystem::path& path, const CacheKey& key, int width);
  ~TokenCacheWriter();  // deletes the partial file unless finish() was called
  TokenCacheWriter(const TokenCacheWriter&) = delete;
  TokenCacheWriter& operator=(const TokenCacheWriter&) = delete;

  // Appends tokens of `width` bytes each, little-endian.
  void append(std::span<const std::byte> tokens);
  // Writes the header, syncs the file to disk, and renames it to `path`. Call it once, at the end.
  // counts: of all appended tokens; throws InternalError if counts.tokens is not their number.
  void finish(const TokenCounts& counts);

 private:
  void flush();  // writes buffer_ to the partial file

  std::filesystem::path path_;
  io::File partial_;
  CacheKey key_;
  int width_;
  Checksum checksum_;
  std::vector<std::byte> buffer_;  // collects small appends
  int64_t written_ = 0;            // bytes of tokens in the partial file
  bool finished_ = false;
};

}  // namespace colossal::data
