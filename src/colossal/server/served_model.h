// What the server knows of its model besides the weights: names, tokenizer, chat template and
// defaults of generation.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "colossal/models/labels.h"
#include "colossal/serve/generation_settings.h"
#include "colossal/serve/request.h"
#include "colossal/server/adapter_registry.h"
#include "colossal/server/chat_form.h"
#include "colossal/text/answer/reasoning_form.h"
#include "colossal/text/answer/tool_call_form.h"
#include "colossal/text/model_folder.h"
#include "colossal/text/tokenizer/tokenizer.h"

namespace colossal::server {

// A conversation as tokens.
struct ChatPrompt {
  std::vector<int32_t> tokens;
  text::AnswerBegin begin = text::AnswerBegin::anywhere;  // where the answer begins
};

// The set_...() functions may be called only before requests are answered. The other functions are
// thread-safe.
class ServedModel {
 public:
  // Reads the tokenizer, the chat template, the default of pooling, and the end tokens from a model
  // folder. name: the model's name in requests. max_length: maximum tokens of a
  // prompt and its answer together. vocabulary: number of tokens for which the model has logits.
  // causal: whether the model is a decoder. labels: of a model that gives texts scores; nullopt: it
  // has none. generation: how answers are generated where a request says nothing else.
  // Throws IoError if a file cannot be read, and ConfigError if a file is invalid.
  ServedModel(const text::ModelFolder& folder, std::string name, int64_t max_length,
              int64_t vocabulary, bool causal = true,
              std::optional<models::Labels> labels = std::nullopt,
              serve::GenerationSettings generation = {});

  // Call after the model is loaded. Without this call, there are no adapters.
  void set_adapters(std::unique_ptr<AdapterRegistry> adapters) { adapters_ = std::move(adapters); }
  AdapterRegistry& adapters() { return *adapters_; }
  const AdapterRegistry& adapters() const { return *adapters_; }
  // Call after the engine is made, with Engine::options().max_model_len: it may be less than the
  // constructor's max_length, for example because the KV cache has no room for so long a sequence.
  void set_max_length(int64_t length) { max_length_ = length; }

  // Call for an encoder-decoder, with the number of tokens that precede the generated ones
  // (models::ModelFacts::decoder_prompt): prompts are read by the encoder, and do not count.
  void set_decoder_prompt(int64_t tokens) { decoder_prompt_ = tokens; }
  // Returns whether the model is an encoder-decoder: its encoder reads a prompt, and its decoder
  // writes a text of its own.
  bool reads_prompts() const { return decoder_prompt_ > 0; }
  // Returns the number of tokens that precede the text generated for a prompt of `prompt` tokens.
  int64_t tokens_before_text(int64_t prompt) const {
    return decoder_prompt_ > 0 ? decoder_prompt_ : prompt;
  }

  const std::string& name() const { return name_; }
  // Returns the names of the model and of its adapters for error messages: "a", "b".
  std::string quoted_names() const;
  int64_t max_length() const { return max_length_; }
  int64_t vocabulary() const { return vocabulary_; }
  // Returns whether the model is a decoder; false for an encoder.
  bool causal() const { return causal_; }
  // Returns the labels of a model that gives texts scores; nullopt if it has none.
  const std::optional<models::Labels>& labels() const { return labels_; }
  // Returns whether the model predicts the next token.
  bool generates() const { return causal_ && !labels_; }
  // Returns the time of construction, in seconds since 1970.
  int64_t created() const { return created_; }
  const text::Tokenizer& tokenizer() const { return *tokenizer_; }
  // Returns the chat template; null if the model has none.
  const text::ChatTemplate* chat_template() const {
    return form_.chat_template ? &*form_.chat_template : nullptr;
  }
  // Returns how answers are generated where a request says nothing else.
  const serve::GenerationSettings& generation() const { return generation_; }
  // Returns the default pooling of embeddings.
  serve::Pooling pooling() const { return pooling_; }
  // Returns the token ids that end an answer.
  const std::vector<int32_t>& end_tokens() const { return form_.end_tokens; }
  // Reads what an adapter of the model, in the folder `adapter`, was taught. The model's folder
  // must still exist. Throws IoError if a file cannot be read, and ConfigError if one is invalid.
  ChatForm form_of_adapter(const std::filesystem::path& adapter) const;
  bool is_special(int32_t token) const { return special_.contains(token); }
  // Returns the special token with this text; nullopt if there is none.
  std::optional<int32_t> special_token(std::string_view text) const;
  // Sets the forms of answers, which are otherwise those that the chat template teaches the model.
  void set_forms(std::optional<text::ToolCallForm> calls,
                 std::optional<text::ReasoningForm> reasoning);
  text::ToolCallForm tool_call_form() const { return tool_call_form_; }
  text::ReasoningForm reasoning_form() const { return reasoning_form_; }
  // Returns the token that begins reasoning, or -1: none does alone; and the text that ends it.
  int32_t reasoning_token() const { return reasoning_token_; }
  std::string_view reasoning_end() const { return reasoning_end_; }
  // Returns true if the token is a special token that marks tool calls or reasoning in these forms.
  bool is_answer_marker(int32_t token) const { return answer_markers_.contains(token); }

