// Evaluates a model on a text: cross-entropy loss and perplexity. Used by `colossal evaluate`.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "colossal/data/corpus.h"
#include "colossal/data/masking.h"
#include "colossal/mesh/parallel_context.h"
#include "colossal/models/model.h"

namespace colossal::serve {

struct EvaluateOptions {
  int64_t sequence_length = 1;  // tokens per row, at most the number of positions of the model
  int64_t batch = 1;            // rows per forward pass of each replica
  // How tokens are masked, for an encoder; nullopt: the model predicts next tokens.
  std::optional<data::MaskOptions> masks = std::nullopt;
  at::Device device = at::kCPU;  // device of the model's weights
  // The ranks that evaluate: one or several replicas of the model. Null: this rank alone. All ranks
  // call evaluate() with the same arguments.
  const ParallelContext* ranks = nullptr;
};

// Result of evaluate(), or an intermediate result.
struct Evaluation {
  double loss_sum = 0;  // sum of the cross-entropies (nats) of the predicted tokens
  int64_t tokens = 0;   // number of predicted tokens
  int64_t read = 0;     // number of tokens of the text that have been evaluated
  // Returns the nats per predicted token; 0 if there is none yet.
  double loss() const { return tokens > 0 ? loss_sum / static_cast<double>(tokens) : 0; }
  double perplexity() const;  // exp(loss())
};

// Returns the loss of the model over all tokens of the corpus except the first token, which nothing
// precedes. The corpus is divided into rows of S = options.sequence_length tokens. The input of row
// i is the S tokens from token i * S on; the labels are the S tokens from token i * S + 1 on. Each
// label is predicted from the preceding tokens of its row only, so the first prediction of a row
// has one token of context. The last row may be shorter; it is computed in a forward pass of its
// own.
//
// An encoder (options.masks) predicts the masked tokens of a row from all the others of the row.
// Row i is the tokens from i * S on, masked as sample i.
//
// All replicas take part in every forward pass; a replica without rows in a pass computes padding,
// which does not count. All ranks get the same result. The passes form rounds. After each round,
// the ranks add up their losses, and each rank calls `progress`, unless empty, with the result so
// far. Without pipeline parallelism, each pass is a round. With it, a round is 4 * pp passes,
// because the pipeline fills and drains once per round; the last round may have fewer.
//
// Law with several ranks: the bytes of the layers; for each forward pass, the bytes of
// send_activation() (stages.h) at each border between stages on different ranks; for each round,
// one all-reduce of 8 bytes over all ranks.
//
// Throws ConfigError if the corpus has fewer than two tokens, if none of its tokens is masked, or
// if sequence_length or batch is below 1; Error if the loss is not finite.
Evaluation evaluate(models::Model& model, const data::Corpus& corpus,
                    const EvaluateOptions& options,
                    const std::function<void(const Evaluation&)>& progress = {});

}  // namespace colossal::serve
