// What the engine does in a step, without its thread: one forward pass, and what follows from it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "colossal/models/language_model.h"
#include "colossal/nn/paged_key_value_store.h"
#include "colossal/serve/drafter.h"
#include "colossal/serve/engine.h"
#include "colossal/serve/scheduler.h"

namespace colossal::serve {

// Returns the bytes of a page: keys and values of all layers.
int64_t page_bytes(const EngineOptions& options, const models::ModelFacts& facts);

class EngineCore {
 public:
  // options: resolved.
  EngineCore(models::LanguageModel& model, const models::ModelFacts& facts,
             const EngineOptions& options);

  void add(std::unique_ptr<Sequence> sequence);  // finds its salt
  void cancel(uint64_t id);
  void end_all(FinishReason reason, const std::string& error);
  bool idle() const { return scheduler_.empty(); }
  // One forward pass. An error of the model ends the requests that it worked on with `failed`.
  void step();
  EngineStatistics statistics() const;

 private:
  // A row of a step's results that somebody wants.
  struct WantedRow {
    Sequence* sequence;
    int64_t row;       // of the step's tokens
    int64_t position;  // of the token that the logits are for
  };
  struct Wanted {
    std::vector<WantedRow> logits, states;
  };
  struct Results {
    at::Tensor logits;  // [rows, vocabulary], on the host
    at::Tensor states;  // [rows, hidden] fp64, on the host; undefined: none are wanted
  };
  struct Choice {
    GeneratedToken token{};
    std::string error{};
  };
  using Works = std::vector<Scheduler::Work>;

  void propose();
  void run(const Works& works);
  // Chooses from the first row of each sequence, and from the next one as long as its guesses are
  // right.
  void deliver_all(const at::Tensor& logits, const std::vector<WantedRow>& rows,
                   const Works& works);
  static Wanted wanted_rows(const Works& works);
  Results forward(const Works& works, const Wanted& wanted);
  nn::StepContext begin_step(const Works& works);
  void score_prompts(const at::Tensor& logits, const std::vector<WantedRow>& rows) const;
  // For each of the rows of logits.
  std::vector<Choice> choose(const at::Tensor& logits, const std::vector<WantedRow>& rows,
                             const std::vector<size_t>& chosen) const;
  static Choice choose(const at::Tensor& logits, const Sequence& sequence);
  void pool(const at::Tensor& state, const WantedRow& row);
  void finish_prompt(Sequence& sequence);
  void deliver(Sequence& sequence, const Choice& choice);
  void accept(Sequence& sequence, const GeneratedToken& token);
  // run(); an exception ends the request with `failed`.
  template <typename Run>
  void guarded(uint64_t id, const Run& run);
  void end(uint64_t id, FinishReason reason, const std::string& error = "");

  models::LanguageModel& model_;
  models::ModelFacts facts_;
  EngineOptions options_;
  nn::PagedKeyValueStore store_;
  std::unique_ptr<Drafter> drafter_;  // null: nothing is guessed
  Scheduler scheduler_;
  EngineStatistics counts_;
};

}  // namespace colossal::serve
