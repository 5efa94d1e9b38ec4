// Evaluates the cross-entropy loss and perplexity of a model on a text.
#pragma once

#include <cstdint>
#include <functional>

#include "colossal/data/corpus.h"
#include "colossal/mesh/parallel_context.h"
#include "colossal/models/language_model.h"

namespace colossal::serve {

struct EvaluateOptions {
  int64_t sequence_length = 1;   // tokens per row, at most the number of positions of the model
  int64_t batch = 1;             // rows per forward pass of each replica
  at::Device device = at::kCPU;  // device of the model's weights
  // The ranks that hold the model; null: this rank holds the whole model. Every rank calls
  // evaluate() with the same arguments.
  const ParallelContext* ranks = nullptr;
};

struct Evaluation {
  double loss_sum = 0;  // sum of the cross-entropies (nats) of the predicted tokens
  int64_t tokens = 0;   // number of predicted tokens
  double loss() const { return loss_sum / static_cast<double>(tokens); }
  double perplexity() const;
};

// Predicts every token of the corpus once, except the first token. The text is cut into rows of S =
// sequence_length tokens. Row i reads the S tokens from token i * S on, and predicts the S tokens
// from token i * S + 1 on, each from the preceding tokens of its row; the first prediction of a row
// therefore has one token of context. The last row has the remaining tokens. It is computed alone,
// so that no row is padded.
//
// Calls `progress` with the sums so far: after every forward pass or, with pipeline parallelism,
// after every few passes.
//
// Law with several ranks: the bytes of the layers; for each forward pass, 32 bytes and the
// activation at each border between stages; for each call of `progress`, one all-reduce of 8 bytes.
//
// Throws ConfigError if the corpus has fewer than two tokens, or if sequence_length or batch is
// below 1; Error if the loss is not finite.
Evaluation evaluate(models::LanguageModel& model, const data::Corpus& corpus,
                    const EvaluateOptions& options,
                    const std::function<void(const Evaluation&)>& progress = {});

}  // namespace colossal::serve
