#include "colossal/data/tokenize.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>
#include <vector>

#include "colossal/base/error.h"
#include "colossal/base/units.h"
#include "colossal/data/parallel_in_order.h"
#include "colossal/io/mapped_file.h"

namespace colossal::data {
namespace {

constexpr int64_t kPieceBytes = int64_t{16} << 20;
// Held in memory with its tokens, once a thread.
constexpr int64_t kLargestWholeFile = int64_t{1} << 30;

// Bytes [begin, end) of a file.
struct Piece {
  int64_t file = 0;
  int64_t begin = 0;
  int64_t end = 0;
};

struct EncodedPiece {
  std::vector<std::byte> tokens;
  bool skipped = false;
};

std::vector<Piece> cut(std::span<const SourceFile> files, const text::Tokenizer& tokenizer,
                       const TokenizeOptions& options) {
  std::vector<Piece> pieces;
  for (int64_t file = 0; file < std::ssize(files); ++file) {
    const int64_t size = files[file].size;
    const int64_t piece_size = tokenizer.takes_pieces() ? kPieceBytes : std::max<int64_t>(size, 1);
    if (std::min(size, piece_size) > kLargestWholeFile) {
      throw ConfigError(fmt::format(
          "{}: '{}' has {}; this tokenizer takes a file as a whole, at most {}: split it",
          options.setting, files[file].path, format_bytes(size), format_bytes(kLargestWholeFile)));
    }
    int64_t begin = 0;
    do {
      pieces.push_back({file, begin, std::min(begin + piece_size, size)});
      begin += piece_size;
    } while (begin < size);
  }
  return pieces;
}

template <typename Stored>
void pack_as(std::span<const int32_t> tokens, std::vector<std::byte>& packed) {
  packed.resize(tokens.size() * sizeof(Stored));
  std::ranges::transform(tokens, reinterpret_cast<Stored*>(packed.data()),
                         [](int32_t token) { return static_cast<Stored>(token); });
}

std::vector<std::byte> pack(std::span<const int32_t> tokens, const text::Tokenizer& tokenizer) {
  for (const int32_t token : tokens) {
    COLOSSAL_CHECK(token >= 0 && token < tokenizer.vocabulary_size(), "token {} vocabulary {}",
                   token, tokenizer.vocabulary_size());
  }
  std::vector<std::byte> packed;
  token_width(tokenizer) == 2 ? pack_as<uint16_t>(tokens, packed)
                              : pack_as<int32_t>(tokens, packed);
  return packed;
}

EncodedPiece encode(const SourceFile& file, const Piece& piece, const text::Tokenizer& tokenizer,
                    const TokenizeOptions& options) {
  if (piece.begin == piece.end) return {};
  const io::MappedFile mapped(file.path, file.size);
  const std::string_view text(reinterpret_cast<const char*>(mapped.bytes().data()) + piece.begin,
                              piece.end - piece.begin);
  try {
    return {pack(tokenizer.encode(text), tokenizer), false};
  } catch (const text::InvalidText& invalid) {
    if (options.invalid == InvalidFiles::skip) return {{}, true};
    throw ConfigError(fmt::format(
        "{}: '{}' is not UTF-8 (byte {}), which this tokenizer needs: convert the file, leave it "
        "out, or set data.invalid = \"skip\" to skip such files",
        options.setting, file.path, piece.begin + invalid.offset));
  }
}

}  // namespace

int token_width(const text::Tokenizer& tokenizer) {
  return tokenizer.vocabulary_size() <= std::numeric_limits<uint16_t>::max() + 1 ? 2 : 4;
}

TokenCounts tokenize_files(std::span<const SourceFile> files, const text::Tokenizer& tokenizer,
                           const TokenizeOptions& options,
                           const std::function<void(std::span<const std::byte>)>& sink) {
  const std::vector<Piece> pieces = cut(files, tokenizer, options);
  const int32_t end_of_text = tokenizer.end_of_text();
  const std::vector<std::byte> separator = pack({&end_of_text, 1}, tokenizer);
  TokenizeProgress progress;
  for (const SourceFile& file : files) progress.bytes_total += file.size;

  TokenCounts counts;
  const auto emit = [&](std::span<const std::byte> packed) {
    sink(packed);
    counts.tokens += std::ssize(packed) / token_width(tokenizer);
  };
  parallel_in_order<EncodedPiece>(
      std::ssize(pieces), std::max(options.num_threads, 1),
      [&](int64_t i) { return encode(files[pieces[i].file], pieces[i], tokenizer, options); },
      [&](int64_t i, EncodedPiece encoded) {
        const Piece& piece = pieces[i];
        if (encoded.skipped) {
          ++counts.skipped_files;
        } else {
          if (piece.begin == 0 && counts.files++ > 0) emit(separator);
          emit(encoded.tokens);
        }
        progress.bytes_done += piece.end - piece.begin;
        if (options.progress) options.progress(progress);
      });
  return counts;
}

}  // namespace colossal::data
