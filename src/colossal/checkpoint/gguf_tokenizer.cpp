#include "colossal/checkpoint/gguf_tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <set>
#include <unordered_map>

#include "colossal/base/error.h"
#include "colossal/checkpoint/gguf_pipeline.h"
#include "colossal/io/json.h"
#include "colossal/text/tokenizer/companion_tokens.h"

namespace colossal::checkpoint {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

// Values of "tokenizer.ggml.token_type".
enum TokenType : int32_t {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,
  kUnused = 5,
  kByte = 6,
};

// Whether merges may make tokens of this type. Those that a user defined are found in the text
// itself, but of these Gemma's runs of spaces are also made by merges.
bool is_merged(int type) {
  return type == kNormal || type == kUserDefined;
}

constexpr const char* kSpace = "\xe2\x96\x81";  // U+2581, which stands for a space
constexpr int64_t kLargestTokenizer = int64_t{256} << 20;

const json& member(const json& object, const char* name) {
  static const json null;
  const auto found = object.is_object() ? object.find(name) : object.end();
  return object.is_object() && found != object.end() ? *found : null;
}

json read_if_there(const std::filesystem::path& path) {
  return std::filesystem::exists(path) ? io::read_json(path, kLargestTokenizer) : json();
}

// tokenizer.json, and the files beside it.
class HfTokenizer {
 public:
  explicit HfTokenizer(const std::filesystem::path& folder)
      : path_(folder / "tokenizer.json"),
        tokenizer_(io::read_json(path_, kLargestTokenizer)),
        settings_(read_if_there(folder / "tokenizer_config.json")),
        config_(read_if_there(folder / "config.json")) {
    if (member(model(), "type") != "BPE" || !member(model(), "vocab").is_object()) {
      refuse("it is not BPE");
    }
    const text::TokenizerFiles files = text::read_tokenizer_files(path_);
    definition_ = text::read_tokenizer_definition(files.front().second, path_.string());
    text::add_companion_tokens(files, folder, definition_);
  }

  GgufFields fields(int64_t vocabulary) const {
    const bool byte_level = definition_.byte_level;
    if (!byte_level && member(model(), "byte_fallback") != true) {
      refuse("it is neither byte-level nor has bytes to fall back on");
    }
    const GgufPipeline pipeline = read_gguf_pipeline(tokenizer_, path_);
    check_added_tokens();
    std::vector<std::string> tokens;
    std::vector<int32_t> types;
    fill_tokens(vocabulary, tokens, types);
    const Merges merges = read_merges();
    GgufFields fields{{"tokenizer.ggml.model", io::GgufValue::of(byte_level ? "gpt2" : "llama")}};
    if (byte_level) {
      check_ignored_merges(pipeline, merges);
      fields.emplace_back("tokenizer.ggml.pre", io::GgufValue::of(pipeline.named->name));
      std::vector<std::string> lines;
      for (const auto& [left, right] : merges) lines.push_back(left + " " + right);
      fields.emplace_back("tokenizer.ggml.merges", io::GgufValue::of(lines));
    } else {
      mark_bytes(tokens, types);
      const std::vector<float> scores = scores_of(tokens, merges);
      check_scores(tokens, types, scores, merges);
      fields.emplace_back("tokenizer.ggml.scores", io::GgufValue::of(scores));
      fields.emplace_back("tokenizer.ggml.add_space_prefix",
                          io::GgufValue::of(pipeline.space_prefix));
    }
    fields.emplace_back("tokenizer.ggml.tokens", io::GgufValue::of(tokens));
    fields.emplace_back("tokenizer.ggml.token_type", io::GgufValue::of(types));
    add_special(fields);
    return fields;
  }

 private:
  [[noreturn]] void refuse(const std::string& reason) const {
    throw ConfigError(
        fmt::format("{}: {}; supported are byte-level BPE, and BPE with byte fallback",
                    path_.string(), reason));
  }

  const json& part(const char* name) const { return member(tokenizer_, name); }
  const json& model() const { return part("model"); }

