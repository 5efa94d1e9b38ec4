#include "colossal/data/token_cache.h"

#include <fmt/ranges.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <type_traits>

#include "colossal/base/error.h"
#include "colossal/io/file.h"
#include "colossal/io/mapped_file.h"

namespace colossal::data {
namespace fs = std::filesystem;
namespace {

static_assert(std::endian::native == std::endian::little, "the cache is read as it lies on disk");

constexpr std::array<char, 8> kMagic = {'C', 'O', 'L', 'T', 'O', 'K', 'E', 'N'};
constexpr uint32_t kVersion = 3;
constexpr int64_t kBufferBytes = int64_t{1} << 20;
// Bytes whose checksum is computed before their pages are released.
constexpr size_t kVerifiedAtOnce = size_t{16} << 20;
// Contents of larger caches are not verified.
constexpr int64_t kLargestVerified = int64_t{512} << 20;

struct Header {
  std::array<char, 8> magic = kMagic;
  uint32_t version = kVersion;
  uint32_t width = 0;
  CacheKey key;
  int64_t tokens = 0;
  int64_t files = 0;
  int64_t skipped_files = 0;
  uint64_t content_checksum = 0;
  int64_t documents = 0;
  int64_t skipped_lines = 0;
  int64_t not_utf8_files = 0;
  std::array<uint64_t, 4> reserved = {};
  uint64_t header_checksum = 0;  // checksum of all fields before it

