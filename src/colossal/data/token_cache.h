// A token cache: the tokens of a corpus on disk, written once and memory-mapped by every rank.
//
// DIRECTORY/KEY.tokens is a header of 128 bytes followed by the tokens, little-endian. The header
// and the tokens each have an XXH3 checksum. A writer writes KEY.tokens.partial under a file lock,
// syncs it to disk, and renames it, so a file named KEY.tokens is always complete. Another writer
// for the same key waits for the lock. If the writer's process is killed, the lock is released, and
// the next writer starts over.
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

// A 128-bit hash of everything that the tokens depend on.
struct CacheKey {
  uint64_t high = 0;
  uint64_t low = 0;
  bool operator==(const CacheKey&) const = default;
};

// Hashes the tokenizer's fingerprint, each file's path, size and modification time, and the options
// that affect which text is read.
CacheKey make_cache_key(std::span<const SourceFile> files, const text::Tokenizer& tokenizer,
                        const TokenizeOptions& options);

// Returns DIRECTORY/KEY.tokens, with the key as 32 hexadecimal digits.
std::filesystem::path cache_path(const std::filesystem::path& directory, const CacheKey& key);

// Tokens in memory or memory-mapped.
struct StoredTokens {
  std::shared_ptr<const void> owner;  // keeps `bytes` valid
  std::span<const std::byte> bytes;   // little-endian
  int width = 0;                      // bytes per token: 2 or 4
  TokenCounts counts;
  uint64_t checksum = 0;  // XXH3 of `bytes`
};

// Memory-maps a cache file. Returns nullopt if it is missing, has another key or format, or is
// damaged. Always checks the header and the size; checks the tokens only if they have at most 512
// MiB (a fraction of a second). Throws IoError if the file cannot be mapped.
std::optional<StoredTokens> read_token_cache(const std::filesystem::path& path,
                                             const CacheKey& key);

// Returns the XXH3 of the bytes, for StoredTokens::checksum.
uint64_t checksum_of(std::span<const std::byte> tokens);

// A running XXH3.
using Checksum = std::unique_ptr<XXH3_state_s, void (*)(XXH3_state_s*)>;

// Writes one cache file. Not thread-safe. All functions throw IoError naming the file and the
// reason.
class TokenCacheWriter {
 public:
  // Creates the folder of `path` if missing, and waits while another process or thread writes the
  // file. That writer may have completed it: call read_token_cache() again before writing. width:
  // bytes per token.
  TokenCacheWriter(const std::filesystem::path& path, const CacheKey& key, int width);
  ~TokenCacheWriter();  // deletes the partial file unless finish() was called
  TokenCacheWriter(const TokenCacheWriter&) = delete;
  TokenCacheWriter& operator=(const TokenCacheWriter&) = delete;

  void append(std::span<const std::byte> tokens);
  // Writes the header, syncs the file to disk and renames it. counts: of all appended tokens.
  void finish(const TokenCounts& counts);

 private:
  void flush();

  std::filesystem::path path_;
  io::File partial_;
  CacheKey key_;
  int width_;
  Checksum checksum_;
  std::vector<std::byte> buffer_;  // collects small appends
  int64_t written_ = 0;            // bytes of tokens
  bool finished_ = false;
};

}  // namespace colossal::data
