// What a request for embeddings asks for, read from its JSON.
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
  std::string model;                                  // as the request names it
  std::shared_ptr<const nn::AdapterWeights> adapter;  // null: none
  std::vector<std::vector<int32_t>> inputs;
  serve::Pooling pooling = serve::Pooling::last;
  bool normalize = true;  // to length 1
  bool base64 = false;    // of fp32 numbers, lowest byte first; false: a list of numbers
  int priority = 0;
  std::string cache_salt;
  std::vector<std::string> unknown_fields;
};

// Throws ApiError.
EmbeddingRequest read_embedding_request(const Json& body, const ServedModel& model);

}  // namespace colossal::server
