#include "colossal/text/taught_text.h"

#include <algorithm>
#include <array>
#include <set>

#include "colossal/base/error.h"
#include "colossal/io/json.h"
#include "colossal/text/model_folder.h"
#include "colossal/text/tokenizer/pipeline_tokenizer.h"

namespace colossal::text {
namespace {

using nlohmann::ordered_json;

std::string* find_content(TokenizerFiles& files, const std::string& name) {
  const auto found = std::ranges::find(files, name, &TokenizerFiles::value_type::first);
  return found == files.end() ? nullptr : &found->second;
}

// Calls change(fields) with the object of a JSON file, and stores it if the call returns true.
template <typename Change>
void change_fields(TokenizerFiles& files, const std::string& name, const Change& change) {
  std::string* const content = find_content(files, name);
  if (!content) return;
  ordered_json fields = ordered_json::parse(*content, nullptr, /*allow_exceptions=*/false);
  if (fields.is_object() && change(fields)) *content = fields.dump(2) + "\n";
}

// Returns the tokens of an "eos_token_id", with `first` before them; null if it has all of `first`.
template <typename Json>
Json with_tokens(const std::vector<int32_t>& first, const Json& known) {
  std::vector<int32_t> before;
  if (known.is_array()) {
    for (const Json& token : known) {
      if (token.is_number_integer()) before.push_back(token.template get<int32_t>());
    }
  } else if (known.is_number_integer()) {
    before.push_back(known.template get<int32_t>());
  }
  const auto is_known = [&](int32_t token) {
    return std::ranges::find(before, token) != before.end();
  };
  if (std::ranges::all_of(first, is_known)) return nullptr;
  std::vector<int32_t> all = first;
  for (const int32_t token : before) {
    if (std::ranges::find(all, token) == all.end()) all.push_back(token);
  }
  return all.size() == 1 ? Json(all.front()) : Json(all);
}

bool any_template_names_end(const TokenizerFiles& files) {
  return std::ranges::any_of(files, [](const auto& file) {
    const auto& [name, content] = file;
    if (!name.ends_with(".jinja") && name != kTokenizerConfigFile && name != "chat_template.json") {
      return false;
    }
    if (name.ends_with(".jinja")) return content.find("eos_token") != content.npos;
    const ordered_json fields = ordered_json::parse(content, nullptr, false);
    const ordered_json chat =
        fields.is_object() ? fields.value("chat_template", ordered_json()) : ordered_json();
    return chat.dump().find("eos_token") != std::string::npos;
  });
}

}  // namespace

void set_chat_templates(TokenizerFiles& files, const std::vector<NamedTemplate>& templates) {
  std::erase_if(files, [](const auto& file) {
    return file.first == kTemplateFile || file.first == "chat_template.json" ||
           file.first.starts_with(std::string(kMoreTemplates) + "/");
  });
  change_fields(files, kTokenizerConfigFile,
                [](ordered_json& fields) { return fields.erase("chat_template") > 0; });
  for (const NamedTemplate& named : templates) {
    const std::string name = named.name == kDefaultTemplate
                                 ? kTemplateFile
                                 : std::string(kMoreTemplates) + "/" + named.name + ".jinja";
    files.emplace_back(name, named.source);
  }
}

void set_end_tokens(nlohmann::json* config, TokenizerFiles& files,
                    const std::vector<int32_t>& tokens, const Tokenizer& tokenizer) {
  constexpr const char* kField = "eos_token_id";
  nlohmann::json before;
  if (config) {
    before = config->value(kField, nlohmann::json());
    const nlohmann::json all = with_tokens(tokens, before);
    if (!all.is_null()) (*config)[kField] = all;
  }
  change_fields(files, kGenerationConfigFile, [&](ordered_json& fields) {
    const auto own = fields.find(kField);
    const bool has_own = own != fields.end() && !own->is_null();
    const ordered_json all = with_tokens(tokens, has_own ? *own : ordered_json(before));
    if (!all.is_null()) fields[kField] = all;
    return !all.is_null();
  });
  const bool is_tokenizers = tokens.front() == tokenizer.end_of_text();
  if (!is_tokenizers && any_template_names_end(files)) return;
  const std::string text = token_text(tokens.front(), tokenizer);
  if (text.empty()) return;  // a token without a text, of a tokenizer of bytes
  for (const char* name : {kTokenizerConfigFile, kSpecialTokensFile}) {
    const bool may_add = name == std::string_view(kTokenizerConfigFile) && !is_tokenizers;
    change_fields(files, name, [&](ordered_json& fields) {
      const ordered_json named = fields.value("eos_token", ordered_json());
      if (named.is_null() && !may_add) return false;
      if ((named.is_object() ? named.value("content", ordered_json()) : named) == text)
        return false;
      fields["eos_token"] = text;
      return true;
    });
  }
}

std::unique_ptr<Tokenizer> make_tokenizer_with_end(const std::string& specification,
                                                   const std::string& end) {
  std::filesystem::path file = specification;
  if (std::filesystem::is_directory(file)) file /= kTokenizerFile;
  const std::unique_ptr<Tokenizer> own = make_tokenizer(specification);
  std::unique_ptr<Tokenizer> made;
  if (!own->is_concatenative()) {  // not "bytes"
    TokenizerFiles files = read_tokenizer_files(file);
    if (!find_file(files, kTokenizerConfigFile)) files.emplace_back(kTokenizerConfigFile, "{}");
    for (const char* name : {kTokenizerConfigFile, kSpecialTokensFile}) {
      change_fields(files, name, [&](ordered_json& fields) {
        fields["eos_token"] = end;
        return true;
      });
    }
    made = std::make_unique<PipelineTokenizer>(file, std::move(files));
    // A token that tokenizer_config.json names is added to the vocabulary if it is not in it.
    const bool is_known = made->vocabulary_size() == own->vocabulary_size();
    if (is_known && token_text(made->end_of_text(), *made) == end) return made;
  }
  throw ConfigError(fmt::format("{}: has no token {}", specification, io::quote_text(end)));
}

std::string token_text(int32_t token, const Tokenizer& tokenizer) {
  for (const SpecialToken& special : tokenizer.special_tokens()) {
    if (special.token == token && !special.text.empty()) return special.text;
  }
  return tokenizer.decode_continuation(std::array{token});
}

std::optional<int32_t> end_of_turn(const ChatTemplate& chat_template, const Tokenizer& tokenizer) {
  constexpr std::string_view kAnswer = "the answer";
  const auto message = [](const char* role, std::string_view content) {
    return ordered_json{{"role", role}, {"content", content}};
  };
  std::string text;
  try {
    text = chat_template
               .render(ordered_json::array(
                           {message("user", "the question"), message("assistant", kAnswer)}),
                       {.add_generation_prompt = false})
               .text;
  } catch (const jinja::TemplateError&) {
    return std::nullopt;  // a template for other conversations
  }
  const size_t place = text.rfind(kAnswer);
  if (place == std::string::npos) return std::nullopt;
  std::set<int32_t> special;
  for (const SpecialToken& token : tokenizer.special_tokens()) special.insert(token.token);
  for (const int32_t token :
       tokenizer.encode(std::string_view(text).substr(place + kAnswer.size()))) {
    if (special.contains(token)) return token;
  }
  return std::nullopt;
}

}  // namespace colossal::text
