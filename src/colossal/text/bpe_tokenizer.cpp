#include "colossal/text/bpe_tokenizer.h"

#include <algorithm>
#include <fstream>
#include <system_error>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <nlohmann/json.hpp>

#include "colossal/text/byte_alphabet.h"
#include "colossal/text/normalizer.h"
#include "colossal/text/utf8.h"

namespace colossal::text {
namespace {

namespace fs = std::filesystem;

constexpr const char* kConfigName = "tokenizer_config.json";
// What else `transformers` may look for beside a tokenizer.json; a checkpoint takes it along.
constexpr const char* kCompanionNames[] = {"special_tokens_map.json", "added_tokens.json",
                                           "vocab.json", "merges.txt", "chat_template.jinja"};
// To change when the code gives other tokens for the same files.
constexpr int kEncodingVersion = 1;

std::string read_file(const fs::path& path) {
  std::error_code error;
  std::string content(fs::is_regular_file(path, error) ? fs::file_size(path, error) : 0, '\0');
  std::ifstream stream(path, std::ios::binary);
  stream.read(content.data(), static_cast<std::streamsize>(content.size()));
  if (error || !stream || !fs::is_regular_file(path, error)) {
    throw IoError(fmt::format("cannot read the tokenizer file {}: {}", path.string(),
                              error ? error.message() : "not a file that may be read to its end"));
  }
  return content;
}

// The added tokens to look for: in the normalized text or in the text as it comes.
std::vector<AddedToken> choose_tokens(const TokenizerDefinition& definition,
                                      const TokenizerConfig& config, bool normalized) {
  std::vector<AddedToken> chosen;
  for (AddedToken token : definition.added_tokens) {
    if (token.match_normalized != normalized) continue;
    if (token.special && config.split_special_tokens) continue;
    if (normalized && definition.compose) token.content = compose(token.content);
    chosen.push_back(std::move(token));
  }
  return chosen;
}

}  // namespace

// Takes an idle Scratch, or makes one, and gives it back.
class BpeTokenizer::ScratchLease {
 public:
  explicit ScratchLease(const BpeTokenizer& owner) : owner_(owner) {
    const std::lock_guard lock(owner_.idle_mutex_);
    if (owner_.idle_.empty()) {
      scratch_ = std::make_unique<Scratch>();
    } else {
      scratch_ = std::move(owner_.idle_.back());
      owner_.idle_.pop_back();
    }
  }
  ~ScratchLease() {
    const std::lock_guard lock(owner_.idle_mutex_);
    owner_.idle_.push_back(std::move(scratch_));
  }
  ScratchLease(const ScratchLease&) = delete;
  ScratchLease& operator=(const ScratchLease&) = delete;

  Scratch& operator*() const { return *scratch_; }