  void set_token(std::vector<std::string>& tokens, const json& id, const std::string& text) const {
    if (!id.is_number_integer() || id < 0 || id >= static_cast<int64_t>(tokens.size())) {
      throw ConfigError(fmt::format("{}: token {} has the number {}, but the model has only {}",
                                    path_.string(), io::quote_text(text), io::show_value(id),
                                    tokens.size()));
    }
    tokens[id.get<size_t>()] = text;
  }

  void fill_tokens(int64_t vocabulary, std::vector<std::string>& tokens,
                   std::vector<int32_t>& types) const {
    for (int64_t id = 0; id < vocabulary; ++id) tokens.push_back(fmt::format("[PAD{}]", id));
    types.assign(tokens.size(), kUnused);
    for (const auto& [text, id] : member(model(), "vocab").items()) {
      set_token(tokens, id, text);
      types[id.get<size_t>()] = kNormal;
    }
    for (const text::AddedToken& added : definition_.added_tokens) {
      set_token(tokens, added.id, added.content);
      types[static_cast<size_t>(added.id)] = added.special ? kControl : kUserDefined;
    }
  }

  // Refuses what is searched for in another way than GGUF's tokens are.
  void check_added_tokens() const {
    for (const text::AddedToken& added : definition_.added_tokens) {
      const bool moves = added.match_normalized && !definition_.byte_level;
      const char* setting = added.single_word   ? "single_word"
                            : added.strip_left  ? "lstrip"
                            : added.strip_right ? "rstrip"
                            : moves             ? "normalized"
                                                : nullptr;
      if (!setting) continue;
      throw ConfigError(
          fmt::format("{}: the token {} has {} = true, which a GGUF file cannot say, so that the "
                      "same text would have other tokens",
                      path_.string(), io::quote_text(added.content), setting));
    }
  }

  // The names of llama.cpp imply whether a word that is a token becomes this token without merges.
  void check_ignored_merges(const GgufPipeline& pipeline, const Merges& merges) const {
    const bool ignores = member(model(), "ignore_merges") == true;
    if (ignores == pipeline.named->ignores_merges) return;
    std::vector<std::string> texts;
    std::unordered_map<std::string, size_t> known;
    for (const auto& [text, id] : definition_.vocabulary) {
      known.emplace(text, id);
      if (std::ranges::count(definition_.added_tokens, text, &text::AddedToken::content) == 0) {
        texts.push_back(text);
      }
    }
    const std::string unmade = find_unmade_token(texts, merges, known);
    if (unmade.empty()) return;
    throw ConfigError(fmt::format(
        "{}: model.ignore_merges is {}, and no merges make the token {}; with this pre_tokenizer "
        "(llama.cpp's {}) a GGUF file can only say {}",
        path_.string(), ignores, io::quote_text(unmade), pipeline.named->name, !ignores));
  }

  // SentencePiece merges by the scores of results. Refuses merges of which the scores make others.
  void check_scores(const std::vector<std::string>& tokens, const std::vector<int32_t>& types,
                    const std::vector<float>& scores, const Merges& merges) const {
    std::vector<bool> is_normal;
    std::vector<std::string> normal;
    std::unordered_map<std::string, size_t> known;
    for (size_t id = 0; id < tokens.size(); ++id) {
      is_normal.push_back(is_merged(types[id]));
      known.emplace(tokens[id], id);
      const bool spaces = types[id] == kUserDefined && tokens[id].find(kSpace) != std::string::npos;
      if (types[id] == kNormal || spaces) normal.push_back(tokens[id]);
    }
    for (int byte = 0; byte < 256; ++byte) {
      const std::string text = fmt::format("<0x{:02X}>", byte);
      if (!known.contains(text)) refuse(fmt::format("it has no token {}", text));
    }
    const std::set<std::array<std::string, 2>> own(merges.begin(), merges.end());
    Merges made = merges_of_scores(tokens, {scores.begin(), scores.end()}, is_normal);
    const bool has_others = made.size() > own.size();
    std::erase_if(made, [&](const auto& pair) { return !own.contains(pair); });
    const bool same = made == merges;
    const std::string unmade = has_others ? find_unmade_token(normal, merges, known) : "";
    if (same && unmade.empty()) return;
    refuse(
        same ? fmt::format("no merges make the token {}, but a GGUF file's scores would",
                           io::quote_text(unmade))
             : "its merges are not in the order of SentencePiece, where each token has one score");
  }

