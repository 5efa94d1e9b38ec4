// An embeddings request, parsed from JSON.
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

struct EmbeddingRequest {
  std::string model;                                  // the name in the request
  std::shared_ptr<const nn::AdapterWeights> adapter;  // null: no adapter
  std::vector<std::vector<int32_t>> inputs;           // tokens of each text
  serve::Pooling pooling = serve::Pooling::last;
  bool normalize = true;  // scales the embedding to L2 norm 1
  bool base64 = false;    // response format: base64 of little-endian fp32; false: a JSON array
  int priority = 0;
  std::string cache_salt;
  std::vector<std::string> unknown_fields;
};

// Throws ApiError if a field is invalid.
EmbeddingRequest read_embedding_request(const Json& body, const ServedModel& model);

}  // namespace colossal::server
