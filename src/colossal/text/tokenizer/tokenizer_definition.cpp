#include "colossal/text/tokenizer/tokenizer_definition.h"

#include <fmt/format.h>

#include <unordered_map>
#include <unordered_set>

#include "colossal/text/tokenizer/json_node.h"
#include "colossal/text/tokenizer/pipeline_definition.h"

namespace colossal::text {
namespace {

void check_bpe(const JsonNode& model) {
  if (model["dropout"].number(0) != 0) {
    model["dropout"].refuse("is set: the same text would give other tokens each time; use null");
  }
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    if (!model[key].optional_string().value_or("").empty()) {
      model[key].refuse("is set; only BPE without one is supported");
    }
  }
}

Vocabulary read_vocabulary(const JsonNode& node) {
  Vocabulary vocabulary;
  std::unordered_map<int32_t, std::string> owners;
  node.for_each_member([&](const std::string& token, const JsonNode& value) {
    const int32_t id = value.token();
    const auto [owner, is_new] = owners.emplace(id, token);
    if (!is_new) value.refuse(fmt::format("is {}, as is \"{}\"", id, owner->second));
    vocabulary.emplace_back(token, id);
  });
  return vocabulary;
}

void read_merge(const JsonNode& node, BpeDefinition& model) {
  if (node.is_array()) {
    std::vector<std::string> pair;
    node.for_each([&](const JsonNode& part) { pair.push_back(part.string()); });
    if (pair.size() != 2) node.refuse(fmt::format("has {} tokens; 2 are needed", pair.size()));
    model.merges.emplace_back(pair[0], pair[1]);
    return;
  }
  const std::string line = node.string();
  if (line.starts_with("#version")) return;
  const size_t space = line.find(' ');
  if (space == std::string::npos || line.find(' ', space + 1) != std::string::npos) {
    node.refuse(fmt::format("is \"{}\"; two tokens with a space between them are needed", line));
  }
  model.merges.emplace_back(line.substr(0, space), line.substr(space + 1));
}

BpeDefinition read_bpe(const JsonNode& node) {
  check_bpe(node);
  BpeDefinition model;
  if (!node["merges"].is_array()) node["merges"].refuse("is missing or no list");
  node["merges"].for_each([&](const JsonNode& merge) { read_merge(merge, model); });
  model.unknown_token = node["unk_token"].optional_string();
  model.fuse_unknown = node["fuse_unk"].boolean(false);
  model.ignore_merges = node["ignore_merges"].boolean(false);
  model.byte_fallback = node["byte_fallback"].boolean(false);
  return model;
}

// Reads pairs of a token and its score. A token's number is its index in the list.
void read_scored_vocabulary(const JsonNode& node, Vocabulary& vocabulary,
                            UnigramDefinition& model) {
  if (!node.is_array()) node.refuse("is missing or no list");
  std::unordered_set<std::string> tokens;
  node.for_each([&](const JsonNode& pair) {
    if (pair.size() != 2) pair.refuse("is not a token with its score");
    const std::string token = pair.element(0).string();
    if (!tokens.insert(token).second) pair.refuse(fmt::format("repeats the token \"{}\"", token));
    if (vocabulary.size() > JsonNode::kMaxToken) pair.refuse("is one token too many");
    vocabulary.emplace_back(token, static_cast<int32_t>(vocabulary.size()));
    model.scores.push_back(pair.element(1).number(std::nullopt));
  });
}

UnigramDefinition read_unigram(const JsonNode& node, Vocabulary& vocabulary) {
  UnigramDefinition model;
  read_scored_vocabulary(node["vocab"], vocabulary, model);
  if (node["unk_id"].is_null()) {
    node["unk_id"].refuse("is missing; a character without a token would be an error");
  }
  model.unknown = node["unk_id"].token();
  if (model.unknown >= std::ssize(vocabulary)) {
    node["unk_id"].refuse(
        fmt::format("is {}, but there are {} tokens", model.unknown, vocabulary.size()));
  }
  model.byte_fallback = node["byte_fallback"].boolean(false);
  return model;
}

WordPieceDefinition read_word_piece(const JsonNode& node) {
  return {
      .unknown_token = node["unk_token"].string(),
      .continuing_prefix = node["continuing_subword_prefix"].string(),
      .max_word_characters = static_cast<int64_t>(node["max_input_chars_per_word"].number(100))};
}

void read_model(const JsonNode& node, TokenizerDefinition& definition) {
  const std::string type = node["type"].optional_string().value_or("BPE");  // old files lack it
  if (type == "Unigram") {
    definition.model = read_unigram(node, definition.vocabulary);
    return;
  }
  if (type != "BPE" && type != "WordPiece") {
    node["type"].refuse(
        fmt::format("is \"{}\"; \"BPE\", \"Unigram\" and \"WordPiece\" are supported", type));
  }
  definition.vocabulary = read_vocabulary(node["vocab"]);
  if (type == "BPE") {
    definition.model = read_bpe(node);
  } else {
    definition.model = read_word_piece(node);
  }
}

// Numbers added tokens as `tokenizers` does: with the number in the vocabulary, else with the next
// free number in the order of the file. `tokenizers` ignores "id"; the caller requires that both
// agree.
class AddedTokenNumbers {
 public:
  explicit AddedTokenNumbers(const Vocabulary& vocabulary)
      : vocabulary_(index_of(vocabulary)), next_(static_cast<int32_t>(vocabulary.size())) {
    for (const auto& [token, id] : vocabulary) taken_.insert(id);
  }