  Merges read_merges() const {
    Merges merges;
    for (const json& merge : member(model(), "merges")) {
      if (merge.is_array() && merge.size() == 2) {
        merges.push_back({merge[0].get<std::string>(), merge[1].get<std::string>()});
      } else if (merge.is_string()) {
        const std::string text = merge.get<std::string>();
        const size_t space = text.find(' ');
        if (space == std::string::npos) refuse("a merge without a space");
        merges.push_back({text.substr(0, space), text.substr(space + 1)});
      } else {
        refuse("a merge that is not a pair");
      }
    }
    return merges;
  }

  static void mark_bytes(const std::vector<std::string>& tokens, std::vector<int32_t>& types) {
    for (size_t id = 0; id < tokens.size(); ++id) {
      const std::string& text = tokens[id];
      if (text.size() == 6 && text.starts_with("<0x") && text.ends_with(">")) types[id] = kByte;
      if (text == "<unk>") types[id] = kUnknown;
    }
  }

  // Returns minus the rank of each token's merge: SentencePiece first merges the pair whose result
  // has the highest score.
  static std::vector<float> scores_of(const std::vector<std::string>& tokens,
                                      const Merges& merges) {
    std::unordered_map<std::string, size_t> ranks;
    for (const auto& [left, right] : merges) ranks.emplace(left + right, ranks.size());
    std::vector<float> scores;
    for (const std::string& token : tokens) {
      const auto found = ranks.find(token);
      scores.push_back(-static_cast<float>(found == ranks.end() ? ranks.size() : found->second));
    }
    return scores;
  }

  // Returns the one special token that is put before or after a text; nullopt if there is none.
  std::optional<int32_t> only_token(const std::vector<int32_t>& tokens, const char* place) const {
    if (tokens.empty()) return std::nullopt;
    if (tokens.size() == 1) return tokens.front();
    throw ConfigError(
        fmt::format("{}: its post_processor puts {} tokens {} a text; a GGUF file can say one",
                    path_.string(), tokens.size(), place));
  }

  void add_special(GgufFields& fields) const {
    const auto begin = only_token(definition_.before_text, "before");
    const auto end = only_token(definition_.after_text, "after");
    for (const auto& [name, theirs] :
         {std::pair{"bos", "bos_token_id"}, {"padding", "pad_token_id"}}) {
      json id = member(config_, theirs);
      if (begin && std::string_view(name) == "bos") id = static_cast<uint32_t>(*begin);
      if (!id.is_number_unsigned()) continue;
      fields.emplace_back(fmt::format("tokenizer.ggml.{}_token_id", name),
                          io::GgufValue::of(id.get<uint32_t>()));
    }
    if (end) {
      fields.emplace_back("tokenizer.ggml.eos_token_id",
                          io::GgufValue::of(static_cast<uint32_t>(*end)));
    }
    fields.emplace_back("tokenizer.ggml.add_bos_token", io::GgufValue::of(begin.has_value()));
    fields.emplace_back("tokenizer.ggml.add_eos_token", io::GgufValue::of(end.has_value()));
  }

  std::filesystem::path path_;
  json tokenizer_, settings_, config_;
  text::TokenizerDefinition definition_;  // with the tokens of the files beside it
};

// The tokenizer of a GGUF file.
class GgufTokenizer {
 public:
  explicit GgufTokenizer(const io::GgufReader& file)
      : file_(file),
        tokens_(file.texts("tokenizer.ggml.tokens").value_or(std::vector<std::string>())),
        types_(file.numbers("tokenizer.ggml.token_type")
                   .value_or(std::vector<double>(tokens_.size(), kNormal))) {
    if (types_.size() != tokens_.size()) {
      throw IoError(fmt::format("{}: {} tokens, {} types of them", file.path().string(),
                                tokens_.size(), types_.size()));
    }
    for (size_t id = 0; id < tokens_.size(); ++id) ids_.emplace(tokens_[id], id);
  }

