// Requests to /classify, /rerank and /score, for models that give texts scores, parsed from JSON.
#pragma once

#include "colossal/server/json_body.h"
#include "colossal/server/pooled_texts.h"
#include "colossal/server/served_model.h"

namespace colossal::server {

// What a request asks of the engine, and how its scores become the response.
struct ScoreRequest {
  PooledTextsRequest texts;
  MakeAnswer answer;
  std::vector<std::string> unknown_fields;  // names of fields that were ignored
};

// Parse the body of a request, in the forms of vLLM. Throw ApiError 400 if a field is invalid or
// the model does not fit, 404 if the model is unknown.
//
// /classify: `input`, a text or a list of texts, or `pairs`, a list of lists of two texts. The
// response has the label of each, and the probability of each label.
ScoreRequest read_classify_request(const Json& body, const ServedModel& model);
// /rerank: `query` and `documents`, a list of texts. The response has the documents in the order of
// their relevance to the query: the sigmoid of the score that the model, which must have one label,
// gives to the pair.
ScoreRequest read_rerank_request(const Json& body, const ServedModel& model);
// /score: `text_1`, a text, and `text_2`, a text or a list of texts. The response has the relevance
// of each of text_2 to text_1.
ScoreRequest read_score_request(const Json& body, const ServedModel& model);

}  // namespace colossal::server