  // Returns the bytes that a token decodes to after other tokens.
  std::string bytes_of(int32_t token) const;

  // What to do with a text that is too long to be tokenized. The limit bounds the cost of
  // tokenization.
  enum class LongText {
    refuse,     // a text of more than 8 * max_length bytes is an ApiError 400
    cut_begin,  // its last 16 * max_length bytes are tokenized
    cut_end     // its first 16 * max_length bytes are tokenized
  };
  // Returns the tokens of a prompt. add_special_tokens: add the special tokens that the model
  // expects (Tokenizer::encode_prompt()). Throws ApiError 400 if the text is not UTF-8, or is
  // refused as a long text.
  std::vector<int32_t> encode(std::string_view text, bool add_special_tokens,
                              LongText long_text = LongText::refuse) const;
  // Returns the tokens of a text, or of a pair of texts, as Tokenizer::encode_texts() does.
  // long_text: refuse, for both texts together; or cut_end, for each of them. Throws ApiError 400
  // under the conditions of encode().
  text::TypedTokens encode_texts(const std::string& first, const std::string* second, int64_t most,
                                 LongText long_text) const;
  // Renders the messages with the chat template and returns the tokens. messages: list of objects
  // with "role" and "content", as in OpenAI's API. The role "developer" becomes "system" unless the
  // template knows it. options: see chat_template.h. Special tokens that users write, also in
  // tools, documents and variables, are tokenized as ordinary text. of_adapter: the form that the
  // adapter of the request was taught; null: the model's. Throws ApiError 400 if the model has no
  // chat template, if the template rejects the messages, or under the conditions of encode().
  ChatPrompt encode_chat(const nlohmann::ordered_json& messages, const text::ChatOptions& options,
                         LongText long_text = LongText::refuse,
                         const ChatForm* of_adapter = nullptr) const;

 private:
  // Throws ApiError 400 if a text of `bytes` bytes is too long to be tokenized.
  void check_size(size_t bytes) const;
  // Returns the part of the text that is to be tokenized.
  std::string_view limited(std::string_view text, LongText long_text) const;

  std::string name_;
  int64_t max_length_, vocabulary_, created_;
  bool causal_;
  int64_t decoder_prompt_ = 0;  // 0: not an encoder-decoder
  std::optional<models::Labels> labels_;
  text::ModelFolder folder_;
  std::unique_ptr<text::Tokenizer> tokenizer_;
  ChatForm form_;
  serve::GenerationSettings generation_;
  serve::Pooling pooling_;
  std::map<int32_t, std::string> special_;  // text of each special token by its id
  text::ToolCallForm tool_call_form_ = text::ToolCallForm::none;
  text::ReasoningForm reasoning_form_ = text::ReasoningForm::none;
  int32_t reasoning_token_ = -1;
  std::string_view reasoning_end_;
  std::set<int32_t> answer_markers_;  // token ids, see is_answer_marker()
  std::unique_ptr<AdapterRegistry> adapters_ = std::make_unique<AdapterRegistry>();
};

}  // namespace colossal::server
