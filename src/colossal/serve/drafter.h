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

class Drafter {
 public:
  virtual ~Drafter() = default;
  // Sets the `drafts` of sequences that generate.
  virtual void propose(const std::vector<DraftRequest>& requests) = 0;
  // Tells that the pages of these numbers get new contents.
  virtual void copy_page(int64_t /*from*/, int64_t /*to*/) {}
};

// Guesses at most `most` tokens: those that followed the last tokens of the text where these
// occurred before. It looks for the longest run of 2 to 4 last tokens, and takes its last place (A.
// Saxena, "Prompt Lookup Decoding", 2023).
std::vector<int32_t> look_up_continuation(std::span<const int32_t> text, int64_t most);

class LookupDrafter : public Drafter {
 public:
  void propose(const std::vector<DraftRequest>& requests) override;
};

// A smaller model with the same vocabulary. Its keys and values lie in pages of the same numbers.
class ModelDrafter : public Drafter {
 public:
  // max_batch_tokens: of one pass.
  ModelDrafter(models::LanguageModel& model, const nn::PagedKeyValueOptions& pages,
               int64_t max_batch_tokens, at::Device device)
      : model_(model), store_(pages), max_batch_tokens_(max_batch_tokens), device_(device) {}

  void propose(const std::vector<DraftRequest>& requests) override;
  void copy_page(int64_t from, int64_t to) override { store_.copy_page(from, to); }

 private:
  // Tokens of several texts.
  struct Pass {
    std::vector<nn::PagedChunk> chunks;
    std::vector<int64_t> tokens, positions, lengths;
    std::vector<int64_t> last_rows;  // of each chunk
  };

  void guess_next(const std::vector<Sequence*>& sequences);
  // Returns logits [sequences, vocabulary] after the last token of each.
  at::Tensor read(const std::vector<Sequence*>& sequences);
  static void add(Pass& pass, const Sequence& sequence, Range positions, bool alone);
  // Returns logits [chunks, vocabulary] of their last tokens.
  at::Tensor run(const Pass& pass);

  models::LanguageModel& model_;
  nn::PagedKeyValueStore store_;
  int64_t max_batch_tokens_;
  at::Device device_;
};

}  // namespace colossal::serve