  uint64_t checksum() const { return XXH3_64bits(this, offsetof(Header, header_checksum)); }
};
static_assert(sizeof(Header) == 128 && std::is_trivially_copyable_v<Header>);

Checksum make_checksum() {
  Checksum checksum(XXH3_createState(), [](XXH3_state_s* state) { XXH3_freeState(state); });
  XXH3_64bits_reset(checksum.get());
  return checksum;
}

// Returns the checksum of the tokens in a mapped cache. Releases the pages after use, which would
// otherwise count as memory of this process.
uint64_t content_checksum(std::span<const std::byte> mapped) {
  const Checksum checksum = make_checksum();
  for (size_t begin = 0; begin < mapped.size(); begin += kVerifiedAtOnce) {
    const auto block = mapped.subspan(begin, std::min(kVerifiedAtOnce, mapped.size() - begin));
    const auto content = begin == 0 ? block.subspan(sizeof(Header)) : block;
    XXH3_64bits_update(checksum.get(), content.data(), content.size());
    ::madvise(const_cast<std::byte*>(block.data()), block.size(), MADV_DONTNEED);
  }
  return XXH3_64bits_digest(checksum.get());
}

void lock(const io::File& file) {
  while (::flock(file.descriptor(), LOCK_EX) != 0) {
    if (errno == EINTR) continue;
    io::raise_io_error(file.path(), "lock (data.cache needs a file system with locks)", errno);
  }
}

// Opens and locks the file, and drops what a killed writer left in it.
io::File open_locked(const fs::path& path) {
  for (;;) {
    io::File file = io::File::open_or_create(path);
    lock(file);
    // The last writer may have renamed or removed the file during the wait for the lock.
    if (!file.is_still_at_path()) continue;
    file.reserve(0);
    return file;
  }
}

fs::path make_folder_of(fs::path path) {
  std::error_code error;
  fs::create_directories(path.parent_path(), error);
  if (error) {
    io::raise_io_error(path.parent_path(), "make the folder for data.cache", error.value());
  }
  return path;
}

}  // namespace

CacheKey make_cache_key(std::span<const SourceFile> files, const text::Tokenizer& tokenizer,
                        const TokenizeOptions& options) {
  std::string facts =
      fmt::format("{}\n{}\n{}\n{} {}\n{}\n", tokenizer.fingerprint(), token_width(tokenizer),
                  options.invalid == InvalidFiles::skip, options.text_field.size(),
                  options.text_field, fmt::join(options.before_document, " "));
  for (const SourceFile& file : files) {
    facts += fmt::format("{} {} {} {} {} {} {}\n", file.path.size(), file.path, file.size,
                         file.modified_time_ns, file.changed_time_ns, static_cast<int>(file.format),
                         static_cast<int>(file.compression));
  }
  const XXH128_hash_t hash = XXH3_128bits(facts.data(), facts.size());
  return {hash.high64, hash.low64};
}

fs::path cache_path(const fs::path& directory, const CacheKey& key) {
  return directory / fmt::format("{:016x}{:016x}.tokens", key.high, key.low);
}

uint64_t checksum_of(std::span<const std::byte> tokens) {
  return XXH3_64bits(tokens.data(), tokens.size());
}

std::optional<StoredTokens> read_token_cache(const fs::path& path, const CacheKey& key) {
  std::error_code error;
  if (!fs::exists(path, error)) return std::nullopt;
  const auto file = std::make_shared<const io::MappedFile>(path);
  const std::span<const std::byte> bytes = file->bytes();
  Header header;
  if (bytes.size() < sizeof(Header)) return std::nullopt;
  std::memcpy(&header, bytes.data(), sizeof(Header));
  if (header.magic != kMagic || header.version != kVersion || !(header.key == key) ||
      header.header_checksum != header.checksum()) {
    return std::nullopt;
  }
  const std::span<const std::byte> content = bytes.subspan(sizeof(Header));
  if (std::ssize(content) != header.tokens * header.width) return std::nullopt;
  if (std::ssize(content) <= kLargestVerified &&
      content_checksum(bytes) != header.content_checksum) {
    return std::nullopt;
  }
  return StoredTokens{file,
                      content,
                      static_cast<int>(header.width),
                      {.tokens = header.tokens,
                       .files = header.files,
                       .documents = header.documents,
                       .skipped_files = header.skipped_files,
                       .skipped_lines = header.skipped_lines,
                       .not_utf8_files = header.not_utf8_files},
                      header.content_checksum};
}

TokenCacheWriter::TokenCacheWriter(const fs::path& path, const CacheKey& key, int width)
    : path_(make_folder_of(path)),
      partial_(open_locked(path.string() + ".partial")),
      key_(key),
      width_(width),
      checksum_(make_checksum()) {}

TokenCacheWriter::~TokenCacheWriter() {
  if (!finished_) ::unlink(partial_.path().c_str());  // removed while it is still locked
}

void TokenCacheWriter::append(std::span<const std::byte> tokens) {
  buffer_.insert(buffer_.end(), tokens.begin(), tokens.end());
  if (std::ssize(buffer_) >= kBufferBytes) flush();
}

void TokenCacheWriter::flush() {
  partial_.write_at(buffer_, sizeof(Header) + written_);
  XXH3_64bits_update(checksum_.get(), buffer_.data(), buffer_.size());
  written_ += std::ssize(buffer_);
  buffer_.clear();
}

void TokenCacheWriter::finish(const TokenCounts& counts) {
  flush();
  COLOSSAL_CHECK(written_ == counts.tokens * width_, "{} bytes, {} tokens of {}", written_,
                 counts.tokens, width_);
  Header header{.width = static_cast<uint32_t>(width_),
                .key = key_,
                .tokens = counts.tokens,
                .files = counts.files,
                .skipped_files = counts.skipped_files,
                .content_checksum = XXH3_64bits_digest(checksum_.get()),
                .documents = counts.documents,
                .skipped_lines = counts.skipped_lines,
                .not_utf8_files = counts.not_utf8_files};
  header.header_checksum = header.checksum();
  partial_.write_at(std::as_bytes(std::span(&header, 1)), 0);
  partial_.sync();
  if (::rename(partial_.path().c_str(), path_.c_str()) != 0) {
    io::raise_io_error(partial_.path(), fmt::format("rename to {}", path_.string()), errno);
  }
  finished_ = true;
  io::sync_directory(path_.parent_path());
}

}  // namespace colossal::data
