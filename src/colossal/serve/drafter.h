// Speculative decoding: drafters propose the next tokens of sequences, and the model verifies
// several draft tokens in one forward pass (Y. Leviathan et al., "Fast Inference from Transformers
// via Speculative Decoding", 2023). Used by EngineCore; Speculation (engine.h) selects the drafter.
// In this file, "the model" is the model that is served, as opposed to the draft model.
//
// A draft token is accepted if it equals the token that is sampled from the model's logits for its
// position. A sampled token depends only on the logits, the sampling options, the seed and the
// position. Hence, for any sampling options, drafts do not change the generated text. A draft model
// samples from its own logits with the seed and position of the request; its tokens often equal the
// model's if the two distributions are similar.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "colossal/models/model.h"
#include "colossal/nn/paged_key_value_store.h"
#include "colossal/serve/sequence.h"

namespace colossal::serve {

// A sequence and the most tokens to draft for it. The sequence has pages for that many draft
// tokens.
struct DraftRequest {
  Sequence* sequence = nullptr;
  int64_t most = 0;  // tokens, at least 1
};

// A sequence whose constraint threw while tokens were drafted for it.
struct DraftFailure {
  Sequence* sequence = nullptr;
  std::string error;  // message of the exception
};

// Interface of drafters. Not thread-safe.
class Drafter {
 public:
  virtual ~Drafter() = default;
  // Sets Sequence::drafts of each sequence to at most `most` draft tokens, possibly none. The
  // sequences are in the decode phase, i.e. only their last token has yet to be computed. Returns
  // the sequences whose constraint threw; they get no drafts.
  virtual std::vector<DraftFailure> propose(const std::vector<DraftRequest>& requests) = 0;
  // Whether read() needs the model's final hidden states (Sequence::states) of each step.
  virtual bool wants_states() const { return false; }
  // Called after each step if wants_states(), with the sequences of the step that have not ended.
  // The step's new tokens are already in Sequence::tokens. Sequence::states is set, except for
  // requests without drafts (beam search, embeddings), for which it is undefined.
  virtual void read(const std::vector<Sequence*>& /*sequences*/) {}
  // Called when the engine copies page `from` of the model's KV cache to page `to`. A drafter with
  // a KV cache of its own must copy the same page of its cache at once; other drafters do nothing.
  virtual void copy_page(int64_t /*from*/, int64_t /*to*/) {}
};

// Finds the longest suffix of the text, of 2 to 4 tokens, that also occurs earlier in the text.
// Returns the tokens, at most `most`, that follow the latest of the earlier occurrences; empty if
// there is none (A. Saxena, "Prompt Lookup Decoding", 2023).
std::vector<int32_t> look_up_continuation(std::span<const int32_t> text, int64_t most);

// Drafts with look_up_continuation(), from the sequence's own text, without a model.
class LookupDrafter : public Drafter {
 public:
  std::vector<DraftFailure> propose(const std::vector<DraftRequest>& requests) override;
};

// Base class of drafters with a draft model: an independent model (ModelDrafter), or a draft head,
// which reads the model's hidden states (HeadDrafter). Both have a KV cache of their own. Page n of
// the draft model's cache holds keys and values of the same positions of the same sequence as page
// n of the model's cache.
class NeuralDrafter : public Drafter {
 public:
  // model: the draft model, which must outlive this object. pages: options of its KV cache.
  // max_batch_tokens: most tokens per forward pass of the draft model over a prompt. device: of the
  // draft model's weights.
  NeuralDrafter(models::Model& model, const nn::PagedKeyValueOptions& pages,
                int64_t max_batch_tokens, at::Device device)
      : model_(model),
        store_(pages),
        page_size_(pages.page_size),
        max_batch_tokens_(max_batch_tokens),
        device_(device) {}

  // Drafts in rounds, of one token each for all sequences that still need draft tokens. In each
  // round, the subclass computes their logits (next_logits()), and a copy of each request's
  // constraint is applied to them.
  std::vector<DraftFailure> propose(const std::vector<DraftRequest>& requests) override;
  void copy_page(int64_t from, int64_t to) override { store_.copy_page(from, to); }