  int32_t number_of(const JsonNode& node, const std::string& content) {
    const auto of_vocabulary = vocabulary_.find(content);
    if (of_vocabulary != vocabulary_.end()) return of_vocabulary->second;
    const auto [added, is_new] = added_.emplace(content, next_);
    if (!is_new) return added->second;
    if (!taken_.insert(next_).second) {
      node.refuse(fmt::format(
          "(\"{}\") gets the number {}, which model.vocab gives to another token", content, next_));
    }
    return next_++;
  }

 private:
  std::unordered_map<std::string_view, int32_t> vocabulary_;
  std::unordered_map<std::string, int32_t> added_;
  std::unordered_set<int32_t> taken_;
  int32_t next_;
};

void read_added_tokens(const JsonNode& node, TokenizerDefinition& definition) {
  AddedTokenNumbers numbers(definition.vocabulary);
  std::unordered_map<std::string, size_t> places;  // indices in definition.added_tokens
  node.for_each([&](const JsonNode& entry) {
    AddedToken token;
    token.content = entry["content"].string();
    token.id = entry["id"].token();
    token.single_word = entry["single_word"].boolean(false);
    token.strip_left = entry["lstrip"].boolean(false);
    token.strip_right = entry["rstrip"].boolean(false);
    token.special = entry["special"].boolean(false);
    token.match_normalized = entry["normalized"].boolean(!token.special);
    if (token.content.empty()) return;  // an empty text cannot be found
    const int32_t number = numbers.number_of(entry, token.content);
    if (number != token.id) {
      entry["id"].refuse(fmt::format("of \"{}\" is {}, but `tokenizers` would give it {}",
                                     token.content, token.id, number));
    }
    const auto [place, is_new] = places.emplace(token.content, definition.added_tokens.size());
    if (is_new) definition.added_tokens.emplace_back();
    definition.added_tokens[place->second] = std::move(token);
  });
}

}  // namespace

bool NormalizerStep::may_remove_first_character() const {
  switch (kind) {
    case Kind::strip:
      return strip_left;
    case Kind::replace:
      return content.empty();
    case Kind::strip_marks:
    case Kind::strip_accents:
    case Kind::clean:
    case Kind::clean_nmt:
      return true;
    default:
      return false;
  }
}

std::unordered_map<std::string_view, int32_t> index_of(const Vocabulary& vocabulary) {
  std::unordered_map<std::string_view, int32_t> numbers;
  numbers.reserve(vocabulary.size());
  for (const auto& [token, id] : vocabulary) numbers.emplace(token, id);
  return numbers;
}

TokenizerDefinition read_tokenizer_definition(std::string_view text, const std::string& file) {
  const nlohmann::json value = parse_json(text, file);
  const JsonNode root(value, file, "");
  TokenizerDefinition definition;
  read_model(root["model"], definition);
  read_added_tokens(root["added_tokens"], definition);
  read_pipeline(root, definition);
  return definition;
}

TokenizerConfig read_tokenizer_config(std::string_view text, const std::string& file) {
  const nlohmann::json value = parse_json(text, file);
  const JsonNode root(value, file, "");
  TokenizerConfig config;
  const auto read_token = [&](const char* name) {
    const JsonNode node = root[name];
    return node.is_null() || node.is_string() ? node.optional_string()
                                              : node["content"].optional_string();
  };
  config.end_of_text = read_token("eos_token");
  config.mask = read_token("mask_token");
  config.beginning = read_token("bos_token");
  config.split_special_tokens = root["split_special_tokens"].boolean(false);
  return config;
}

std::optional<int32_t> read_end_of_text(std::string_view text, const std::string& file) {
  const nlohmann::json value = parse_json(text, file);
  const JsonNode node = JsonNode(value, file, "")["eos_token_id"];
  if (node.is_null()) return std::nullopt;
  if (!node.is_array()) return node.token();
  std::optional<int32_t> first;
  node.for_each([&](const JsonNode& token) {
    if (!first) first = token.token();
  });
  return first;
}

}  // namespace colossal::text
