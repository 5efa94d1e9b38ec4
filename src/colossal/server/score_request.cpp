#include "colossal/server/score_request.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "colossal/server/answer_writer.h"
#include "colossal/server/generation_request.h"
#include "colossal/server/translated_request.h"

namespace colossal::server {
namespace {

using models::Problem;

double sigmoid(double x) {
  return 1 / (1 + std::exp(-x));
}

// Reads what all three requests have: the model, priority and truncation; and encodes texts.
class Reader {
 public:
  Reader(const Json& body, const ServedModel& model) : model_(model), fields_(body) {
    if (!model.labels()) {
      throw ApiError(400,
                     fmt::format("{} gives texts no scores: serve a model of a class "
                                 "...ForSequenceClassification",
                                 model.quoted_names()),
                     "model");
    }
    ModelChoice choice = choose_model(fields_, model);
    name_ = std::move(choice.name);
    request_.texts.model = name_;
    request_.texts.adapter = std::move(choice.adapter);
    request_.texts.pooling = model.causal() ? serve::Pooling::last : serve::Pooling::first;
    request_.texts.priority =
        static_cast<int>(fields_.integer("priority", -1000, 1000).value_or(0));
    request_.texts.cache_salt = read_cache_salt(fields_);
    most_ = read_truncation(fields_, model, model.max_length());
    fields_.ignore("user");
  }

  Fields& fields() { return fields_; }
  const std::string& name() const { return name_; }
  const models::Labels& labels() const { return *model_.labels(); }

  // Throws ApiError 400 unless the model has one label.
  void require_one_score(const char* path) const {
    if (labels().names.size() == 1) return;
    throw ApiError(
        400,
        fmt::format("{} needs a model with one label, whose score is the relevance; this "
                    "one has {}: use /classify",
                    path, labels().names.size()),
        "model");
  }

  void add(const std::string& first, const std::string* second, const char* field) {
    const int64_t most = most_.value_or(std::numeric_limits<int32_t>::max());
    text::TypedTokens made =
        model_.encode_texts(first, second, most,
                            most_ ? ServedModel::LongText::cut_end : ServedModel::LongText::refuse);
    if (made.tokens.empty()) throw ApiError(400, fmt::format("{}: a text is empty", field), field);
    if (std::ssize(made.tokens) > model_.max_length()) {
      throw too_long(model_.max_length(),
                     fmt::format("a text has {} tokens: make it shorter or send "
                                 "truncate_prompt_tokens",
                                 made.tokens.size()),
                     field);
    }
    num_tokens_ += made.tokens.size();
    // Decoders have no types.
    if (model_.causal()) made.types.clear();
    request_.texts.texts.push_back({std::move(made.tokens), std::move(made.types)});
  }

  // Returns a list of texts; a single text counts as a list of one.
  std::vector<std::string> texts(const char* name) {
    std::vector<std::string> found = fields_.strings(name);
    if (found.empty()) throw ApiError(400, fmt::format("{} is missing", name), name);
    return found;
  }
  // Returns "documents": texts, or objects with a "text".
  std::vector<std::string> documents() {
    const Json* found = fields_.find("documents");
    const bool has_objects =
        found && found->is_array() && !found->empty() && (*found)[0].is_object();
    if (!has_objects) return texts("documents");
    std::vector<std::string> documents;
    for (const Json& document : *found) {
      documents.push_back(required_string(document, "text", "documents"));
    }
    return documents;
  }
  std::string text(const char* name) {
    const auto found = fields_.string(name);
    if (!found) throw ApiError(400, fmt::format("{} is missing", name), name);
    return *found;
  }

  Json usage() const { return {{"prompt_tokens", num_tokens_}, {"total_tokens", num_tokens_}}; }

  ScoreRequest finish(MakeAnswer answer) {
    request_.answer = std::move(answer);
    request_.unknown_fields = fields_.unknown();
    return std::move(request_);
  }

