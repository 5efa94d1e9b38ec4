#include "colossal/checkpoint/gguf_tokenizer.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <tuple>
#include <unordered_map>

#include "colossal/base/error.h"
#include "colossal/io/json.h"

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

constexpr const char* kSpace = "\xe2\x96\x81";  // U+2581, which stands for a space
constexpr int64_t kLargestTokenizer = int64_t{256} << 20;

// How text is split before its bytes are merged. The names are llama.cpp's.
struct Cut {
  const char* name;
  const char* pattern;  // of a Split; null: that of ByteLevel
};
constexpr std::array kCuts{
    Cut{"gpt-2", nullptr},
    Cut{"llama-bpe",
        R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"},
    Cut{"qwen2",
        R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"}};

std::string cut_names() {
  std::vector<std::string> names;
  for (const Cut& cut : kCuts) names.emplace_back(cut.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

// Calls visit for `value` and each value in it, if it is an object with a "type".
template <typename Visit>
void for_parts(const json& value, const Visit& visit) {
  if (value.is_object() && value.contains("type")) visit(value);
  if (value.is_structured()) {
    for (const json& part : value) for_parts(part, visit);
  }
}

bool has_part(const json& value, const char* type) {
  bool found = false;
  for_parts(value, [&](const json& part) { found = found || part.at("type") == type; });
  return found;
}

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
  }

  GgufFields fields(int64_t vocabulary) const {
    const bool byte_level =
        has_part(part("pre_tokenizer"), "ByteLevel") || has_part(part("decoder"), "ByteLevel");
    if (!byte_level && member(model(), "byte_fallback") != true) {
      refuse("it is neither byte-level nor has bytes to fall back on");
    }
    std::vector<std::string> tokens;
    std::vector<int32_t> types;
    fill_tokens(vocabulary, tokens, types);
    const std::vector<std::array<std::string, 2>> merges = read_merges();
    GgufFields fields{{"tokenizer.ggml.model", io::GgufValue::of(byte_level ? "gpt2" : "llama")}};
    if (byte_level) {
      fields.emplace_back("tokenizer.ggml.pre", io::GgufValue::of(cut_name()));
      std::vector<std::string> lines;
      for (const auto& [left, right] : merges) lines.push_back(left + " " + right);
      fields.emplace_back("tokenizer.ggml.merges", io::GgufValue::of(lines));
    } else {
      mark_bytes(tokens, types);
      fields.emplace_back("tokenizer.ggml.scores", io::GgufValue::of(scores_of(tokens, merges)));
      fields.emplace_back("tokenizer.ggml.add_space_prefix",
                          io::GgufValue::of(has_part(part("normalizer"), "Prepend")));
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
    for (const json& added : part("added_tokens")) {
      const std::string text = added.at("content").get<std::string>();
      const json& id = added.at("id");
      set_token(tokens, id, text);
      types[id.get<size_t>()] = added.value("special", false) ? kControl : kUserDefined;
    }
  }

  std::vector<std::array<std::string, 2>> read_merges() const {
    std::vector<std::array<std::string, 2>> merges;
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
                                      const std::vector<std::array<std::string, 2>>& merges) {
    std::unordered_map<std::string, size_t> ranks;
    for (const auto& [left, right] : merges) ranks.emplace(left + right, ranks.size());
    std::vector<float> scores;
    for (const std::string& token : tokens) {
      const auto found = ranks.find(token);
      scores.push_back(-static_cast<float>(found == ranks.end() ? ranks.size() : found->second));
    }
    return scores;
  }

  const char* cut_name() const {
    std::string pattern;
    for_parts(part("pre_tokenizer"), [&](const json& found) {
      if (found.at("type") == "Split") pattern = found.at("pattern").value("Regex", "");
    });
    for (const Cut& cut : kCuts) {
      if (cut.pattern ? pattern == cut.pattern : pattern.empty()) return cut.name;
    }
    throw ConfigError(fmt::format(
        "{}: its pre-tokenizer pattern has no known name in llama.cpp; supported are those of {}",
        path_.string(), cut_names()));
  }

  bool adds(const char* setting, bool begin) const {
    const json& given = member(settings_, setting);
    if (given.is_boolean()) return given.get<bool>();
    bool found = false;
    for_parts(part("post_processor"), [&](const json& processor) {
      const json& single = member(processor, "single");
      if (!single.is_array() || single.empty()) return;
      found = (begin ? single.front() : single.back()).contains("SpecialToken");
    });
    return found;
  }

  void add_special(GgufFields& fields) const {
    for (const auto& [name, theirs] :
         {std::pair{"bos", "bos_token_id"}, {"eos", "eos_token_id"}, {"padding", "pad_token_id"}}) {
      json id = member(config_, theirs);
      if (id.is_array() && !id.empty()) id = id.front();
      if (!id.is_number_unsigned()) continue;
      fields.emplace_back(fmt::format("tokenizer.ggml.{}_token_id", name),
                          io::GgufValue::of(id.get<uint32_t>()));
    }
    fields.emplace_back("tokenizer.ggml.add_bos_token",
                        io::GgufValue::of(adds("add_bos_token", true)));
    fields.emplace_back("tokenizer.ggml.add_eos_token",
                        io::GgufValue::of(adds("add_eos_token", false)));
    if (const json& chat = member(settings_, "chat_template"); chat.is_string()) {
      fields.emplace_back("tokenizer.chat_template", io::GgufValue::of(chat.get<std::string>()));
    }
  }

  std::filesystem::path path_;
  json tokenizer_, settings_, config_;
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
    std::vector<std::array<std::string, 2>> merges;
    for (const std::string& merge :
         file_.texts("tokenizer.ggml.merges").value_or(std::vector<std::string>())) {
      const size_t space = merge.find(' ', 1);
      if (space == std::string::npos) {
        throw IoError(fmt::format("{}: a merge without a space", file_.path().string()));
      }
      merges.push_back({merge.substr(0, space), merge.substr(space + 1)});
    }
    ordered_json json = skeleton(merges, /*fallback=*/false);
    const json_ byte{{"type", "ByteLevel"},
                     {"add_prefix_space", false},
                     {"trim_offsets", true},
                     {"use_regex", false}};
    json_ whole = byte;
    whole["use_regex"] = true;
    const Cut& cut = find_cut();
    json["pre_tokenizer"] = whole;
    if (cut.pattern) {
      json["pre_tokenizer"] = {{"type", "Sequence"},
                               {"pretokenizers",
                                {{{"type", "Split"},
                                  {"pattern", {{"Regex", cut.pattern}}},
                                  {"behavior", "Isolated"},
                                  {"invert", false}},
                                 byte}}};
    }
    json["normalizer"] = std::string_view(cut.name) == "qwen2" ? json_{{"type", "NFC"}} : json_();
    json["decoder"] = whole;
    json["post_processor"] = post_processor(whole);
    return json;
  }

  ordered_json with_fallback() const {
    const bool prefix = file_.flag("tokenizer.ggml.add_space_prefix").value_or(true);
    ordered_json json = skeleton(merges_of_scores(), /*fallback=*/true);
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
    if (const auto chat = file_.text("tokenizer.chat_template")) json["chat_template"] = *chat;
    return json;
  }

 private:
  using json_ = nlohmann::ordered_json;

  bool adds_bos() const {
    const bool fallback = file_.text("tokenizer.ggml.model") == "llama";
    return file_.flag("tokenizer.ggml.add_bos_token").value_or(fallback) && special("bos");
  }

  std::optional<std::string> special(const std::string& name) const {
    const auto id = file_.integer(fmt::format("tokenizer.ggml.{}_token_id", name));
    if (!id || *id < 0 || *id >= static_cast<int64_t>(tokens_.size())) return std::nullopt;
    return tokens_[static_cast<size_t>(*id)];
  }

  const Cut& find_cut() const {
    const std::string name = file_.text("tokenizer.ggml.pre").value_or("gpt-2");
    for (const Cut& cut : kCuts) {
      if (name == cut.name) return cut;
    }
    throw ConfigError(fmt::format("{}: the pre-tokenizer \"{}\" is not supported; supported are {}",
                                  file_.path().string(), name, cut_names()));
  }

  json_ post_processor(const json_& otherwise) const {
    if (!adds_bos()) return otherwise;
    const std::string bos = *special("bos");
    const json_ token{{"SpecialToken", {{"id", bos}, {"type_id", 0}}}};
    const json_ a{{"Sequence", {{"id", "A"}, {"type_id", 0}}}};
    const json_ b{{"Sequence", {{"id", "B"}, {"type_id", 1}}}};
    return {{"type", "TemplateProcessing"},
            {"single", json_::array({token, a})},
            {"pair", json_::array({token, a, token, b})},
            {"special_tokens",
             {{bos,
               {{"id", bos},
                {"ids", json_::array({ids_.at(bos)})},
                {"tokens", json_::array({bos})}}}}}};
  }

  ordered_json skeleton(const std::vector<std::array<std::string, 2>>& merges,
                        bool fallback) const {
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

  // Returns all pairs of tokens that together are a token. The pair whose result has the highest
  // score comes first.
  std::vector<std::array<std::string, 2>> merges_of_scores() const {
    const auto scores = file_.numbers("tokenizer.ggml.scores").value_or(std::vector<double>());
    if (scores.size() != tokens_.size()) {
      throw IoError(fmt::format("{}: {} tokens, {} scores of them", file_.path().string(),
                                tokens_.size(), scores.size()));
    }
    std::vector<std::tuple<double, size_t, size_t>> found;  // minus its score, left and right token
    for (size_t id = 0; id < tokens_.size(); ++id) {
      if (static_cast<int>(types_[id]) != kNormal) continue;
      const std::string& text = tokens_[id];
      for (size_t cut = 1; cut < text.size(); ++cut) {
        if ((text[cut] & 0xC0) == 0x80) continue;  // within a UTF-8 character
        const auto left = ids_.find(text.substr(0, cut)), right = ids_.find(text.substr(cut));
        if (left != ids_.end() && right != ids_.end()) {
          found.emplace_back(-scores[id], left->second, right->second);
        }
      }
    }
    std::ranges::sort(found);
    std::vector<std::array<std::string, 2>> merges;
    for (const auto& [score, left, right] : found)
      merges.push_back({tokens_[left], tokens_[right]});
    return merges;
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