  ordered_json byte_level() const {
    Merges merges;
    for (const std::string& merge :
         file_.texts("tokenizer.ggml.merges").value_or(std::vector<std::string>())) {
      const size_t space = merge.find(' ', 1);
      if (space == std::string::npos) {
        throw IoError(fmt::format("{}: a merge without a space", file_.path().string()));
      }
      merges.push_back({merge.substr(0, space), merge.substr(space + 1)});
    }
    ordered_json json = skeleton(merges, /*fallback=*/false);
    const NamedPipeline& named = pipeline();
    json["pre_tokenizer"] = named.pre_tokenizer;
    json["normalizer"] = named.normalizer;
    json["model"]["ignore_merges"] = named.ignores_merges;
    const json_ whole = pipeline_of("gpt-2", file_.path()).pre_tokenizer;
    json["decoder"] = whole;
    json["post_processor"] = post_processor(whole);
    return json;
  }

  ordered_json with_fallback() const {
    const bool prefix = file_.flag("tokenizer.ggml.add_space_prefix").value_or(true);
    ordered_json json = skeleton(merges_of_file_scores(), /*fallback=*/true);
    const json_ spaces{{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", kSpace}};
    json["normalizer"] = spaces;
    json_ decoders{{{"type", "Replace"}, {"pattern", {{"String", kSpace}}}, {"content", " "}},
                   {{"type", "ByteFallback"}},
                   {{"type", "Fuse"}}};
    if (prefix) {
      json["normalizer"] = {
          {"type", "Sequence"},
          {"normalizers", json_::array({{{"type", "Prepend"}, {"prepend", kSpace}}, spaces})}};
      decoders.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
    }
    json["pre_tokenizer"] = nullptr;
    json["decoder"] = {{"type", "Sequence"}, {"decoders", decoders}};
    json["post_processor"] = post_processor(nullptr);
    return json;
  }

  ordered_json settings() const {
    ordered_json json{{"tokenizer_class", "PreTrainedTokenizerFast"},
                      {"add_bos_token", adds_bos()},
                      {"clean_up_tokenization_spaces", false}};
    for (const auto& [name, field] : {std::pair{"bos_token", "bos"},
                                      {"eos_token", "eos"},
                                      {"pad_token", "padding"},
                                      {"unk_token", "unknown"}}) {
      if (const auto text = special(field)) json[name] = *text;
    }
    return json;
  }

 private:
  using json_ = nlohmann::ordered_json;

  // Whether a text begins with BOS; without the field, what llama.cpp does.
  bool adds_bos() const {
    const bool fallback = file_.text("tokenizer.ggml.model") == "llama" ||
                          file_.text("tokenizer.ggml.pre") == "llama-bpe";
    return file_.flag("tokenizer.ggml.add_bos_token").value_or(fallback) && special("bos");
  }

  bool adds_eos() const {
    return file_.flag("tokenizer.ggml.add_eos_token").value_or(false) && special("eos");
  }

  std::optional<std::string> special(const std::string& name) const {
    const auto id = file_.integer(fmt::format("tokenizer.ggml.{}_token_id", name));
    if (!id || *id < 0 || *id >= static_cast<int64_t>(tokens_.size())) return std::nullopt;
    return tokens_[static_cast<size_t>(*id)];
  }

  const NamedPipeline& pipeline() const {
    return pipeline_of(file_.text("tokenizer.ggml.pre").value_or("gpt-2"), file_.path());
  }

  // Returns a template that puts BOS before each text and EOS after it, as the file says;
  // `otherwise` if it says neither.
  json_ post_processor(const json_& otherwise) const {
    if (!adds_bos() && !adds_eos()) return otherwise;
    json_ single = json_::array(), pair = json_::array(), special_tokens = json_::object();
    const auto add_token = [&](const char* name, int type, json_& sequence) {
      const std::string text = *special(name);
      sequence.push_back({{"SpecialToken", {{"id", text}, {"type_id", type}}}});
      special_tokens[text] = {
          {"id", text}, {"ids", json_::array({ids_.at(text)})}, {"tokens", json_::array({text})}};
    };
    const auto add_text = [&](const char* name, int type, json_& sequence) {
      if (adds_bos()) add_token("bos", type, sequence);
      sequence.push_back({{"Sequence", {{"id", name}, {"type_id", type}}}});
      if (adds_eos()) add_token("eos", type, sequence);
    };
    add_text("A", 0, single);
    add_text("A", 0, pair);
    add_text("B", 1, pair);
    return {{"type", "TemplateProcessing"},
            {"single", single},
            {"pair", pair},
            {"special_tokens", special_tokens}};
  }

  ordered_json skeleton(const Merges& merges, bool fallback) const {
    json_ vocabulary = json_::object(), added = json_::array(), pairs = json_::array();
    std::map<size_t, std::string> by_id;
    for (const auto& [text, id] : ids_) by_id.emplace(id, text);
    json plain = json::object();
    for (const auto& [id, text] : by_id) {
      const int type = static_cast<int>(types_[id]);
      if (type == kControl || type == kUserDefined || type == kUnknown) {
        added.push_back({{"id", id},
                         {"content", text},
                         {"single_word", false},
                         {"lstrip", false},
                         {"rstrip", false},
                         {"normalized", false},
                         {"special", type != kUserDefined}});
      }
      if (type != kUnused) plain[text] = id;
    }
    vocabulary = plain;
    for (const auto& pair : merges) pairs.push_back(pair);
    const auto unknown = special("unknown");
    return {{"version", "1.0"},
            {"truncation", nullptr},
            {"padding", nullptr},
            {"added_tokens", added},
            {"normalizer", nullptr},
            {"pre_tokenizer", nullptr},
            {"post_processor", nullptr},
            {"decoder", nullptr},
            {"model",
             {{"type", "BPE"},
              {"dropout", nullptr},
              {"unk_token", fallback && unknown ? json_(*unknown) : json_()},
              {"continuing_subword_prefix", nullptr},
              {"end_of_word_suffix", nullptr},
              {"fuse_unk", fallback},
              {"byte_fallback", fallback},
              {"ignore_merges", false},
              {"vocab", vocabulary},
              {"merges", pairs}}}};
  }

  Merges merges_of_file_scores() const {
    const auto scores = file_.numbers("tokenizer.ggml.scores").value_or(std::vector<double>());
    if (scores.size() != tokens_.size()) {
      throw IoError(fmt::format("{}: {} tokens, {} scores of them", file_.path().string(),
                                tokens_.size(), scores.size()));
    }
    std::vector<bool> is_normal;
    for (const double type : types_) is_normal.push_back(is_merged(static_cast<int>(type)));
    return merges_of_scores(tokens_, scores, is_normal);
  }

  const io::GgufReader& file_;
  std::vector<std::string> tokens_;
  std::vector<double> types_;
  std::unordered_map<std::string, size_t> ids_;
};

}  // namespace

GgufFields tokenizer_fields(const std::filesystem::path& folder, int64_t vocabulary) {
  if (!std::filesystem::exists(folder / "tokenizer.json")) {
    return {{"tokenizer.ggml.model", io::GgufValue::of("none")}};
  }
  try {
    return HfTokenizer(folder).fields(vocabulary);
  } catch (const json::exception& error) {
    throw IoError(fmt::format("{}: {}", (folder / "tokenizer.json").string(), error.what()));
  }
}

std::map<std::string, std::string> tokenizer_files(const io::GgufReader& file) {
  const std::string model = file.text("tokenizer.ggml.model").value_or("none");
  if (model == "none" || model == "no_vocab") return {};
  if (model != "gpt2" && model != "llama") {
    throw ConfigError(
        fmt::format("{}: tokenizers of the kind \"{}\" are not supported; supported are gpt2 "
                    "(byte-level BPE) and llama (SentencePiece's BPE)",
                    file.path().string(), model));
  }
  const GgufTokenizer tokenizer(file);
  const ordered_json json = model == "gpt2" ? tokenizer.byte_level() : tokenizer.with_fallback();
  try {
    return {{"tokenizer.json", json.dump(1)},
            {"tokenizer_config.json", tokenizer.settings().dump(1)}};
  } catch (const nlohmann::json::exception&) {
    throw IoError(fmt::format("{}: a token that is not UTF-8", file.path().string()));
  }
}

}  // namespace colossal::checkpoint
