#include "colossal/text/tokenizer/companion_tokens.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "colossal/base/error.h"
#include "colossal/text/tokenizer/json_node.h"

namespace colossal::text {
namespace {

constexpr const char* kAddedTokensFile = "added_tokens.json";
constexpr const char* kDecoder = "added_tokens_decoder";
constexpr std::array kStandardNames{"bos_token", "eos_token", "unk_token", "sep_token",
                                    "pad_token", "cls_token", "mask_token"};

bool are_equal(const AddedToken& a, const AddedToken& b) {
  return a.content == b.content && a.single_word == b.single_word && a.strip_left == b.strip_left &&
         a.strip_right == b.strip_right && a.match_normalized == b.match_normalized &&
         a.special == b.special;
}

// Reads a token that is a text, or an object with its text and how it is searched for. A text
// stands for a special token.
AddedToken read_token(const JsonNode& node) {
  AddedToken token;
  if (node.is_string()) {
    token.content = node.string();
    token.special = true;
    return token;
  }
  token.content = node["content"].string();
  token.single_word = node["single_word"].boolean(false);
  token.strip_left = node["lstrip"].boolean(false);
  token.strip_right = node["rstrip"].boolean(false);
  token.special = node["special"].boolean(false);
  token.match_normalized = node["normalized"].boolean(true);
  return token;
}

// A token of the files. number: -1 if the files give it none.
struct FileToken {
  AddedToken token;
  int64_t number = -1;
  std::string file;
};

class CompanionReader {
 public:
  CompanionReader(const TokenizerFiles& files, const std::filesystem::path& folder)
      : files_(files), folder_(folder) {}

  // Reads the files; sets `tokens`, in the order in which they are added, and `named`.
  TokenizerConfig read(const TokenizerDefinition& definition) {
    const std::string file = path_of(kTokenizerConfigFile);
    nlohmann::json config = parse(kTokenizerConfigFile);
    if (config.is_null()) config = nlohmann::json::object();
    const JsonNode root(config, file, "");
    if (!root[kDecoder].is_null()) {
      read_decoder(root[kDecoder], file);
    } else {
      merge_special_tokens(config);
    }
    read_names(root);
    if (root[kDecoder].is_null()) read_added_tokens(definition);
    std::ranges::stable_sort(tokens, {}, &FileToken::number);
    TokenizerConfig read;
    if (const auto end = names_.find("eos_token"); end != names_.end()) {
      read.end_of_text = end->second.content;
    }
    if (const auto mask = names_.find("mask_token"); mask != names_.end()) {
      read.mask = mask->second.content;
    }
    read.split_special_tokens = root["split_special_tokens"].boolean(false);
    add_named(file);
    return read;
  }

  std::vector<FileToken> tokens;
  std::set<std::string> named;  // texts of the named tokens, which are special

 private:
  std::string path_of(const char* name) const { return (folder_ / name).string(); }

  // Returns the content of a file; null if there is none.
  nlohmann::json parse(const char* name) const {
    const std::string* content = find_file(files_, name);
    return content ? parse_json(*content, path_of(name)) : nlohmann::json();
  }

  void read_decoder(const JsonNode& decoder, const std::string& file) {
    decoder.for_each_member([&](const std::string& number, const JsonNode& node) {
      const bool is_number =
          !number.empty() && number.size() < 10 &&
          std::ranges::all_of(number, [](char c) { return c >= '0' && c <= '9'; });
      if (!is_number) node.refuse("is not under the number of a token");
      tokens.push_back({read_token(node), std::stoll(number), file});
    });
  }

  // Puts the fields of special_tokens_map.json into those of tokenizer_config.json.
  void merge_special_tokens(nlohmann::json& config) const {
    nlohmann::json map = parse(kSpecialTokensFile);
    if (!map.is_object()) return;
    for (auto& [name, value] : map.items()) {
      if (value.is_object() && value.contains("content")) value["special"] = true;
      config[name] = value;
    }
  }

  void read_names(const JsonNode& root) {
    root.for_each_member([&](const std::string& name, const JsonNode& node) {
      const bool is_standard = std::ranges::count(kStandardNames, name) > 0;
      const bool is_token = name.ends_with("_token") && (is_standard || node.is_string());
      if (is_token && !node.is_null()) names_[name] = read_token(node);
    });
    JsonNode extra = root["extra_special_tokens"];
    if (!extra.is_null() && !extra.is_array()) {
      extra.for_each_member(
          [&](const std::string& name, const JsonNode& node) { names_[name] = read_token(node); });
      return;
    }
    const JsonNode older = root["additional_special_tokens"];
    (extra.size() > 0 ? extra : older).for_each([&](const JsonNode& node) {
      extra_.push_back(read_token(node));
    });
  }

