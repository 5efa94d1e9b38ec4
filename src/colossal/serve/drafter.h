// Drafts continuations of texts, so that the model verifies several tokens in one forward pass (Y.
// Leviathan et al., "Fast Inference from Transformers via Speculative Decoding", 2023).
//
// A draft token is accepted if it equals the token that the request itself draws at that position.
// A draw is a function of the model's probabilities, the seed and the position, so for any sampling
// options the generated text is, token for token, the text without drafts. A draft model draws with
// the same seed and position from its own probabilities; its tokens agree with the model's wherever
// the two distributions are similar.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "colossal/models/language_model.h"
#include "colossal/nn/paged_key_value_store.h"
#include "colossal/serve/sequence.h"

namespace colossal::serve {

// A sequence and the most tokens to draft for it. The sequence's pages have room for these.
struct DraftRequest {
  Sequence* sequence = nullptr;
  int64_t most = 0;
};

// A sequence whose constraint threw while tokens were drafted for it.
struct DraftFailure {
  uint64_t id = 0;
  std::string error;
};

class Drafter {
 public:
  virtual ~Drafter() = default;
  // Sets Sequence::drafts of each sequence. The sequences are in the decode phase. Returns those
  // whose constraint threw; these get no drafts.
  virtual std::vector<DraftFailure> propose(const std::vector<DraftRequest>& requests) = 0;
  // Whether read() needs the model's final hidden states (Sequence::states) of each step.
  virtual bool wants_states() const { return false; }
  // Called after each step if wants_states(), with the sequences of the step that have not ended.
  virtual void read(const std::vector<Sequence*>& /*sequences*/) {}
  // Called when page `from` of the model's keys and values is to be copied to page `to`.
  virtual void copy_page(int64_t /*from*/, int64_t /*to*/) {}
};

// Looks for an earlier occurrence of the last tokens of the text and returns the tokens that
// followed it, at most `most`; empty if there is none. Searches for the longest suffix of 2 to 4
// tokens that occurs earlier, and uses its latest occurrence (A. Saxena, "Prompt Lookup Decoding",
// 2023).
std::vector<int32_t> look_up_continuation(std::span<const int32_t> text, int64_t most);

class LookupDrafter : public Drafter {
 public:
  std::vector<DraftFailure> propose(const std::vector<DraftRequest>& requests) override;
};

// Drafts with a draft model, which has its own keys and values. Page n of the draft model holds the
// same positions of a sequence as page n of the model.
class NeuralDrafter : public Drafter {
 public:
  // max_batch_tokens: most tokens per forward pass of the draft model.
  NeuralDrafter(models::LanguageModel& model, const nn::PagedKeyValueOptions& pages,
                int64_t max_batch_tokens, at::Device device)
      : model_(model),
        store_(pages),
        page_size_(pages.page_size),
        max_batch_tokens_(max_batch_tokens),
        device_(device) {}

  // Drafts one token at a time, for all sequences in one pass. Applies a copy of each request's
  // constraint.
  std::vector<DraftFailure> propose(const std::vector<DraftRequest>& requests) override;
  void copy_page(int64_t from, int64_t to) override { store_.copy_page(from, to); }

 protected:
  // One forward pass over chunks of several sequences.
  struct Pass {
    std::vector<nn::PagedChunk> chunks{};
    // of each token; lengths: see nn::StepContext
    std::vector<int64_t> tokens{}, positions{}, lengths{};
    // [tokens, hidden] for each chunk: the hidden states that a draft head reads
    // (nn::StepContext::states); empty for an independent draft model
    std::vector<at::Tensor> states{};
    std::vector<int64_t> last_rows{};  // row of the last token of each chunk
  };

  // Returns logits [sequences, vocabulary], on the CPU, for the token after the last draft of each
  // sequence (after its last token if it has no draft).
  virtual at::Tensor next_logits(const std::vector<Sequence*>& sequences) = 0;
  // Adds a chunk to a pass: tokens[i] is at position begin + i. alone: see nn::PagedChunk.
  static void add(Pass& pass, const Sequence& sequence, int64_t begin,
                  std::span<const int32_t> tokens, bool alone);
  // Runs the pass and returns the final hidden states [1, tokens, hidden]. Sets `context`, which
  // the model's head needs to compute logits from these states.
  at::Tensor run(const Pass& pass, nn::StepContext& context);

  models::LanguageModel& model() const { return model_; }
  at::Device device() const { return device_; }
  int64_t page_size() const { return page_size_; }
  int64_t max_batch_tokens() const { return max_batch_tokens_; }

 private:
  models::LanguageModel& model_;
  nn::PagedKeyValueStore store_;
  int64_t page_size_;
  int64_t max_batch_tokens_;
  at::Device device_;
};

// An independent, smaller model with the same vocabulary (classic speculative decoding).
class ModelDrafter : public NeuralDrafter {
 public:
  ModelDrafter(models::LanguageModel& model, const nn::PagedKeyValueOptions& pages,
               int64_t max_batch_tokens, at::Device device)
      : NeuralDrafter(model, pages, max_batch_tokens, device),
        read_(static_cast<size_t>(pages.pages)) {}

 private:
  at::Tensor next_logits(const std::vector<Sequence*>& sequences) override;
  // Returns how many leading tokens of the sequence already have this model's keys and values in
  // the sequence's pages, whichever sequence they were computed for.
  int64_t num_cached_tokens(const Sequence& sequence) const;
  void remember(const Sequence& sequence);

  // for each page, the prefix for which this model last filled the page
  std::vector<PagePool::Prefix> read_;
};

// A draft head on the model's own hidden states (EAGLE, Li et al. 2024). Its input at position i is
// the hidden state of token i and the embedding of token i + 1. Its output is the predicted hidden
// state of token i + 1, from which it computes the logits of token i + 2. After a draft token, the
// predicted hidden state is used in place of the model's, which is not known yet.
class HeadDrafter : public NeuralDrafter {
 public:
  // type: dtype of the draft head's activations.
  HeadDrafter(models::LanguageModel& head, const nn::PagedKeyValueOptions& pages,
              int64_t max_batch_tokens, at::Device device, at::ScalarType type)
      : NeuralDrafter(head, pages, max_batch_tokens, device), type_(type) {}

  bool wants_states() const override { return true; }
  void read(const std::vector<Sequence*>& sequences) override;

 private:
  at::Tensor next_logits(const std::vector<Sequence*>& sequences) override;
  // Runs the pass and sets Sequence::expected_state of each sequence. sequences[i]: the sequence of
  // chunk i.
  void expect(const Pass& pass, const std::vector<Sequence*>& sequences);

  at::ScalarType type_;
};

}  // namespace colossal::serve
