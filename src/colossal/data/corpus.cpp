#include "colossal/data/corpus.h"

#include <algorithm>

#include "colossal/base/error.h"
#include "colossal/base/units.h"
#include "colossal/data/source_files.h"

namespace colossal::data {
namespace {

StoredTokens store_in_memory(std::vector<std::byte> bytes, int width, const TokenCounts& counts) {
  const auto owner = std::make_shared<const std::vector<std::byte>>(std::move(bytes));
  return {owner, *owner, width, counts, checksum_of(*owner)};
}

StoredTokens tokenize_to_memory(std::span<const SourceFile> files, const text::Tokenizer& tokenizer,
                                const CorpusOptions& options) {
  std::vector<std::byte> bytes;
  const TokenCounts counts =
      tokenize_files(files, tokenizer, options, [&](std::span<const std::byte> packed) {
        if (options.memory_limit > 0 &&
            std::ssize(bytes) + std::ssize(packed) > options.memory_limit) {
          throw ConfigError(
              fmt::format("{}: its tokens take more than {}, the memory of each rank; set "
                          "data.cache to a folder, so that all ranks share one copy on disk",
                          options.setting, format_bytes(options.memory_limit)));
        }
        bytes.insert(bytes.end(), packed.begin(), packed.end());
      });
  return store_in_memory(std::move(bytes), token_width(tokenizer), counts);
}

struct Opened {
  StoredTokens tokens;
  bool from_cache = false;
};

Opened open_cached(std::span<const SourceFile> files, const text::Tokenizer& tokenizer,
                   const CorpusOptions& options) {
  const CacheKey key = make_cache_key(files, tokenizer, options);
  const std::filesystem::path path = cache_path(options.cache, key);
  if (auto tokens = read_token_cache(path, key)) return {*tokens, true};
  {
    TokenCacheWriter writer(path, key, token_width(tokenizer));
    // Another rank may have written the cache while this one waited for the lock.
    if (auto tokens = read_token_cache(path, key)) return {*tokens, true};
    writer.finish(tokenize_files(files, tokenizer, options, [&](std::span<const std::byte> packed) {
      writer.append(packed);
    }));
  }
  if (auto tokens = read_token_cache(path, key)) return {*tokens, false};
  throw IoError(fmt::format("the token cache '{}' differs from what was written", path.string()));
}

void raise_empty(const StoredTokens& tokens, const CorpusOptions& options) {
  const TokenCounts& counts = tokens.counts;
  const auto count_of = [](int64_t count, const char* what) {
    return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
  };
  std::string found = count_of(counts.files, "empty file");
  if (counts.skipped_files > 0) {
    found += fmt::format(", {} skipped because they are no text in UTF-8", counts.skipped_files);
  }
  if (counts.skipped_lines > 0) {
    found += fmt::format(", {} skipped", count_of(counts.skipped_lines, "line"));
  }
  throw ConfigError(fmt::format("{}: no text in the corpus: {}", options.setting, found));
}

}  // namespace

Corpus::Corpus(StoredTokens tokens, bool from_cache, std::string setting)
    : tokens_(std::move(tokens)), from_cache_(from_cache), setting_(std::move(setting)) {}

Corpus Corpus::open(std::span<const std::string> globs, const text::Tokenizer& tokenizer,
                    const CorpusOptions& options) {
  int64_t unreadable = 0;
  const FormatOptions formats{.format = options.format,
                              .text_field = options.text_field,
                              .skip_unreadable = options.invalid == InvalidFiles::skip};
  const std::vector<SourceFile> files =
      find_source_files(globs, options.setting, formats, &unreadable);
  CorpusOptions reading = options;
  reading.rows.column = options.text_field;
  Opened opened = options.cache.empty()
                      ? Opened{tokenize_to_memory(files, tokenizer, reading), false}
                      : open_cached(files, tokenizer, reading);
  opened.tokens.counts.skipped_files += unreadable;
  if (opened.tokens.counts.tokens == 0) raise_empty(opened.tokens, options);
  return Corpus(std::move(opened.tokens), opened.from_cache, options.setting);
}

Corpus Corpus::from_tokens(std::span<const int32_t> tokens) {
  const std::span<const std::byte> bytes = std::as_bytes(tokens);
  return Corpus(store_in_memory({bytes.begin(), bytes.end()}, sizeof(int32_t),
                                {.tokens = std::ssize(tokens), .files = 1, .documents = 1}),
                false, "tokens");
}

std::string Corpus::fingerprint() const {
  return fmt::format("{:016x}", tokens_.checksum);
}

void Corpus::read(int64_t begin, std::span<int64_t> out) const {
  COLOSSAL_CHECK(begin >= 0 && begin + std::ssize(out) <= num_tokens(), "tokens [{}, {}) of {}",
                 begin, begin + std::ssize(out), num_tokens());
  const auto widen = [&](const auto* tokens) {
    std::copy_n(tokens + begin, out.size(), out.begin());
  };
  if (tokens_.width == 2) {
    widen(reinterpret_cast<const uint16_t*>(tokens_.bytes.data()));
  } else {
    widen(reinterpret_cast<const int32_t*>(tokens_.bytes.data()));
  }
}

}  // namespace colossal::data