 protected:
  // Input of one forward pass of the draft model: chunks of several sequences, concatenated.
  struct Pass {
    std::vector<nn::PagedChunk> chunks{};
    // For each token of the pass: its token id, its position in its sequence, and the length of the
    // sequence for rotary embeddings that depend on it (nn::TokenGrid::lengths), i.e. position +
    // 1, but at least the length of the prompt.
    std::vector<int64_t> tokens{}, positions{}, lengths{};
    // For each chunk, [tokens of the chunk, hidden]: the hidden states that a draft head reads
    // (models::TokenInputs::target_states). add() does not fill these in; for a draft head, its
    // caller does. Empty for an independent draft model.
    std::vector<at::Tensor> states{};
    std::vector<int64_t> last_rows{};  // for each chunk: index of its last token in `tokens`
  };

  // Returns logits [sequences, vocabulary], on the CPU, for the token that follows each sequence's
  // tokens and draft tokens.
  virtual at::Tensor next_logits(const std::vector<Sequence*>& sequences) = 0;
  // Adds a chunk of a sequence to all lists of a pass except Pass::states. tokens[i] is the token
  // that the draft model reads at position begin + i: for ModelDrafter, the sequence's token begin
  // + i; for HeadDrafter, its token begin + i + 1. alone: true: attention is computed for each of
  // the tokens separately, as in decoding; false: for all of them as one block of queries
  // (nn::PagedChunk::alone). Chunks of one token and chunks with `alone` must be added before the
  // other chunks.
  static void add(Pass& pass, const Sequence& sequence, int64_t begin,
                  std::span<const int32_t> tokens, bool alone);
  // Runs the draft model's blocks and returns its final hidden states [1, tokens, hidden]. Sets
  // `context`, to be passed to logits_of_states() with these states.
  at::Tensor run(const Pass& pass, nn::StepContext& context);

  models::Model& model() const { return model_; }
  at::Device device() const { return device_; }
  int64_t page_size() const { return page_size_; }
  int64_t max_batch_tokens() const { return max_batch_tokens_; }

 private:
  models::Model& model_;
  nn::PagedKeyValueStore store_;
  int64_t page_size_;
  int64_t max_batch_tokens_;
  at::Device device_;
};

// Drafts with an independent, smaller model of the same vocabulary (classic speculative decoding).
class ModelDrafter : public NeuralDrafter {
 public:
  ModelDrafter(models::Model& model, const nn::PagedKeyValueOptions& pages,
               int64_t max_batch_tokens, at::Device device)
      : NeuralDrafter(model, pages, max_batch_tokens, device),
        read_(static_cast<size_t>(pages.pages)) {}

 private:
  at::Tensor next_logits(const std::vector<Sequence*>& sequences) override;
  // Returns how many leading tokens of the sequence already have the draft model's keys and values
  // in the sequence's pages. The draft model may have computed them for another sequence that
  // shares the pages.
  int64_t num_cached_tokens(const Sequence& sequence) const;
  // Sets read_ for the sequence's pages that are in the prefix cache.
  void remember(const Sequence& sequence);

  // For each page of the pool: the prefix (Sequence::kept) for which the draft model last computed
  // the page's keys and values; 0: none.
  std::vector<PagePool::Prefix> read_;
};

// Drafts with a draft head on the model's own hidden states (EAGLE, Li et al. 2024). At position i,
// the head reads the model's final hidden state of token i and the embedding of token i + 1. It
// predicts the hidden state of token i + 1, from which it computes the logits of token i + 2. For a
// draft token, whose hidden state the model has not computed yet, it reads its own prediction
// instead.
class HeadDrafter : public NeuralDrafter {
 public:
  // The other arguments are those of NeuralDrafter. type: dtype of the draft head's activations.
  HeadDrafter(models::Model& head, const nn::PagedKeyValueOptions& pages, int64_t max_batch_tokens,
              at::Device device, at::ScalarType type)
      : NeuralDrafter(head, pages, max_batch_tokens, device), type_(type) {}

  bool wants_states() const override { return true; }
  void read(const std::vector<Sequence*>& sequences) override;

 private:
  at::Tensor next_logits(const std::vector<Sequence*>& sequences) override;
  // Runs the pass and sets Sequence::expected_state of each sequence to the hidden state predicted
  // at the last token of its chunk. sequences[i]: the sequence of chunk i.
  void expect(const Pass& pass, const std::vector<Sequence*>& sequences);

  at::ScalarType type_;  // of the head's activations
};

}  // namespace colossal::serve
