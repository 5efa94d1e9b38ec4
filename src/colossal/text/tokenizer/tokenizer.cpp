#include "colossal/text/tokenizer/tokenizer.h"

#include <algorithm>
#include <system_error>

#include "colossal/text/tokenizer/bytes_tokenizer.h"
#include "colossal/text/tokenizer/pipeline_tokenizer.h"

namespace colossal::text {

InvalidText::InvalidText(int64_t offset)
    : Error(fmt::format("the text is not UTF-8: the byte at offset {} does not start a character",
                        offset)),
      offset(offset) {}

namespace {

// Truncates two texts to `most` tokens in all. The shorter text stays whole if that leaves the
// longer text at least as many tokens; else both get half.
void truncate_longest(std::vector<int32_t>& first, std::vector<int32_t>& second, int64_t most) {
  std::vector<int32_t>& shorter = first.size() <= second.size() ? first : second;
  std::vector<int32_t>& longer = first.size() <= second.size() ? second : first;
  const auto short_size = std::ssize(shorter), long_size = std::ssize(longer);
  if (short_size + long_size <= most) return;
  const int64_t kept = std::min<int64_t>(short_size, most / 2);
  shorter.resize(kept);
  longer.resize(most - kept);
}

}  // namespace

TypedTokens Tokenizer::encode_texts(std::string_view first, const std::string* second,
                                    int64_t most) const {
  std::vector<int32_t> of_first = encode(first), of_second;
  if (second) of_second = encode(*second);
  const std::vector<int32_t> empty;
  const auto num_special = std::ssize(arrange(empty, second ? &empty : nullptr).tokens);
  const int64_t left = std::max<int64_t>(0, most - num_special);
  if (second) {
    truncate_longest(of_first, of_second, left);
  } else if (std::ssize(of_first) > left) {
    of_first.resize(left);
  }
  return arrange(of_first, second ? &of_second : nullptr);
}

TypedTokens Tokenizer::arrange(const std::vector<int32_t>& first,
                               const std::vector<int32_t>* second) const {
  TypedTokens made{first, std::vector<int32_t>(first.size(), 0)};
  if (!second) return made;
  made.tokens.insert(made.tokens.end(), second->begin(), second->end());
  made.types.resize(made.tokens.size(), 1);
  return made;
}

std::unique_ptr<Tokenizer> make_tokenizer(const std::string& specification) {
  if (specification == "bytes") return std::make_unique<BytesTokenizer>();
  std::filesystem::path path = specification;
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) path /= kTokenizerFile;
  if (!std::filesystem::exists(path, error)) {
    throw ConfigError(
        fmt::format("the tokenizer {} does not exist; give \"bytes\", the path of a "
                    "tokenizer.json, or a folder with one",
                    path.string()));
  }
  TokenizerFiles files = read_tokenizer_files(path);
  if (BytesTokenizer::is_described_by(files)) {
    return std::make_unique<BytesTokenizer>(std::move(files));
  }
  return std::make_unique<PipelineTokenizer>(path, std::move(files));
}

}  // namespace colossal::text