 private:
  const ServedModel& model_;
  Fields fields_;
  std::string name_;
  ScoreRequest request_{};
  std::optional<int64_t> most_;  // tokens to which a text is truncated; nullopt: not truncated
  size_t num_tokens_ = 0;
};

Json describe(const std::vector<double>& scores, const models::Labels& labels) {
  const std::vector<double> shares = models::probabilities_of(scores, labels.problem);
  Json found{{"probs", shares}, {"num_classes", shares.size()}};
  if (labels.problem == Problem::single_label) {
    found["label"] = models::class_of(shares, labels);
  } else if (labels.problem == Problem::multi_label) {
    found["label"] = models::likely_labels(shares, labels);
  }
  return found;
}

}  // namespace

ScoreRequest read_classify_request(const Json& body, const ServedModel& model) {
  Reader reader(body, model);
  const Json* const pairs = reader.fields().find("pairs");
  if (pairs) {
    const bool valid =
        pairs->is_array() && !pairs->empty() && std::ranges::all_of(*pairs, [](const Json& pair) {
          return pair.is_array() && pair.size() == 2 && pair[0].is_string() && pair[1].is_string();
        });
    if (!valid) throw ApiError(400, "pairs must be a list of lists of two texts", "pairs");
    for (const Json& pair : *pairs) {
      const auto second = pair[1].get<std::string>();
      reader.add(pair[0].get<std::string>(), &second, "pairs");
    }
    if (reader.fields().find("input"))
      throw ApiError(400, "give input or pairs, not both", "input");
  } else {
    for (const std::string& text : reader.texts("input")) reader.add(text, nullptr, "input");
  }
  Json whole{{"object", "list"},
             {"model", reader.name()},
             {"data", Json::array()},
             {"usage", reader.usage()}};
  return reader.finish([whole, labels = reader.labels()](const auto& results) {
    Json answer = whole;
    for (size_t which = 0; which < results.size(); ++which) {
      Json found{{"index", which}};
      found.update(describe(results[which], labels));
      answer["data"].push_back(std::move(found));
    }
    return answer;
  });
}

ScoreRequest read_rerank_request(const Json& body, const ServedModel& model) {
  Reader reader(body, model);
  reader.require_one_score("/rerank");
  const std::string query = reader.text("query");
  const std::vector<std::string> documents = reader.documents();
  // Clients send a fixed top_n, also with fewer documents.
  const int64_t count = std::ssize(documents);
  const int64_t most =
      std::min(count, reader.fields().integer("top_n", 1, INT64_MAX).value_or(count));
  const bool returns_documents = reader.fields().boolean("return_documents", true);
  for (const std::string& document : documents) reader.add(query, &document, "documents");
  reader.fields().ignore("max_tokens_per_doc");
  Json whole{{"id", random_id("rerank-")},
             {"model", reader.name()},
             {"usage", reader.usage()},
             {"results", Json::array()}};
  return reader.finish([=](const std::vector<std::vector<double>>& results) {
    std::vector<size_t> order(results.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::ranges::stable_sort(order, std::greater(), [&](size_t i) { return results[i][0]; });
    order.resize(static_cast<size_t>(most));
    Json answer = whole;
    for (const size_t which : order) {
      Json found{{"index", which}, {"relevance_score", sigmoid(results[which][0])}};
      if (returns_documents) found["document"] = {{"text", documents[which]}};
      answer["results"].push_back(std::move(found));
    }
    return answer;
  });
}

ScoreRequest read_score_request(const Json& body, const ServedModel& model) {
  Reader reader(body, model);
  reader.require_one_score("/score");
  const std::string first = reader.text("text_1");
  for (const std::string& second : reader.texts("text_2")) reader.add(first, &second, "text_2");
  Json whole{{"object", "list"},
             {"model", reader.name()},
             {"data", Json::array()},
             {"usage", reader.usage()}};
  return reader.finish([whole](const std::vector<std::vector<double>>& results) {
    Json answer = whole;
    for (size_t which = 0; which < results.size(); ++which) {
      answer["data"].push_back(
          {{"index", which}, {"object", "score"}, {"score", sigmoid(results[which][0])}});
    }
    return answer;
  });
}

}  // namespace colossal::server
