#include "colossal/server/embedding_request.h"

#include "colossal/server/generation_request.h"

namespace colossal::server {
namespace {

serve::Pooling read_pooling(Fields& fields, serve::Pooling otherwise) {
  const auto name = fields.string("pooling");
  if (!name) return otherwise;
  if (*name == "mean") return serve::Pooling::mean;
  if (*name == "first" || *name == "cls") return serve::Pooling::first;
  if (*name == "last") return serve::Pooling::last;
  throw ApiError(
      400,
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
      throw ApiError(400,
                     fmt::format("input: a text has {} tokens, but the model takes at most {}: "
                                 "make it shorter or send truncate_prompt_tokens",
                                 input.size(), model.max_length()),
                     "input");
    }
  }
}

}  // namespace

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
  fields.refuse_unless("dimensions", nullptr, "is not supported; shorten the vectors yourself");
  fields.ignore("user");
  for (GenerationRequest::Prompt& prompt : read_prompts(fields, model, "input")) {
    request.inputs.push_back(std::move(prompt.tokens));
  }
  const auto length = fields.integer("truncate_prompt_tokens", -1, model.max_length());
  for (std::vector<int32_t>& input : request.inputs) {
    const auto kept = static_cast<size_t>(length.value_or(-1) < 0 ? model.max_length() : *length);
    if (length && input.size() > kept) truncate(input, kept, model.causal());
  }
  check_inputs(request, model);
  request.unknown_fields = fields.unknown();
  return request;
}

}  // namespace colossal::server
