// What a training run teaches a model about the form of texts, and how the files of the saved model
// say it, so that programs which generate text write prompts as in training and stop where the
// model was taught to.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "colossal/text/chat_template.h"
#include "colossal/text/tokenizer/tokenizer.h"
#include "colossal/text/tokenizer/tokenizer_files.h"

namespace colossal::text {

struct TaughtText {
  // The templates that rendered the conversations; nullopt: those of the model's folder, or none.
  std::optional<std::vector<NamedTemplate>> chat_templates{};
  // The tokens that end texts, the most important one first: that of a turn, if there are
  // conversations. Empty: the run does not say; the tokenizer's end-of-text token ends texts.
  std::vector<int32_t> end_tokens{};
};

// Replaces all chat templates among a model's files: chat_template.jinja, chat_template.json,
// additional_chat_templates/ and those of tokenizer_config.json.
void set_chat_templates(TokenizerFiles& files, const std::vector<NamedTemplate>& templates);

// Makes a model's files name the tokens that end its texts. config: config.json; null: not to be
// changed. In config.json and in generation_config.json (if `files` has it), "eos_token_id" becomes
// `tokens` and the tokens that it lists already, unless it lists all of `tokens`. In
// tokenizer_config.json and special_tokens_map.json, "eos_token" becomes the text of the first
// token; unless it is not the tokenizer's end-of-text token and a chat template writes {{ eos_token
// }}, which would then render other prompts. tokens: at least one, of `tokenizer`.
void set_end_tokens(nlohmann::json* config, TokenizerFiles& files,
                    const std::vector<int32_t>& tokens, const Tokenizer& tokenizer);

// Returns the token with which the template ends what the assistant says: the first special token
// that it writes after the message. nullopt if it writes none.
std::optional<int32_t> end_of_turn(const ChatTemplate& chat_template, const Tokenizer& tokenizer);

// Opens a tokenizer as make_tokenizer() does, but with another end-of-text token, which its files()
// name too. end: the token's text. Throws ConfigError if the tokenizer has no such token or is
// "bytes", and as make_tokenizer().
std::unique_ptr<Tokenizer> make_tokenizer_with_end(const std::string& specification,
                                                   const std::string& end);

// Returns the text of a token, such as "<|im_end|>".
std::string token_text(int32_t token, const Tokenizer& tokenizer);

}  // namespace colossal::text
