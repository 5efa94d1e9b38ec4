#include "colossal/server/embedding_request.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "colossal/base/base64.h"
#include "colossal/server/generation_request.h"

namespace colossal::server {
namespace {

serve::Pooling read_pooling(Fields& fields, serve::Pooling otherwise) {
  const auto name = fields.string("pooling");
  if (!name) return otherwise;
  if (*name == "mean") return serve::Pooling::mean;
  if (*name == "first" || *name == "cls") return serve::Pooling::first;
  if (*name == "last") return serve::Pooling::last;
  throw ApiError(400,
                 fmt::format("pooling: {:?} is unknown; must be \"first\", \"last\" or \"mean\"",
                             name->substr(0, 200)),
                 "pooling");
}

// Truncates the tokens of a text to `kept`. A decoder keeps the last ones. An encoder keeps the
// first ones, and the special token at the end.
void truncate(std::vector<int32_t>& tokens, size_t kept, bool causal) {
  if (causal || kept == 0) {
    tokens.erase(tokens.begin(), tokens.end() - static_cast<std::ptrdiff_t>(kept));
    return;
  }
  tokens[kept - 1] = tokens.back();
  tokens.resize(kept);
}

bool read_encoding(Fields& fields) {
  const std::string encoding = fields.string("encoding_format").value_or("float");
  if (encoding == "float" || encoding == "base64") return encoding == "base64";
  throw ApiError(400,
                 fmt::format("encoding_format: {:?} is unknown; must be \"float\" or \"base64\"",
                             encoding.substr(0, 200)),
                 "encoding_format");
}

void check_inputs(const EmbeddingRequest& request, const ServedModel& model) {
  for (const std::vector<int32_t>& input : request.inputs) {
    if (input.empty()) throw ApiError(400, "input: a text is empty", "input");
    if (std::ssize(input) > model.max_length()) {
      throw too_long(model.max_length(),
                     fmt::format("a text has {} tokens: make it shorter or send "
                                 "truncate_prompt_tokens",
                                 input.size()),
                     "input");
    }
  }
}

}  // namespace

Json data_of(const EmbeddingRequest& request, const std::vector<double>& embedding) {
  std::vector<double> numbers = embedding;
  if (request.dimensions > std::ssize(numbers)) {
    throw ApiError(400,
                   fmt::format("dimensions = {}: the model's embeddings have {}",
                               request.dimensions, numbers.size()),
                   "dimensions");
  }
  if (request.dimensions > 0) numbers.resize(static_cast<size_t>(request.dimensions));
  double squares = 0;
  for (const double number : numbers) squares += number * number;
  if (request.normalize && squares > 0) {
    for (double& number : numbers) number /= std::sqrt(squares);
  }
  if (request.base64) return base64_of(numbers);
  // Rounds to fp32, as base64 does.
  return std::vector<float>(numbers.begin(), numbers.end());
}

EmbeddingRequest read_embedding_request(const Json& body, const ServedModel& model) {
  Fields fields(body);
  EmbeddingRequest request;
  ModelChoice choice = choose_model(fields, model);
  request.model = std::move(choice.name);
  request.adapter = std::move(choice.adapter);
  request.pooling = read_pooling(fields, model.pooling());
  request.normalize = fields.boolean("normalize", true);
  request.base64 = read_encoding(fields);
  request.priority = static_cast<int>(fields.integer("priority", -1000, 1000).value_or(0));
  request.cache_salt = read_cache_salt(fields);
  request.dimensions = fields.integer("dimensions", 1, INT32_MAX).value_or(0);
  fields.ignore("user");
  const auto kept = read_truncation(fields, model, model.max_length());
  using LongText = ServedModel::LongText;
  const LongText cut = model.causal() ? LongText::cut_begin : LongText::cut_end;
  for (GenerationRequest::Prompt& prompt :
       read_prompts(fields, model, "input", kept ? cut : LongText::refuse)) {
    request.inputs.push_back(std::move(prompt.tokens));
  }
  for (std::vector<int32_t>& input : request.inputs) {
    if (kept && std::ssize(input) > *kept) {
      truncate(input, static_cast<size_t>(*kept), model.causal());
    }
  }
  check_inputs(request, model);
  request.unknown_fields = fields.unknown();
  return request;
}

std::string base64_of(const std::vector<double>& numbers) {
  std::string bytes;
  for (const double number : numbers) {
    const auto bits = std::bit_cast<uint32_t>(static_cast<float>(number));
    for (int shift = 0; shift < 32; shift += 8) bytes += static_cast<char>(bits >> shift & 0xff);
  }
  return encode_base64(bytes);
}

Json answer_embeddings(const EmbeddingRequest& request,
                       const std::vector<std::vector<double>>& embeddings) {
  Json data = Json::array();
  size_t tokens = 0;
  for (size_t which = 0; which < embeddings.size(); ++which) {
    data.push_back({{"object", "embedding"},
                    {"index", which},
                    {"embedding", data_of(request, embeddings[which])}});
    tokens += request.inputs[which].size();
  }
  return {{"object", "list"},
          {"data", std::move(data)},
          {"model", request.model},
          {"usage", {{"prompt_tokens", tokens}, {"total_tokens", tokens}}}};
}

}  // namespace colossal::server
