// Models with random weights, and requests to an engine over them.
#pragma once

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "colossal/models/families.h"
#include "colossal/nn/dense_builder.h"
#include "colossal/ops/random.h"
#include "colossal/serve/engine.h"
#include "tests/support/temporary_directory.h"
#include "tests/support/whole_pass.h"

namespace colossal::serve {

using Tokens = std::vector<int32_t>;

// A model of any family with random weights.
struct RandomModel {
  models::ModelSpecification specification;
  nn::DenseBuilder build;
  std::unique_ptr<models::Model> model;

  RandomModel(const models::ModelSpecification& of, at::ScalarType type)
      : specification(of), model(models::build_model(specification, build)) {
    for (const nn::ParameterHandle& parameter : build.parameters()) {
      const bool is_norm = parameter->shape.size() == 1;
      parameter->tensor = at::empty(parameter->shape, type);
      ops::fill_normal(parameter->tensor.view(-1), 0, ops::parameter_stream(3, parameter->name),
                       is_norm ? 0.5 : 0, is_norm ? 0.2 : 0.3);
    }
  }

  // The likeliest tokens by whole passes without kept keys and values.
  Tokens greedy(const Tokens& prompt, int64_t count) const {
    const at::NoGradGuard no_grad;
    Tokens all = prompt;
    for (int64_t i = 0; i < count && std::ssize(all) < specification.facts.positions; ++i) {
      const auto length = std::ssize(all);
      const at::Tensor logits = logits_of(*model, at::tensor(all, at::kLong).view({1, length}),
                                          nn::make_step_context(1, length, at::kCPU),
                                          at::tensor({length - 1}, at::kLong));
      all.push_back(logits.argmax(-1).item<int32_t>());
    }
    return {all.begin() + std::ssize(prompt), all.end()};
  }
};

inline models::ModelSpecification family_of(const std::string& family, nlohmann::json config) {
  const test::TemporaryDirectory folder;
  config["model_type"] = family;
  folder.write("config.json", config.dump());
  return models::resolve_model({.path = folder.path().string()});
}

inline models::ModelSpecification tiny() {
  return models::resolve_model({.preset = "gpt2-tiny",
                                .overrides = {{"n_layer", 2},
                                              {"n_embd", 24},
                                              {"n_head", 3},
                                              {"vocab_size", 50},
                                              {"n_positions", 128}}});
}

inline Tokens prompt_of(int64_t length, int64_t seed, int64_t vocabulary = 50) {
  Tokens prompt;
  for (int64_t i = 0; i < length; ++i) {
    prompt.push_back(static_cast<int32_t>((i * i * 7 + seed * 13 + i) % vocabulary));
  }
  return prompt;
}

// What came of the requests that were submitted.
class Answers {
 public:
  struct Answer {
    std::vector<GeneratedToken> tokens;
    std::vector<std::optional<GeneratedToken>> prompt;
    std::optional<FinishReason> reason;
    Usage usage;
    std::string error;

    Tokens numbers() const {
      Tokens all;
      for (const GeneratedToken& token : tokens) all.push_back(token.token);
      return all;
    }
  };

  RequestId submit(Engine& engine, Request request) {
    const auto answer = std::make_shared<Answer>();
    all.push_back(answer);
    request.on_token = [answer, before = request.on_token](const GeneratedToken& token) {
      answer->tokens.push_back(token);
      return !before || before(token);
    };
    request.on_prompt = [answer](const auto& prompt) { answer->prompt = prompt; };
    request.on_finish = [answer](FinishReason reason, const Usage& usage,
                                 const std::string& error) {
      EXPECT_FALSE(answer->reason.has_value());
      answer->reason = reason;
      answer->usage = usage;
      answer->error = error;
    };
    return engine.submit(std::move(request));
  }
  const Answer& operator[](size_t index) const { return *all[index]; }

  std::vector<std::shared_ptr<Answer>> all;
};

inline Request greedy(Tokens prompt, int64_t count) {
  return {.prompt = std::move(prompt), .sampling = {.temperature = 0}, .max_new_tokens = count};
}

}  // namespace colossal::serve
