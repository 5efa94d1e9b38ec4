// Guesses how texts go on, so that the model checks several tokens in one pass (Y. Leviathan et
// al., "Fast Inference from Transformers via Speculative Decoding", 2023).
//
// A guess is accepted if it is the token that the request would draw there. So a text is, token for
// token, what it would be without guesses, whatever the sampling options: the draw is a function of
// the model's probabilities, the seed and the position. A smaller model guesses by the same draw
// from its own probabilities, so the two agree wherever these are alike.
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

// A sequence, and how many tokens may be guessed for it; its pages have room for them.
struct DraftRequest {
  Sequence* sequence = nullptr;
  int64_t most = 0;
};

// A sequence whose constraint has thrown while tokens were guessed for it.
struct DraftFailure {
  uint64_t id = 0;
  std::string error;
};

class Drafter {
 public:
  virtual ~Drafter() = default;
  // Sets the `drafts` of sequences that generate. Those in the result have none.
  virtual std::vector<DraftFailure> propose(const std::vector<DraftRequest>& requests) = 0;
  // Whether a step's sequences get the states of their tokens.
  virtual bool wants_states() const { return false; }
  // Called after each step with those of its sequences that go on.
  virtual void read(const std::vector<Sequence*>& /*sequences*/) {}
  // Tells that the pages of these numbers get new contents.
  virtual void copy_page(int64_t /*from*/, int64_t /*to*/) {}
};

// Guesses at most `most` tokens: those that followed the last tokens of the text where these
// occurred before. It looks for the longest run of 2 to 4 last tokens, and takes its last place (A.
// Saxena, "Prompt Lookup Decoding", 2023).
std::vector<int32_t> look_up_continuation(std::span<const int32_t> text, int64_t most);

class LookupDrafter : public Drafter {
 public:
  std::vector<DraftFailure> propose(const std::vector<DraftRequest>& requests) override;
};

// A model of its own. Its keys and values lie in pages of the same numbers.
class NeuralDrafter : public Drafter {
 public:
  // max_batch_tokens: of one pass.
  NeuralDrafter(models::LanguageModel& model, const nn::PagedKeyValueOptions& pages,
                int64_t max_batch_tokens, at::Device device)
      : model_(model),
        store_(pages),
        page_size_(pages.page_size),
        max_batch_tokens_(max_batch_tokens),
        device_(device) {}

  // Guesses one token after the other, of all texts at once; none that a text's constraint forbids.
  std::vector<DraftFailure> propose(const std::vector<DraftRequest>& requests) override;
  void copy_page(int64_t from, int64_t to) override { store_.copy_page(from, to); }

 protected:
  // Tokens of several texts.
  struct Pass {
    std::vector<nn::PagedChunk> chunks{};
    std::vector<int64_t> tokens{}, positions{}, lengths{};
    std::vector<at::Tensor> states{};  // that go with the tokens, [tokens, hidden] each; or none
    std::vector<int64_t> last_rows{};  // of each chunk
  };

  // Returns logits [sequences, vocabulary] of what follows the last guess of each.
  virtual at::Tensor next_logits(const std::vector<Sequence*>& sequences) = 0;
  // Adds tokens to a pass: number i of `tokens` at position begin + i.
  static void add(Pass& pass, const Sequence& sequence, int64_t begin,
                  std::span<const int32_t> tokens, bool alone);
  // Returns the final states [1, tokens, hidden], and in `context` what the head needs for logits.
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

// A smaller model with the same vocabulary, which reads tokens.
class ModelDrafter : public NeuralDrafter {
 public:
  ModelDrafter(models::LanguageModel& model, const nn::PagedKeyValueOptions& pages,
               int64_t max_batch_tokens, at::Device device)
      : NeuralDrafter(model, pages, max_batch_tokens, device),
        read_(static_cast<size_t>(pages.pages)) {}

 private:
  at::Tensor next_logits(const std::vector<Sequence*>& sequences) override;
  // How many first tokens of a text this model has read for another one.
  int64_t found_of(const Sequence& sequence) const;
  void remember(const Sequence& sequence);

  std::vector<PagePool::Prefix> read_;  // of each page, the beginning that it was read with last
};

// A head on the model's own states (EAGLE). At position i it reads the state of token i and token i
// + 1, and what it computes is the state that it expects of token i + 1, of which the model's head
// makes a guess of token i + 2. Where it goes on from a guess, the expected state stands for the
// model's.
class HeadDrafter : public NeuralDrafter {
 public:
  // type: of the head's activations.
  HeadDrafter(models::LanguageModel& head, const nn::PagedKeyValueOptions& pages,
              int64_t max_batch_tokens, at::Device device, at::ScalarType type)
      : NeuralDrafter(head, pages, max_batch_tokens, device), type_(type) {}

  bool wants_states() const override { return true; }
  void read(const std::vector<Sequence*>& sequences) override;

 private:
  at::Tensor next_logits(const std::vector<Sequence*>& sequences) override;
  // Runs the pass, and sets what is expected of each of its chunks' sequences.
  void expect(const Pass& pass, const std::vector<Sequence*>& sequences);

  at::ScalarType type_;
};

}  // namespace colossal::serve
