#include "colossal/text/tokenizer/pipeline_definition.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "colossal/base/base64.h"
#include "colossal/text/tokenizer/character_sets.h"
#include "colossal/text/tokenizer/charsmap.h"
#include "colossal/text/tokenizer/oniguruma.h"
#include "colossal/text/utf8.h"

namespace colossal::text {
namespace {

constexpr size_t kMaxSteps = 32;  // most steps of a normalizer or a pre-tokenizer

// The expression that splits words in GPT-2, which ByteLevel applies if "use_regex" is true.
constexpr std::string_view kGpt2Expression =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

// Calls read() with each step of a "Sequence", including those of nested sequences, or with the
// node itself if it is none. A missing node has no steps.
template <typename Read>
void for_each_step(const JsonNode& node, const char* list, int depth, const Read& read) {
  if (node.is_null()) return;
  if (node["type"].string() != "Sequence") return read(node);
  if (depth == 0) node.refuse("is nested too deeply");
  if (!node[list].is_array()) node[list].refuse("is missing or no list");
  node[list].for_each([&](const JsonNode& step) { for_each_step(step, list, depth - 1, read); });
}

template <typename Read>
void for_each_step(const JsonNode& node, const char* list, const Read& read) {
  constexpr int kMaxDepth = 4;
  for_each_step(node, list, kMaxDepth, read);
}

template <typename Step>
void add_step(const JsonNode& where, Step step, std::vector<Step>& steps) {
  if (steps.size() == kMaxSteps) where.refuse(fmt::format("is one of more than {}", kMaxSteps));
  steps.push_back(std::move(step));
}

std::string read_literal(const JsonNode& node) {
  const std::string literal = node.string();
  if (literal.empty()) node.refuse("is empty");
  return literal;
}

std::string read_character(const JsonNode& node) {
  const std::string character = read_literal(node);
  size_t end = 0;
  next_code_point(character, end);
  if (end != character.size()) node.refuse(fmt::format("is \"{}\", not one character", character));
  return character;
}

PatternDefinition read_pattern(const JsonNode& node) {
  if (!node["String"].is_null()) {
    const std::string literal = read_literal(node["String"]);
    return {literal_to_pcre2(literal), literal};
  }
  const std::string expression = node["Regex"].string();
  return {oniguruma_to_pcre2(expression), expression};
}

std::string read_charsmap(const JsonNode& node) {
  const auto bytes = decode_base64(node.string());
  if (!bytes) node.refuse("is not base64");
  return *bytes;
}

// Reads the normalizer of BERT, which has up to four steps.
void read_bert_normalizer(const JsonNode& node, std::vector<NormalizerStep>& steps) {
  using Kind = NormalizerStep::Kind;
  const bool lower_case = node["lowercase"].boolean(true);
  const auto add_if = [&](bool on, Kind kind) {
    if (on) add_step(node, NormalizerStep{kind}, steps);
  };
  add_if(node["clean_text"].boolean(true), Kind::clean);
  add_if(node["handle_chinese_chars"].boolean(true), Kind::space_ideographs);
  add_if(node["strip_accents"].boolean(lower_case), Kind::strip_accents);
  add_if(lower_case, Kind::lower_case);
}

void read_normalizer_step(const JsonNode& node, std::vector<NormalizerStep>& steps) {
  using Kind = NormalizerStep::Kind;
  static const std::map<std::string, NormalizationForm> forms = {{"NFC", NormalizationForm::nfc},
                                                                 {"NFD", NormalizationForm::nfd},
                                                                 {"NFKC", NormalizationForm::nfkc},
                                                                 {"NFKD", NormalizationForm::nfkd}};
  static const std::map<std::string, Kind> plain_kinds = {{"Lowercase", Kind::lower_case},
                                                          {"StripAccents", Kind::strip_marks},
                                                          {"Nmt", Kind::clean_nmt}};
  const std::string type = node["type"].string();
  if (forms.contains(type)) {
    add_step(node, NormalizerStep{.kind = Kind::form, .form = forms.at(type)}, steps);
  } else if (plain_kinds.contains(type)) {
    add_step(node, NormalizerStep{plain_kinds.at(type)}, steps);
  } else if (type == "Prepend") {
    add_step(node, NormalizerStep{Kind::prepend, node["prepend"].string()}, steps);
  } else if (type == "Replace") {
    add_step(node,
             NormalizerStep{Kind::replace, node["content"].string(), read_pattern(node["pattern"])},
             steps);
  } else if (type == "Strip") {
    add_step(node,
             NormalizerStep{.kind = Kind::strip,
                            .strip_left = node["strip_left"].boolean(true),
                            .strip_right = node["strip_right"].boolean(true)},
             steps);
  } else if (type == "Precompiled") {
    add_step(node, NormalizerStep{Kind::charsmap, read_charsmap(node["precompiled_charsmap"])},
             steps);
  } else if (type == "BertNormalizer") {
    read_bert_normalizer(node, steps);
  } else {
    node["type"].refuse(
        fmt::format("is \"{}\"; \"NFC\", \"NFD\", \"NFKC\", \"NFKD\", \"Prepend\", \"Replace\", "
                    "\"Lowercase\", \"Strip\", \"StripAccents\", \"Nmt\", \"Precompiled\", "
                    "\"BertNormalizer\" and a \"Sequence\" of these are supported",
                    type));
  }
}

SplitDefinition::Behavior read_behavior(const JsonNode& node) {
  using Behavior = SplitDefinition::Behavior;
  static const std::map<std::string, Behavior> behaviors = {
      {"Isolated", Behavior::isolated},
      {"Removed", Behavior::removed},
      {"MergedWithPrevious", Behavior::merged_with_previous},
      {"MergedWithNext", Behavior::merged_with_next},
      {"Contiguous", Behavior::contiguous}};
  const std::string name = node.string();
  const auto found = behaviors.find(name);
  if (found != behaviors.end()) return found->second;
  node.refuse(
      fmt::format("is \"{}\"; \"Isolated\", \"Removed\", \"MergedWithPrevious\", "
                  "\"MergedWithNext\" and \"Contiguous\" are supported",
                  name));
}

PreTokenizerStep read_split(const JsonNode& node) {
  return {.split = SplitDefinition{read_pattern(node["pattern"]), read_behavior(node["behavior"]),
                                   node["invert"].boolean(false)}};
}

PreTokenizerStep read_digits(const JsonNode& node) {
  const bool each = node["individual_digits"].boolean(false);
  // Rust knows the digits of Unicode 17; category_members() lacks the newest ones.
  const std::string digits =
      "[" + *category_members("N") + R"(\x{11de0}-\x{11de9}\x{16ff4}-\x{16ff6}])";
  return {.split = SplitDefinition{{each ? digits : digits + "+", "of digits"}}};
}

PreTokenizerStep make_split(const std::string& expression, const std::string& name,
                            SplitDefinition::Behavior behavior) {
  return {.split = SplitDefinition{{expression, name}, behavior}};
}

PreTokenizerStep split_at_white_space() {
  return make_split("[" + white_space_members() + "]", "of white space",
                    SplitDefinition::Behavior::removed);
}

// Keeps the matches of \w+|[^\w\s]+, and drops all other text.
PreTokenizerStep keep_words_and_symbols() {
  const std::string word = rust_word_members();
  PreTokenizerStep step = make_split("[" + word + "]+|[^" + word + white_space_members() + "]+",
                                     "of words", SplitDefinition::Behavior::removed);
  step.split->invert = true;
  return step;
}

PreTokenizerStep split_punctuation(SplitDefinition::Behavior behavior) {
  return make_split(punctuation_expression(), "of punctuation", behavior);
}

PreTokenizerStep read_byte_level(const JsonNode& node) {
  PreTokenizerStep step;
  if (node["add_prefix_space"].boolean(true)) step.prefix = " ";
  if (node["use_regex"].boolean(true)) {
    step.split =
        SplitDefinition{{oniguruma_to_pcre2(kGpt2Expression), std::string(kGpt2Expression)}};
  }
  return step;
}

// Returns when a Metaspace prepends its character to a text: "always", "first" or "never". Older
// files have "add_prefix_space" only.
std::string read_prepend_scheme(const JsonNode& node) {
  const bool add = node["add_prefix_space"].boolean(true);
  const std::string scheme =
      node["prepend_scheme"].optional_string().value_or(add ? "always" : "never");
  if (scheme != "always" && scheme != "first" && scheme != "never") {
    node["prepend_scheme"].refuse(
        fmt::format("is \"{}\"; there are \"always\", \"first\" and \"never\"", scheme));
  }
  if (!add && scheme != "never") {
    node["prepend_scheme"].refuse(fmt::format("is \"{}\", but add_prefix_space is false", scheme));
  }
  return scheme;
}

PreTokenizerStep read_metaspace(const JsonNode& node) {
  const std::string replacement = read_character(node["replacement"]);
  const std::string scheme = read_prepend_scheme(node);
  PreTokenizerStep step{.space = replacement};
  if (scheme != "never") step.prefix = replacement;
  step.prefix_begins_text_only = scheme == "first";
  if (node["split"].boolean(true)) {
    // Each replacement character begins a word.
    const std::string literal = literal_to_pcre2(replacement);
    step.split = SplitDefinition{{literal + "[^" + literal + "]*", replacement}};
  }
  return step;
}

// Refuses "first" if it is unknown which piece begins the original text: after a split of a
// normalized text, or if the normalizer may drop the beginning.
void check_that_the_beginning_is_known(const JsonNode& node,
                                       const TokenizerDefinition& definition) {
  const auto drops = [](const NormalizerStep& step) { return step.may_remove_first_character(); };
  if (!definition.pre_tokenizer.empty() && !definition.normalizer.empty()) {
    node["prepend_scheme"].refuse(
        "is \"first\" after another pre-tokenizer and a normalizer; without one of these it is "
        "supported");
  }
  if (std::ranges::any_of(definition.normalizer, drops)) {
    node["prepend_scheme"].refuse(
        "is \"first\" after a normalizer that may drop what a text begins with; \"always\" and "
        "\"never\" are supported");
  }
}

// Returns whether the step is ByteLevel, after which only splits are allowed.
bool read_pre_tokenizer_step(const JsonNode& node, TokenizerDefinition& definition) {
  const std::string type = node["type"].string();
  std::vector<PreTokenizerStep>& steps = definition.pre_tokenizer;
  using Behavior = SplitDefinition::Behavior;
  if (type == "Split") {
    add_step(node, read_split(node), steps);
  } else if (type == "Digits") {
    add_step(node, read_digits(node), steps);
  } else if (type == "Punctuation") {
    const JsonNode behavior = node["behavior"];
    add_step(node,
             split_punctuation(behavior.is_null() ? Behavior::isolated : read_behavior(behavior)),
             steps);
  } else if (type == "Whitespace") {
    add_step(node, keep_words_and_symbols(), steps);
  } else if (type == "WhitespaceSplit") {
    add_step(node, split_at_white_space(), steps);
  } else if (type == "CharDelimiterSplit") {
    add_step(node,
             make_split(literal_to_pcre2(read_character(node["delimiter"])), "of a delimiter",
                        Behavior::removed),
             steps);
  } else if (type == "BertPreTokenizer") {
    add_step(node, split_at_white_space(), steps);
    add_step(node, split_punctuation(Behavior::isolated), steps);
  } else if (type == "Metaspace") {
    PreTokenizerStep step = read_metaspace(node);
    if (step.prefix_begins_text_only) check_that_the_beginning_is_known(node, definition);
    add_step(node, std::move(step), steps);
  } else if (type == "ByteLevel") {
    add_step(node, read_byte_level(node), steps);
    return true;
  } else {
    node["type"].refuse(fmt::format(
        "is \"{}\"; \"ByteLevel\", \"BertPreTokenizer\", \"CharDelimiterSplit\", \"Digits\", "
        "\"Metaspace\", \"Punctuation\", \"Split\", \"Whitespace\", \"WhitespaceSplit\" and a "
        "\"Sequence\" of these are supported",
        type));
  }
  return false;
}

void read_pre_tokenizer(const JsonNode& node, TokenizerDefinition& definition) {
  bool in_alphabet = false;
  for_each_step(node, "pretokenizers", [&](const JsonNode& step) {
    const std::string type = step["type"].string();
    if (definition.byte_level && (type == "ByteLevel" || type == "Metaspace")) {
      step.refuse(fmt::format("(\"{}\") comes after \"ByteLevel\"", type));
    }
    // ByteLevel's byte alphabet matters only to splits that follow.
    if (definition.byte_level && !std::exchange(in_alphabet, true)) {
      definition.pre_tokenizer.back().to_byte_alphabet = true;
    }
    definition.byte_level |= read_pre_tokenizer_step(step, definition);
  });
  if (definition.byte_level && !std::holds_alternative<BpeDefinition>(definition.model)) {
    node.refuse("has \"ByteLevel\", which is supported with model.type = \"BPE\" only");
  }
}

using Tokens = std::vector<int32_t>;

void append_special_token(const JsonNode& template_node, const std::string& name, Tokens& tokens) {
  const JsonNode ids = template_node["special_tokens"][name.c_str()]["ids"];
  if (!ids.is_array()) ids.refuse("is missing or no list");
  ids.for_each([&](const JsonNode& id) { tokens.push_back(id.token()); });
}

// Reads the special tokens before and after the only text, "A".
void read_template(const JsonNode& node, Tokens& before, Tokens& after) {
  int num_texts = 0;
  node["single"].for_each([&](const JsonNode& part) {
    if (part["SpecialToken"].is_null()) {
      num_texts += part["Sequence"]["id"].string() == "A";
    } else {
      append_special_token(node, part["SpecialToken"]["id"].string(),
                           num_texts == 0 ? before : after);
    }
  });
  if (num_texts != 1) node["single"].refuse(fmt::format("has the text {} times", num_texts));
}

// Reads the special tokens and types of a pair of texts, "A" and "B".
std::vector<PairPart> read_pair_template(const JsonNode& node) {
  std::vector<PairPart> parts;
  if (!node["pair"].is_array()) return parts;
  int num_texts = 0;
  node["pair"].for_each([&](const JsonNode& part) {
    PairPart& made = parts.emplace_back();
    if (part["SpecialToken"].is_null()) {
      const std::string text = part["Sequence"]["id"].string();
      made.kind = text == "A" ? PairPart::Kind::first_text : PairPart::Kind::second_text;
      made.type = static_cast<int32_t>(part["Sequence"]["type_id"].number(0));
      ++num_texts;
    } else {
      append_special_token(node, part["SpecialToken"]["id"].string(), made.tokens);
      made.type = static_cast<int32_t>(part["SpecialToken"]["type_id"].number(0));
    }
  });
  if (num_texts != 2) node["pair"].refuse(fmt::format("has {} texts", num_texts));
  return parts;
}

// Returns how BERT and RoBERTa arrange a pair of texts. between: the tokens between the texts.
std::vector<PairPart> pair_of(const Tokens& before, const Tokens& between, const Tokens& after,
                              int32_t second_type) {
  using Kind = PairPart::Kind;
  return {{Kind::special_tokens, before, 0},
          {Kind::first_text, {}, 0},
          {Kind::special_tokens, between, 0},
          {Kind::second_text, {}, second_type},
          {Kind::special_tokens, after, second_type}};
}

// Returns the number of "cls" or "sep", which are a list of a token and its number.
int32_t read_numbered_token(const JsonNode& node) {
  Tokens numbers;
  node.for_each([&](const JsonNode& part) {
    if (!part.is_string()) numbers.push_back(part.token());
  });
  if (numbers.size() != 1) node.refuse("is not a token with its number");
  return numbers[0];
}

void read_post_processor_step(const JsonNode& node, TokenizerDefinition& definition) {
  const std::string type = node["type"].string();
  Tokens before, after;
  std::vector<PairPart> pair;
  if (type == "TemplateProcessing") {
    read_template(node, before, after);
    pair = read_pair_template(node);
  } else if (type == "BertProcessing" || type == "RobertaProcessing") {
    before = {read_numbered_token(node["cls"])};
    after = {read_numbered_token(node["sep"])};
    const bool is_bert = type == "BertProcessing";
    pair = pair_of(before, is_bert ? after : Tokens{after[0], after[0]}, after, is_bert ? 1 : 0);
  } else if (type != "ByteLevel") {
    node["type"].refuse(
        fmt::format("is \"{}\"; \"TemplateProcessing\", \"BertProcessing\", \"RobertaProcessing\", "
                    "\"ByteLevel\" and a \"Sequence\" of these are supported",
                    type));
  }
  if (before.empty() && after.empty() && pair.empty()) return;
  if (!definition.before_text.empty() || !definition.after_text.empty() ||
      !definition.pair.empty()) {
    node.refuse(fmt::format("(\"{}\") comes after another one that adds tokens", type));
  }
  definition.before_text = std::move(before);
  definition.after_text = std::move(after);
  definition.pair = std::move(pair);
}

void check_byte_level_decoder(const JsonNode& node) {
  if (node.is_null()) return;
  const std::string type = node["type"].string();
  if (type != "ByteLevel") {
    node["type"].refuse(fmt::format(
        "is \"{}\"; after a pre-tokenizer \"ByteLevel\" it must be \"ByteLevel\"", type));
  }
}

void read_strip(const JsonNode& node, DecoderDefinition& decoder) {
  const std::string content = node["content"].string();
  if (content.size() != 1) {
    node["content"].refuse(fmt::format("is \"{}\"; one ASCII character is supported", content));
  }
  const double start = node["start"].number(0), stop = node["stop"].number(0);
  if (stop != 0 || (start != 0 && start != 1)) {
    node.refuse(fmt::format("has start = {}, stop = {}; start = 0 or 1 and stop = 0 are supported",
                            start, stop));
  }
  if (start == 1) decoder.strip = content;
}

// Reads a decoder step by step. Refuses steps in an order that DecoderDefinition does not have.
class DecoderReader {
 public:
  explicit DecoderReader(DecoderDefinition& decoder) : decoder_(decoder) {}

