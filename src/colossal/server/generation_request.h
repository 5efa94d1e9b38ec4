// What a request for completions asks for, read from its JSON.
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
  std::string model;                                  // as the request names it
  std::shared_ptr<const nn::AdapterWeights> adapter;  // that the name means; null: none
  std::vector<Prompt> prompts;
  int64_t n = 1;  // answers to each
  int64_t best_of =
      1;  // how many are sampled; the n with the most likely tokens, on average, are given
  serve::BeamSearchOptions beams;  // of a width above 1: the answers are the n best of its texts
  serve::SamplingOptions sampling;
  bool has_seed = false;
  int64_t max_new_tokens = 0;
  std::vector<int32_t> end_tokens;
  std::vector<std::string> stop;
  bool include_stop = false;
  bool skip_special_tokens = true;
  bool echo = false;
  int64_t logprobs = -1;         // most likely tokens beside each; -1: no log-probabilities
  int64_t prompt_logprobs = -1;  // the same of the prompt's tokens
  bool tokens_as_ids = false;    // "token_id:17" in place of their text
  bool return_token_ids = false;
  int priority = 0;
  std::string cache_salt;
  std::shared_ptr<CompiledRule> rule;  // what the answers must be; null: anything
  ToolRequest tools;                   // of chat
  bool stream = false;
  bool include_usage = false;     // in a last event of the stream
  bool continuous_usage = false;  // in each event
  std::vector<std::string> unknown_fields;
};

// Throw ApiError.
GenerationRequest read_completion_request(const Json& body, const ServedModel& model,
                                          RuleCache& rules);
GenerationRequest read_chat_request(const Json& body, const ServedModel& model, RuleCache& rules);

// The part of a request that is a conversation, as /tokenize takes it, too.
text::ChatOptions read_chat_options(Fields& fields, const ToolRequest& tools);
// A string, a list of strings, a list of tokens, or a list of such lists.
std::vector<GenerationRequest::Prompt> read_prompts(Fields& fields, const ServedModel& model,
                                                    const char* field);
std::string read_cache_salt(Fields& fields);

// What the field `model` asks for: the model, also where it is left out, or an adapter.
struct ModelChoice {
  std::string name;
  std::shared_ptr<const nn::AdapterWeights> adapter;  // null: none
};
// Refuses another name by 404.
ModelChoice choose_model(Fields& fields, const ServedModel& model);

}  // namespace colossal::server
