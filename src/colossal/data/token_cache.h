// A token cache: the tokens of a corpus on disk, written once and memory-mapped by every rank.
//
// DIRECTORY/KEY.tokens is a header of 128 bytes followed by the tokens, little-endian. Both have
// XXH3 checksums. A writer writes KEY.tokens.partial under a file lock, syncs it, and renames it,
// so a file named KEY.tokens is always complete. Other writers of the same file wait for the lock.
// The lock ends with the writer's process; the next writer then starts over.
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

std::filesystem::path cache_path(const std::filesystem::path& directory, const CacheKey& key);

// Tokens in memory or memory-mapped; valid as long as `owner` lives.
struct StoredTokens {
  std::shared_ptr<const void> owner;
  std::span<const std::byte> bytes;
  int width = 0;  // bytes per token: 2 or 4
  TokenCounts counts;
  uint64_t checksum = 0;  // XXH3 of `bytes`
};

// Returns nullopt if the file is missing, has another key or format, or is damaged. Always checks
// the header and the size; checks the content only up to 512 MiB (a fraction of a second).
std::optional<StoredTokens> read_token_cache(const std::filesystem::path& path,
                                             const CacheKey& key);

uint64_t checksum_of(std::span<const std::byte> tokens);

using Checksum = std::unique_ptr<XXH3_state_s, void (*)(XXH3_state_s*)>;

class TokenCacheWriter {
 public:
  // Creates the directory and waits while another process or thread writes the same file. All
  // functions throw IoError naming the file and the reason.
  TokenCacheWriter(const std::filesystem::path& path, const CacheKey& key, int width);
  ~TokenCacheWriter();  // deletes an unfinished file
  TokenCacheWriter(const TokenCacheWriter&) = delete;
  TokenCacheWriter& operator=(const TokenCacheWriter&) = delete;

  void append(std::span<const std::byte> tokens);
  void finish(const TokenCounts& counts);  // syncs and renames the file

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