  void read(const JsonNode& node) {
    const std::string type = node["type"].string();
    if (type == "Replace") {
      enter(node, type, Stage::replace);
      const std::string content = node["content"].string();
      decoder_.replacements.push_back({read_literal(node["pattern"]["String"]), content, content});
    } else if (type == "Metaspace") {
      enter(node, type, Stage::metaspace);
      has_metaspace_ = true;
      const bool prepends = read_prepend_scheme(node) != "never";
      decoder_.replacements.push_back(
          {read_character(node["replacement"]), " ", prepends ? "" : " "});
    } else if (type == "ByteFallback") {
      enter(node, type, Stage::byte_fallback);
      decoder_.byte_fallback = true;
    } else if (type == "Fuse") {
      enter(node, type, Stage::fuse);
    } else if (type == "Strip" && stage_ >= Stage::fuse) {
      enter(node, type, Stage::strip);
      if (has_metaspace_)
        node.refuse("(\"Strip\") comes after \"Metaspace\", which strips as well");
      read_strip(node, decoder_);
    } else if (type == "ByteLevel") {
      node["type"].refuse("is \"ByteLevel\", which the pre_tokenizer has not");
    } else {
      node["type"].refuse(fmt::format("is \"{}\"; without \"ByteLevel\", {}", type, kSupported));
    }
  }