 private:
  const BpeTokenizer& owner_;
  std::unique_ptr<Scratch> scratch_;
};

BpeTokenizer::Source BpeTokenizer::read(const fs::path& path) {
  Source source{.path = path.string()};
  source.files.emplace_back("tokenizer.json", read_file(path));
  source.definition = read_tokenizer_definition(source.files[0].second, source.path);
  const fs::path config = path.parent_path() / kConfigName;
  std::error_code ignored;  // of a companion that cannot even be looked for
  if (fs::exists(config, ignored)) {
    source.files.emplace_back(kConfigName, read_file(config));
    source.config = read_tokenizer_config(source.files[1].second, config.string());
  }
  for (const char* name : kCompanionNames) {
    const fs::path companion = path.parent_path() / name;
    if (fs::is_regular_file(companion, ignored))
      source.files.emplace_back(name, read_file(companion));
  }
  return source;
}

BpeTokenizer::BpeTokenizer(const fs::path& tokenizer_json) : BpeTokenizer(read(tokenizer_json)) {}

BpeTokenizer::BpeTokenizer(Source source)
    : compose_(source.definition.compose),
      exact_tokens_(choose_tokens(source.definition, source.config, false)),
      normalized_tokens_(choose_tokens(source.definition, source.config, true)),
      pre_tokenizer_(source.definition),
      model_(source.definition.model, source.path) {
  index_tokens(source.definition);
  end_of_text_ = find_end_of_text(source);
  fingerprint_ = make_fingerprint(source);
  files_ = std::move(source.files);
  const bool has_config = files_.size() > 1 && files_[1].first == kConfigName;
  if (has_config) return;
  const nlohmann::ordered_json config = {{"tokenizer_class", "PreTrainedTokenizerFast"},
                                         {"eos_token", bytes_of_token_.at(end_of_text_)},
                                         {"clean_up_tokenization_spaces", false}};
  files_.emplace_back(kConfigName, config.dump(2));
}

void BpeTokenizer::index_tokens(const TokenizerDefinition& definition) {
  for (const auto& [text, token] : definition.model.vocabulary) {
    bytes_of_token_[token] = from_byte_alphabet(text).value_or(text);
  }
  for (const AddedToken& token : definition.added_tokens) bytes_of_token_[token.id] = token.content;
  for (const auto& [token, bytes] : bytes_of_token_) {
    vocabulary_size_ = std::max(vocabulary_size_, token + 1);
  }
}

int32_t BpeTokenizer::find_end_of_text(const Source& source) const {
  std::vector<std::string> candidates = {"<|endoftext|>", "<|end_of_text|>"};
  if (source.config.end_of_text) candidates.push_back(*source.config.end_of_text);
  for (const std::string& candidate : candidates) {
    for (const AddedToken& token : source.definition.added_tokens) {
      if (token.content == candidate) return token.id;
    }
    for (const auto& [text, token] : source.definition.model.vocabulary) {
      if (text == candidate) return token;
    }
  }
  throw ConfigError(fmt::format(
      "{} has no token that ends a text: tried \"{}\"; give one as \"eos_token\" in a {} beside it",
      source.path, fmt::join(candidates, "\", \""), kConfigName));
}

std::string BpeTokenizer::make_fingerprint(const Source& source) const {
  const std::string& json = source.files[0].second;
  const XXH128_hash_t hash = XXH3_128bits(json.data(), json.size());
  return fmt::format("bpe-{}-{:016x}{:016x}-{}{}", kEncodingVersion, hash.high64, hash.low64,
                     end_of_text_, source.config.split_special_tokens ? "-split" : "");
}

std::vector<int32_t> BpeTokenizer::encode(std::string_view text) const {
  const size_t valid = valid_utf8_length(text);
  if (valid != text.size()) throw InvalidText(static_cast<int64_t>(valid));
  const ScratchLease scratch(*this);
  std::vector<int32_t> tokens;
  tokens.reserve(text.size() / 4);
  const auto on_token = [&](int32_t token) { tokens.push_back(token); };
  exact_tokens_.split(
      text,
      [&](std::string_view part) {
        const std::string composed = compose_ ? compose(part) : std::string();
        normalized_tokens_.split(
            compose_ ? composed : part,
            [&](std::string_view piece) { encode_piece(piece, *scratch, tokens); }, on_token);
      },
      on_token);
  return tokens;
}

void BpeTokenizer::encode_piece(std::string_view piece, Scratch& scratch,
                                std::vector<int32_t>& tokens) const {
  pre_tokenizer_.split(piece, scratch.regex,
                       [&](std::string_view word) { encode_word(word, scratch, tokens); });
}

void BpeTokenizer::encode_word(std::string_view word, Scratch& scratch,
                               std::vector<int32_t>& tokens) const {
  if (word.size() > WordCache::kMaxBytes) return model_.encode(word, scratch.bpe, tokens);
  WordCache::Place& place = scratch.cache.place_of(word);
  if (WordCache::read(place, word, tokens)) return;
  const size_t start = tokens.size();
  model_.encode(word, scratch.bpe, tokens);
  WordCache::write(place, word, std::span(tokens).subspan(start));
}

std::string BpeTokenizer::decode(std::span<const int32_t> tokens) const {
  std::string bytes;
  for (int32_t token : tokens) {
    const auto found = bytes_of_token_.find(token);
    if (found != bytes_of_token_.end()) bytes += found->second;
  }
  return bytes;
}

}  // namespace colossal::text
