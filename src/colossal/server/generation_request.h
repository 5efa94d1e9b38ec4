// A request to generate text, parsed from the JSON of /v1/completions or /v1/chat/completions;
// other APIs translate their requests to these (translated_request.h).
#pragma once

#include <string>
#include <vector>

#include "colossal/serve/sampling.h"
#include "colossal/server/json_body.h"
#include "colossal/server/rule_cache.h"
#include "colossal/server/served_model.h"
#include "colossal/server/tool_request.h"

namespace colossal::server {

// The validated fields of the request.
struct GenerationRequest {
  // Which of the two routes: /v1/completions or /v1/chat/completions.
  enum class Kind { text, chat };
  // One prompt of the request.
  struct Prompt {
    std::vector<int32_t> tokens;  // token ids
    std::string text;             // for `echo`; empty for a chat
  };

  Kind kind = Kind::text;
  std::string model;  // the field `model`; the base model's name if missing
  // The adapter of that name; null: the base model.
  std::shared_ptr<const nn::AdapterWeights> adapter;
  std::shared_ptr<const ChatForm> form;  // what the adapter was taught; null: the base model's
  std::vector<Prompt> prompts;           // one for a chat
  int64_t n = 1;                         // answers returned for each prompt
  // Answers generated for each prompt. The n answers with the highest mean log-probability are
  // returned. In beam search: n.
  int64_t best_of = 1;
  // If width > 1, the answers are the n best texts of a beam search.
  serve::BeamSearchOptions beams;
  // Where the request has no field: the model's defaults. In beam search, temperature is 0 and the
  // filters top_k, top_p, min_p and typical_p are off.
  serve::SamplingOptions sampling;
  bool has_seed = false;       // whether the request has a seed; if not, sampling.seed is random
  int64_t max_new_tokens = 0;  // for each answer
  int64_t max_length = 0;      // see serve::Request
  std::vector<int32_t> end_tokens;  // token ids that end an answer
  std::vector<std::string> stop;    // texts that end an answer
  bool include_stop = false;        // keep the stop text in the answer
  bool skip_special_tokens = true;  // leave special tokens out of the answer's text
  bool echo = false;                // begin the answer with the prompt; always false for a chat
  // Log-probabilities of the answer's tokens, and of the prompt's tokens. -1: none; 0: those of the
  // tokens themselves; above 0: also those of this many most likely tokens at each position.
  int64_t logprobs = -1;
  int64_t prompt_logprobs = -1;
  // In log-probabilities, write a token as "token_id:17" instead of its text.
  bool tokens_as_ids = false;
  bool return_token_ids = false;        // also return the token ids of the answer
  int priority = 0;                     // see serve::Request
  std::string cache_salt;               // see serve::Request
  std::shared_ptr<RequestedRule> rule;  // constraint on the answers; null: none
  std::string rule_field;               // the field that sets the rule
  RuleCache* rules = nullptr;           // has compiled the rule
  ToolRequest tools;                    // only for a chat
  // Only for a chat: where the answer begins, and whether the reasoning is returned.
  text::AnswerBegin begin = text::AnswerBegin::anywhere;
  bool include_reasoning = true;
  bool stream = false;                      // send the answer as server-sent events
  bool include_usage = false;               // send token counts in the last event of the stream
  bool continuous_usage = false;            // send token counts in each event
  std::vector<std::string> unknown_fields;  // names of fields that were ignored
  bool is_logged = true;                    // whether the log names the request when it ends
};

// What becomes of a maximum number of new tokens for which there is no room after the prompt.
enum class TokenLimit {
  exact,   // an ApiError
  at_most  // it is lowered to the room, as in APIs where it is required
};

// Parse the body of a request. rules: compiles the constraint of the request; must outlive it.
// Throw ApiError 400 if a field is invalid, 404 if the model is unknown.
GenerationRequest read_completion_request(const Json& body, const ServedModel& model,
                                          RuleCache& rules, TokenLimit limit = TokenLimit::exact);
GenerationRequest read_chat_request(const Json& body, const ServedModel& model, RuleCache& rules,
                                    TokenLimit limit = TokenLimit::exact);

// The following functions read single fields, also for requests of other routes. They throw
// ApiError 400 if a field is invalid.
//
// Returns the options for the chat template from a chat or /tokenize request. tools: of this
// request.
text::ChatOptions read_chat_options(Fields& fields, const ToolRequest& tools);
// Returns the prompts in the required field `field`: a string, a list of strings, a list of token
// ids, or a list of lists of token ids. Strings are encoded with the special tokens that the
// tokenizer adds, unless the field "add_special_tokens" is false. long_text: refuse if the prompts
// are not truncated after this.
std::vector<GenerationRequest::Prompt> read_prompts(Fields& fields, const ServedModel& model,
                                                    const char* field,
                                                    ServedModel::LongText long_text);
// Returns the number of tokens that truncate_prompt_tokens keeps; nullopt if the field is missing.
// all: what -1 means.
std::optional<int64_t> read_truncation(Fields& fields, const ServedModel& model, int64_t all);
// Returns the field "cache_salt"; "" if missing.
std::string read_cache_salt(Fields& fields);

// What the field "model" selects: an adapter, or the base model, which is also the default. A name
// may end with ":latest", as ollama's clients write it.
struct ModelChoice {
  std::string name;                                   // the field; the base model's name if missing
  std::shared_ptr<const nn::AdapterWeights> adapter;  // null: the base model
  std::shared_ptr<const ChatForm> form;               // of the adapter; null: the base model's
};
// Reads the field "model". Throws ApiError 404 for an unknown name.
ModelChoice choose_model(Fields& fields, const ServedModel& model);

}  // namespace colossal::server
