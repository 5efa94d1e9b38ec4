#include "colossal/data/tokenize.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "colossal/base/error.h"
#include "colossal/data/json_line.h"
#include "colossal/data/parallel_in_order.h"
#include "colossal/data/text_pieces.h"
#include "colossal/text/utf8.h"

namespace colossal::data {
namespace {

struct EncodedPiece {
  std::vector<std::byte> tokens;
  int64_t documents = 0;  // number of documents that begin in the piece
  bool skipped = false;   // whether the file is skipped
  bool is_utf8 = true;
  int64_t skipped_lines = 0;
};

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

// Whether a piece of a text is UTF-8, apart from characters that its borders cut: at its beginning,
// unless it begins its file, and at its end, unless it ends its file.
bool is_utf8(std::string_view text, const TextPiece& piece, const SourceFile& file) {
  constexpr size_t kMostCut = 3;
  size_t cut = 0;
  while (!piece.begins_file && cut < std::min(kMostCut, text.size()) &&
         (static_cast<unsigned char>(text[cut]) & 0xc0) == 0x80) {
    ++cut;
  }
  text.remove_prefix(cut);
  const std::string_view rest = text.substr(text::valid_utf8_length(text));
  return rest.empty() || (piece.end < file.size &&
                          text::read_utf8_prefix(rest).kind == text::Utf8Prefix::Kind::incomplete);
}

// Turns pieces of files into tokens; called from several threads.
class PieceEncoder {
 public:
  PieceEncoder(const text::Tokenizer& tokenizer, const TokenizeOptions& options)
      : tokenizer_(tokenizer), options_(options) {}

  EncodedPiece encode(const TextPiece& piece, const SourceFile& file) const {
    const PieceText text(piece, file, options_);
    return holds_rows(file.format) ? encode_lines(text, file)
                                   : encode_text(text.text(), piece, file);
  }

 private:
  EncodedPiece encode_text(std::string_view text, const TextPiece& piece,
                           const SourceFile& file) const {
    try {
      std::vector<int32_t> tokens = tokenizer_.encode(text);
      if (piece.begins_file) begin_document(tokens);
      return {.tokens = pack(tokens, tokenizer_),
              .documents = piece.begins_file ? 1 : 0,
              .is_utf8 = !tokenizer_.is_concatenative() || is_utf8(text, piece, file)};
    } catch (const text::InvalidText& invalid) {
      if (options_.invalid == InvalidFiles::skip) return {.skipped = true};
      throw ConfigError(fmt::format(
          "{}: '{}' is not UTF-8 (byte {}), which this tokenizer needs: convert the file, leave it "
          "out, or set data.invalid = \"skip\" to skip such files",
          options_.setting, file.path, invalid.offset));
    }
  }

  EncodedPiece encode_lines(const PieceText& text, const SourceFile& file) const {
    EncodedPiece encoded;
    std::vector<int32_t> tokens;
    text.for_each_line([&](std::string_view line, const auto& number) {
      if (is_blank(line)) return;
      try {
        const std::string document = read_text_field(line, options_.text_field);
        ++encoded.documents;
        std::vector<int32_t> of_document = tokenizer_.encode(document);
        begin_document(of_document);
        if (!tokens.empty() && !of_document.empty()) tokens.push_back(tokenizer_.end_of_text());
        tokens.insert(tokens.end(), of_document.begin(), of_document.end());
      } catch (const InvalidLine& invalid) {
        if (options_.invalid == InvalidFiles::error) raise_invalid(invalid, file, number());
        ++encoded.skipped_lines;
      }
    });
    encoded.tokens = pack(tokens, tokenizer_);
    return encoded;
  }

  void begin_document(std::vector<int32_t>& tokens) const {
    const std::vector<int32_t>& before = options_.before_document;
    if (!tokens.empty()) tokens.insert(tokens.begin(), before.begin(), before.end());
  }

  [[noreturn]] void raise_invalid(const InvalidLine& invalid, const SourceFile& file,
                                  int64_t line) const {
    throw ConfigError(
        fmt::format("{}: {} {} of '{}' {}, or set data.invalid = \"skip\" to skip such lines",
                    options_.setting, row_name(file.format), line, file.path, invalid.what()));
  }

  const text::Tokenizer& tokenizer_;
  const TokenizeOptions& options_;
};

}  // namespace

int token_width(const text::Tokenizer& tokenizer) {
  return tokenizer.vocabulary_size() <= std::numeric_limits<uint16_t>::max() + 1 ? 2 : 4;
}

TokenCounts tokenize_files(std::span<const SourceFile> files, const text::Tokenizer& tokenizer,
                           const TokenizeOptions& options,
                           const std::function<void(std::span<const std::byte>)>& sink) {
  PieceReader reader(files, tokenizer.is_concatenative(), options);
  const PieceEncoder encoder(tokenizer, options);
  const int32_t end_of_text = tokenizer.end_of_text();
  const std::vector<std::byte> separator = pack({&end_of_text, 1}, tokenizer);
  TokenizeProgress progress;
  for (const SourceFile& file : files) progress.bytes_total += file.size;

  TokenCounts counts;
  int64_t last_not_utf8 = -1;  // index of a file
  const auto emit = [&](std::span<const std::byte> packed) {
    sink(packed);
    counts.tokens += std::ssize(packed) / token_width(tokenizer);
  };
  parallel_in_order<TextPiece, EncodedPiece>(
      [&] { return reader.next(); }, std::max(options.num_threads, 1),
      [&](const TextPiece& piece) { return encoder.encode(piece, files[piece.file]); },
      [&](const TextPiece& piece, const EncodedPiece& encoded) {
        if (encoded.documents > 0 && counts.tokens > 0 && !encoded.tokens.empty()) emit(separator);
        emit(encoded.tokens);
        counts.documents += encoded.documents;
        counts.skipped_lines += encoded.skipped_lines;
        if (piece.begins_file) ++(encoded.skipped ? counts.skipped_files : counts.files);
        if (!encoded.is_utf8 && last_not_utf8 != piece.file) {
          if (counts.not_utf8_files++ == 0) counts.not_utf8_file = files[piece.file].path;
          last_not_utf8 = piece.file;
        }
        progress.bytes_done += piece.end - piece.begin;
        if (options.progress) options.progress(progress);
      });
  return counts;
}

}  // namespace colossal::data