 private:
  enum class Stage { none, replace, metaspace, byte_fallback, fuse, strip };
  static constexpr const char* kSupported =
      "\"WordPiece\", or \"Replace\", \"Metaspace\", \"ByteFallback\", \"Fuse\" and then \"Strip\" "
      "in "
      "this order, are supported";

  void enter(const JsonNode& node, const std::string& type, Stage stage) {
    const bool repeats = stage == Stage::replace || stage == Stage::fuse;
    if (stage < stage_ || (stage == stage_ && !repeats)) {
      node.refuse(fmt::format("(\"{}\") comes too late; {}", type, kSupported));
    }
    stage_ = stage;
  }

  DecoderDefinition& decoder_;
  Stage stage_ = Stage::none;
  bool has_metaspace_ = false;
};

void read_text_decoder(const JsonNode& node, DecoderDefinition& decoder) {
  if (node.is_null()) node.refuse("is missing; without one, tokens are not joined to a text");
  if (node["type"].string() == "WordPiece") {
    decoder.words = {node["prefix"].optional_string().value_or("##"),
                     node["cleanup"].boolean(true)};
    return;
  }
  DecoderReader reader(decoder);
  for_each_step(node, "decoders", [&](const JsonNode& step) { reader.read(step); });
}

}  // namespace

void read_pipeline(const JsonNode& root, TokenizerDefinition& definition) {
  for_each_step(root["normalizer"], "normalizers",
                [&](const JsonNode& step) { read_normalizer_step(step, definition.normalizer); });
  read_pre_tokenizer(root["pre_tokenizer"], definition);
  for_each_step(root["post_processor"], "processors",
                [&](const JsonNode& step) { read_post_processor_step(step, definition); });
  if (definition.byte_level) {
    check_byte_level_decoder(root["decoder"]);
  } else {
    read_text_decoder(root["decoder"], definition.decoder);
  }
}

}  // namespace colossal::text
