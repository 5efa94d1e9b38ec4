// A corpus's tokens on disk: written once, mapped by every rank.
//
// DIRECTORY/KEY.tokens is a header of 128 bytes and the tokens, little-endian. It appears by a
// rename after all of it was synced, so a file of that name is whole. Header and content carry XXH3
// checksums. While it is written it is KEY.tokens.partial, locked by its writer: whoever else wants
// to write it waits; the lock ends with the writer's process, and the next one starts anew.
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

// A hash of 128 bits of all that the tokens depend on.
struct CacheKey {
  uint64_t high = 0;
  uint64_t low = 0;
  bool operator==(const CacheKey&) const = default;
};

// Hashes the tokenizer, each file's path, size and time of modification, and the options that
// decide which files count and what in them is text.
CacheKey make_cache_key(std::span<const SourceFile> files, const text::Tokenizer& tokenizer,
                        const TokenizeOptions& options);

std::filesystem::path cache_path(const std::filesystem::path& directory, const CacheKey& key);

// Tokens in memory or mapped, for as long as `owner` lives.
struct StoredTokens {
  std::shared_ptr<const void> owner;
  std::span<const std::byte> bytes;
  int width = 0;  // bytes a token: 2 or 4
  TokenCounts counts;
  uint64_t checksum = 0;  // XXH3 of the bytes
};

// Returns nothing if the file is missing, of another key or format, or damaged. Header and size are
// always checked, contents up to 512 MiB (a fraction of a second).
std::optional<StoredTokens> read_token_cache(const std::filesystem::path& path,
                                             const CacheKey& key);

uint64_t checksum_of(std::span<const std::byte> tokens);

using Checksum = std::unique_ptr<XXH3_state_s, void (*)(XXH3_state_s*)>;

class TokenCacheWriter {
 public:
  // Makes the directory; waits while another process or thread writes the same file.
  // All functions throw IoError, naming the file and the reason.
  TokenCacheWriter(const std::filesystem::path& path, const CacheKey& key, int width);
  ~TokenCacheWriter();  // removes what is not finished
  TokenCacheWriter(const TokenCacheWriter&) = delete;
  TokenCacheWriter& operator=(const TokenCacheWriter&) = delete;

  void append(std::span<const std::byte> tokens);
  void finish(const TokenCounts& counts);  // syncs and renames

 private:
  void flush();

  std::filesystem::path path_;
  io::File partial_;
  CacheKey key_;
  int width_;
  Checksum checksum_;
  std::vector<std::byte> buffer_;  // small files make small appends
  int64_t written_ = 0;            // bytes of tokens
  bool finished_ = false;
};

}  // namespace colossal::data
