// A request to /v1/embeddings, parsed from JSON, and its response.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "colossal/nn/adapter_weights.h"
#include "colossal/serve/request.h"
#include "colossal/server/json_body.h"
#include "colossal/server/served_model.h"

namespace colossal::server {

// The validated fields of the request.
struct EmbeddingRequest {
  std::string model;  // the field `model`; the base model's name if missing
  std::shared_ptr<const nn::AdapterWeights> adapter;  // null: no adapter
  std::vector<std::vector<int32_t>> inputs;           // token ids of each text
  // How the hidden states of a text's tokens become one embedding.
  serve::Pooling pooling = serve::Pooling::last;
  bool normalize = true;  // scale the embedding to L2 norm 1
  // How many of an embedding's numbers to return, the first ones; 0: all. For models that were
  // trained so that these are an embedding too.
  int64_t dimensions = 0;
  // Send an embedding as base64 of little-endian fp32; false: as a JSON array.
  bool base64 = false;
  int priority = 0;        // requests with lower values are scheduled first
  std::string cache_salt;  // only requests with equal salts share pages of the prefix cache
  std::vector<std::string> unknown_fields;  // names of fields that were ignored
};

// Parses the body of a request. Throws ApiError 400 if a field is invalid, 404 if the model is
// unknown.
EmbeddingRequest read_embedding_request(const Json& body, const ServedModel& model);

// Returns the numbers as base64 of their little-endian fp32 bytes.
std::string base64_of(const std::vector<double>& numbers);
// Returns an embedding as the request wants it: cut, then normalized, as base64 or as numbers.
// Throws ApiError 400 if it has fewer numbers than the request wants.
Json data_of(const EmbeddingRequest& request, const std::vector<double>& embedding);
// Returns the response to a request. embeddings: of each text, [hidden].
Json answer_embeddings(const EmbeddingRequest& request,
                       const std::vector<std::vector<double>>& embeddings);

}  // namespace colossal::server
