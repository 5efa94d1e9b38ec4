#include "colossal/text/tokenizer/pipeline_tokenizer.h"

#include <array>
#include <system_error>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <nlohmann/json.hpp>

#include "colossal/io/file.h"
#include "colossal/text/tokenizer/companion_tokens.h"
#include "colossal/text/utf8.h"

namespace colossal::text {
namespace {

namespace fs = std::filesystem;

// Part of the fingerprint. Must change when the code yields other tokens for the same files.
constexpr int kEncodingVersion = 1;

// Normalizes the added tokens that are looked for in the normalized text.
std::vector<AddedToken> as_in_text(std::vector<AddedToken> tokens, const Normalizer& normalizer) {
  RegexScratch scratch;
  for (AddedToken& token : tokens) {
    if (token.match_normalized) token.content = normalizer.normalize(token.content, scratch);
  }
  return tokens;
}

// Returns the added tokens to look for in the normalized text, or in the original text.
std::vector<AddedToken> choose_tokens(const std::vector<AddedToken>& tokens,
                                      const TokenizerConfig& config, bool normalized) {
  std::vector<AddedToken> chosen;
  for (const AddedToken& token : tokens) {
    if (token.match_normalized != normalized) continue;
    if (token.special && config.split_special_tokens) continue;
    if (!token.content.empty()) chosen.push_back(token);  // an empty text cannot be found
  }
  return chosen;
}

}  // namespace

// Takes an idle Scratch, or makes one; the destructor returns it to the idle ones.
class PipelineTokenizer::ScratchLease {
 public:
  explicit ScratchLease(const PipelineTokenizer& owner) : owner_(owner) {
    const std::lock_guard lock(owner_.idle_mutex_);
    if (owner_.idle_.empty()) {
      scratch_ = std::make_unique<Scratch>(RegexScratch(), owner_.model_->make_scratch());
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
  const PipelineTokenizer& owner_;
  std::unique_ptr<Scratch> scratch_;
};

PipelineTokenizer::Source PipelineTokenizer::read(const fs::path& path, TokenizerFiles files) {
  Source source{.path = path, .files = std::move(files)};
  source.definition = read_tokenizer_definition(source.files[0].second, path.string());
  const std::vector<AddedToken> own = source.definition.added_tokens;
  source.config = add_companion_tokens(source.files, path.parent_path(), source.definition);
  source.adds_tokens = source.definition.added_tokens != own;
  return source;
}

PipelineTokenizer::PipelineTokenizer(const fs::path& tokenizer_json)
    : PipelineTokenizer(tokenizer_json, read_tokenizer_files(tokenizer_json)) {}

PipelineTokenizer::PipelineTokenizer(const fs::path& tokenizer_json, TokenizerFiles files)
    : PipelineTokenizer(read(tokenizer_json, std::move(files))) {}

PipelineTokenizer::PipelineTokenizer(Source source)
    : normalizer_(source.definition.normalizer),
      added_tokens_(as_in_text(source.definition.added_tokens, normalizer_)),
      exact_tokens_(choose_tokens(added_tokens_, source.config, false)),
      normalized_tokens_(choose_tokens(added_tokens_, source.config, true)),
      pre_tokenizer_(source.definition.pre_tokenizer),
      model_(make_word_model(source.definition, source.path.string())),
      decoder_(source.definition, added_tokens_),
      before_text_(source.definition.before_text),
      after_text_(source.definition.after_text),
      pair_(source.definition.pair),
      end_of_text_(find_end_of_text(source)),
      mask_token_(find_mask_token(source)),
      bos_token_(find_bos_token(source)),
      fingerprint_(make_fingerprint(source)),
      files_(std::move(source.files)) {
  if (find_file(files_, kTokenizerConfigFile)) return;
  const nlohmann::ordered_json config = {{"tokenizer_class", "PreTrainedTokenizerFast"},
                                         {"eos_token", content_of(source, end_of_text_)},
                                         {"clean_up_tokenization_spaces", false}};
  files_.emplace_back(kTokenizerConfigFile, config.dump(2));
}

std::optional<int32_t> PipelineTokenizer::find_token(const Source& source,
                                                     const std::string& content) {
  for (const AddedToken& token : source.definition.added_tokens) {
    if (token.content == content) return token.id;
  }
  for (const auto& [text, token] : source.definition.vocabulary) {
    if (text == content) return token;
  }
  return std::nullopt;
}

std::string PipelineTokenizer::content_of(const Source& source, int32_t token) {
  for (const AddedToken& added : source.definition.added_tokens) {
    if (added.id == token) return added.content;
  }
  for (const auto& [text, id] : source.definition.vocabulary) {
    if (id == token) return text;
  }
  return "";
}

std::optional<int32_t> PipelineTokenizer::end_of_text_from_config(const Source& source) const {
  const fs::path path = source.path.parent_path() / "config.json";
  std::error_code ignored;  // a file that cannot be looked up counts as missing
  if (!fs::is_regular_file(path, ignored)) return std::nullopt;
  const auto token = read_end_of_text(io::read_file(path), path.string());
  std::string bytes;
  return token && decoder_.append(*token, false, bytes) ? token : std::nullopt;
}

int32_t PipelineTokenizer::find_end_of_text(const Source& source) const {
  if (const auto& named = source.config.end_of_text) {
    if (const auto token = find_token(source, *named)) return *token;
  }
  if (const auto token = end_of_text_from_config(source)) return *token;
  const std::array<std::string, 4> known{"<|endoftext|>", "<|end_of_text|>", "</s>", "[SEP]"};
  for (const std::string& content : known) {
    if (const auto token = find_token(source, content)) return *token;
  }
  throw ConfigError(
      fmt::format("{} has no end-of-text token: tried \"{}\"; give one as \"eos_token\" in a {} in "
                  "the same folder",
                  source.path.string(), fmt::join(known, "\", \""), kTokenizerConfigFile));
}

std::optional<int32_t> PipelineTokenizer::find_mask_token(const Source& source) {
  std::vector<std::string> known{"[MASK]", "<mask>"};
  if (source.config.mask) known.insert(known.begin(), *source.config.mask);
  for (const std::string& content : known) {
    if (const auto token = find_token(source, content)) return token;
  }
  return std::nullopt;
}

std::optional<int32_t> PipelineTokenizer::find_bos_token(const Source& source) {
  if (!source.config.beginning) return std::nullopt;
  return find_token(source, *source.config.beginning);
}

std::string PipelineTokenizer::make_fingerprint(const Source& source) const {
  std::string json = source.files[0].second;
  for (const AddedToken& token : source.definition.added_tokens) {
    if (!source.adds_tokens) break;
    json += fmt::format("{} {} {}{}{}{}{}\n", token.content, token.id, token.single_word,
                        token.strip_left, token.strip_right, token.match_normalized, token.special);
  }
  const XXH128_hash_t hash = XXH3_128bits(json.data(), json.size());
  return fmt::format("json-{}-{:016x}{:016x}-{}{}", kEncodingVersion, hash.high64, hash.low64,
                     end_of_text_, source.config.split_special_tokens ? "-split" : "");
}

std::vector<int32_t> PipelineTokenizer::encode_with_breaks(std::string_view text,
                                                           std::span<const size_t> breaks) const {
  const size_t valid = valid_utf8_length(text);
  if (valid != text.size()) throw InvalidText(static_cast<int64_t>(valid));
  const ScratchLease scratch(*this);
  std::vector<int32_t> tokens;
  tokens.reserve(text.size() / 4);
  exact_tokens_.split(
      text, breaks,
      [&](std::string_view part) {
        // Normalization moves the breaks: a part with breaks has no special tokens after it.
        const auto begin = static_cast<size_t>(part.data() - text.data());
        const auto first = std::ranges::upper_bound(breaks, begin);
        const bool has_breaks = first != breaks.end() && *first < begin + part.size();
        encode_text(part, begin == 0, !has_breaks, *scratch, tokens);
      },
      [&](int32_t token) { tokens.push_back(token); });
  return tokens;
}

std::vector<int32_t> PipelineTokenizer::encode_prompt(std::string_view text) const {
  std::vector<int32_t> tokens = encode(text);
  tokens.insert(tokens.begin(), before_text_.begin(), before_text_.end());
  tokens.insert(tokens.end(), after_text_.begin(), after_text_.end());
  return tokens;
}

TypedTokens PipelineTokenizer::arrange(const std::vector<int32_t>& first,
                                       const std::vector<int32_t>* second) const {
  if (second && pair_.empty()) return Tokenizer::arrange(first, second);
  using Kind = PairPart::Kind;
  const std::vector<PairPart> alone{{Kind::special_tokens, before_text_},
                                    {Kind::first_text},
                                    {Kind::special_tokens, after_text_}};
  TypedTokens made;
  for (const PairPart& part : second ? pair_ : alone) {
    const std::vector<int32_t>& tokens = part.kind == Kind::first_text    ? first
                                         : part.kind == Kind::second_text ? *second
                                                                          : part.tokens;
    made.tokens.insert(made.tokens.end(), tokens.begin(), tokens.end());
    made.types.insert(made.types.end(), tokens.size(), part.type);
  }
  return made;
}

void PipelineTokenizer::encode_text(std::string_view text, bool begins_text, bool with_special,
                                    Scratch& scratch, std::vector<int32_t>& tokens) const {
  const std::string normalized =
      normalizer_.changes_nothing() ? std::string() : normalizer_.normalize(text, scratch.regex);
  const std::string_view whole = normalizer_.changes_nothing() ? text : normalized;
  std::vector<size_t> everywhere;
  if (!with_special) {
    for (size_t i = 1; i < whole.size(); ++i) everywhere.push_back(i);
  }
  normalized_tokens_.split(
      whole, everywhere,
      [&](std::string_view piece) {
        encode_piece(piece, begins_text && piece.data() == whole.data(), scratch, tokens);
      },
      [&](int32_t token) { tokens.push_back(token); });
}

void PipelineTokenizer::encode_piece(std::string_view piece, bool begins_text, Scratch& scratch,
                                     std::vector<int32_t>& tokens) const {
  pre_tokenizer_.split(piece, begins_text, scratch.regex,
                       [&](std::string_view word) { encode_word(word, scratch, tokens); });
}

// Encodes the word in parts, if that yields the same tokens: most parts are in the cache.
void PipelineTokenizer::encode_word(std::string_view word, Scratch& scratch,
                                    std::vector<int32_t>& tokens) const {
  constexpr std::string_view kMark = WordModel::kSpaceMark;
  size_t done = 0;
  size_t at = model_->can_cut_at_space_marks() ? 0 : std::string_view::npos;
  while (at != std::string_view::npos) {
    while (word.substr(at).starts_with(kMark)) at += kMark.size();
    at = word.find(kMark, at);
    if (at == std::string_view::npos) break;
    encode_part(word.substr(done, at - done), scratch, tokens);
    done = at;
  }
  encode_part(word.substr(done), scratch, tokens);
}

void PipelineTokenizer::encode_part(std::string_view word, Scratch& scratch,
                                    std::vector<int32_t>& tokens) const {
  if (word.size() > WordCache::kMaxBytes) return model_->encode(word, *scratch.word, tokens);
  WordCache::Place& place = scratch.cache.place_of(word);
  if (WordCache::read(place, word, tokens)) return;
  const size_t start = tokens.size();
  model_->encode(word, *scratch.word, tokens);
  WordCache::write(place, word, std::span(tokens).subspan(start));
}

std::string PipelineTokenizer::decode(std::span<const int32_t> tokens) const {
  return decode(tokens, /*first=*/true);
}

std::string PipelineTokenizer::decode_continuation(std::span<const int32_t> tokens) const {
  return decode(tokens, /*first=*/false);
}

std::string PipelineTokenizer::decode(std::span<const int32_t> tokens, bool first) const {
  std::string bytes;
  for (int32_t token : tokens) {
    if (decoder_.append(token, first, bytes)) first = false;
  }
  return bytes;
}

std::vector<SpecialToken> PipelineTokenizer::special_tokens() const {
  std::vector<SpecialToken> tokens;
  for (const AddedToken& token : added_tokens_) {
    if (token.special) tokens.push_back({token.id, token.content});
  }
  return tokens;
}

}  // namespace colossal::text
