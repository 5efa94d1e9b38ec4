// How well a model predicts a text.
#pragma once

#include <cstdint>
#include <functional>

#include "colossal/data/corpus.h"
#include "colossal/mesh/parallel_context.h"
#include "colossal/models/language_model.h"

namespace colossal::serve {

struct EvaluateOptions {
  int64_t sequence_length = 1;   // tokens of a row, at most the model's positions
  int64_t batch = 1;             // rows of a forward pass of each replica
  at::Device device = at::kCPU;  // where the model's weights are
  // On which the model is; null: on this rank alone. Each calls evaluate(), with the same
  // arguments.
  const ParallelContext* ranks = nullptr;
};

struct Evaluation {
  double loss_sum = 0;  // of the cross-entropies of all tokens that were predicted
  int64_t tokens = 0;   // that were predicted
  double loss() const { return loss_sum / static_cast<double>(tokens); }
  double perplexity() const;
};

// Predicts each token of the corpus once, but for the first, which nothing precedes. The text is
// cut into rows of sequence_length = S tokens: row i sees tokens i S .. i S + S - 1 and predicts
// the token that follows each of them, from the tokens before it in its own row. So the first
// prediction of a row has one token of context. The last row has what is left, and is computed by
// itself, so that no row is padded. Calls `progress` after each pass, or, with a pipeline, after
// some, with what is done so far. Law of several ranks: what the layers say; 32 bytes and the
// activation at each border of the pipeline; and an all-reduce of 8 bytes after each pass, or after
// some.
// Throws ConfigError for a corpus of fewer than two tokens, and for a sequence length or a batch
// below 1; Error for a loss that is not finite.
Evaluation evaluate(models::LanguageModel& model, const data::Corpus& corpus,
                    const EvaluateOptions& options,
                    const std::function<void(const Evaluation&)>& progress = {});

}  // namespace colossal::serve