  void read_added_tokens(const TokenizerDefinition& definition) {
    const nlohmann::json added = parse(kAddedTokensFile);
    if (added.is_null()) return;
    const std::string file = path_of(kAddedTokensFile);
    const auto is_special = [&](const std::string& content) {
      const auto is_it = [&](const auto& name) { return name.second.content == content; };
      return std::ranges::any_of(names_, is_it) ||
             std::ranges::count(extra_, content, &AddedToken::content) > 0;
    };
    JsonNode(added, file, "")
        .for_each_member([&](const std::string& content, const JsonNode& node) {
          const int32_t number = node.token();
          if (std::ranges::count(definition.added_tokens, number, &AddedToken::id) > 0) return;
          AddedToken token{.content = content};
          token.special = is_special(content);
          token.match_normalized = !token.special;
          tokens.push_back({token, number, file});
        });
  }

  // Adds the named and the extra tokens that are not among `tokens`.
  void add_named(const std::string& file) {
    std::vector<AddedToken> wanted;
    for (const char* name : kStandardNames) {
      if (const auto found = names_.find(name); found != names_.end()) {
        wanted.push_back(found->second);
        names_.erase(found);
      }
    }
    for (const auto& [name, token] : names_) wanted.push_back(token);
    for (const AddedToken& token : wanted) named.insert(token.content);
    wanted.insert(wanted.end(), extra_.begin(), extra_.end());
    for (const AddedToken& token : wanted) {
      const auto is_it = [&](const FileToken& other) {
        return other.token.content == token.content;
      };
      if (std::ranges::none_of(tokens, is_it)) tokens.push_back({token, -1, file});
    }
  }

  const TokenizerFiles& files_;
  const std::filesystem::path& folder_;
  std::map<std::string, AddedToken> names_;  // by name, such as "eos_token"
  std::vector<AddedToken> extra_;
};

// Adds tokens to a definition as `tokenizers` does.
class TokenAdder {
 public:
  explicit TokenAdder(TokenizerDefinition& definition) : definition_(definition) {}

  void add(const FileToken& given) {
    std::vector<AddedToken>& added = definition_.added_tokens;
    const std::string& content = given.token.content;
    const auto existing = std::ranges::find(added, content, &AddedToken::content);
    const int32_t number = existing != added.end() ? existing->id : number_of(content);
    if (given.number >= 0 && given.number != number) {
      throw ConfigError(fmt::format(
          "{}: gives \"{}\" the number {}, but beside this tokenizer.json it would get {}; save "
          "the tokenizer again with transformers' save_pretrained",
          given.file, content, given.number, number));
    }
    AddedToken token = given.token;
    token.id = number;
    if (existing == added.end()) {
      added.push_back(std::move(token));
    } else {
      *existing = std::move(token);
    }
  }

 private:
  int32_t number_of(const std::string& content) {
    if (in_vocabulary_.empty()) in_vocabulary_ = index_of(definition_.vocabulary);
    const auto found = in_vocabulary_.find(content);
    if (found != in_vocabulary_.end()) return found->second;
    auto next = static_cast<int32_t>(definition_.vocabulary.size());
    for (const AddedToken& token : definition_.added_tokens) next = std::max(next, token.id + 1);
    return next;
  }

  TokenizerDefinition& definition_;
  std::unordered_map<std::string_view, int32_t> in_vocabulary_;
};

}  // namespace

TokenizerConfig add_companion_tokens(const TokenizerFiles& files,
                                     const std::filesystem::path& folder,
                                     TokenizerDefinition& definition) {
  CompanionReader reader(files, folder);
  const TokenizerConfig config = reader.read(definition);
  TokenAdder adder(definition);
  const std::vector<AddedToken> own = definition.added_tokens;  // of the tokenizer.json
  for (FileToken& given : reader.tokens) {
    if (given.token.content.empty()) continue;
    const auto same = std::ranges::find(own, given.token.content, &AddedToken::content);
    const bool is_named_only = given.number < 0;
    if (same != own.end() && (is_named_only || are_equal(*same, given.token))) continue;
    if (reader.named.contains(given.token.content)) given.token.special = true;
    adder.add(given);
  }
  return config;
}

}  // namespace colossal::text
