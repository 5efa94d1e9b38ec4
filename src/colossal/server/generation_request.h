// A completion or chat request, parsed from JSON.
#pragma once

#include <string>
#include <vector>

#include "colossal/serve/sampling.h"
#include "colossal/server/json_body.h"
#include "colossal/server/served_model.h"
#include "colossal/server/text_constraint.h"
#include "colossal/server/tool_request.h"

namespace colossal::server {

struct GenerationRequest {
  enum class Kind { text, chat };
  struct Prompt {
    std::vector<int32_t> tokens;
    std::string text;  // for `echo`
  };

  Kind kind = Kind::text;
  std::string model;                                  // the name in the request
  std::shared_ptr<const nn::AdapterWeights> adapter;  // adapter with that name; null: no adapter
  std::vector<Prompt> prompts;
  int64_t n = 1;  // answers per prompt
  // answers generated per prompt; the n with the highest mean log-probability are returned
  int64_t best_of = 1;
  serve::BeamSearchOptions beams;  // if width > 1: the answers are the n best beams
  serve::SamplingOptions sampling;
  bool has_seed = false;
  int64_t max_new_tokens = 0;
  std::vector<int32_t> end_tokens;
  std::vector<std::string> stop;
  bool include_stop = false;
  bool skip_special_tokens = true;
  bool echo = false;
  int64_t logprobs = -1;         // see serve::Request
  int64_t prompt_logprobs = -1;  // see serve::Request
  // shows tokens with log-probabilities as "token_id:17" in place of their text
  bool tokens_as_ids = false;
  bool return_token_ids = false;
  int priority = 0;
  std::string cache_salt;
  std::shared_ptr<CompiledRule> rule;  // constraint on the answers; null: none
  ToolRequest tools;                   // for chat requests
  bool stream = false;
  bool include_usage = false;     // sends token counts in the last event of the stream
  bool continuous_usage = false;  // sends token counts in each event
  std::vector<std::string> unknown_fields;
};

// Parse a request. Throw ApiError if a field is invalid.
GenerationRequest read_completion_request(const Json& body, const ServedModel& model,
                                          RuleCache& rules);
GenerationRequest read_chat_request(const Json& body, const ServedModel& model, RuleCache& rules);

// Reads the options for the chat template from a chat or /tokenize request.
text::ChatOptions read_chat_options(Fields& fields, const ToolRequest& tools);
// Reads the prompts in `field`: a string, a list of strings, a list of tokens, or a list of lists
// of tokens.
std::vector<GenerationRequest::Prompt> read_prompts(Fields& fields, const ServedModel& model,
                                                    const char* field);
std::string read_cache_salt(Fields& fields);

// What the field `model` chooses: an adapter, or the base model (also if the field is missing).
struct ModelChoice {
  std::string name;
  std::shared_ptr<const nn::AdapterWeights> adapter;  // null: none
};
// Throws ApiError 404 for an unknown name.
ModelChoice choose_model(Fields& fields, const ServedModel& model);

}  // namespace colossal::server
