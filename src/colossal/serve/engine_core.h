// The engine's steps, without the engine's thread: the caller runs them. Not thread-safe.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "colossal/models/language_model.h"
#include "colossal/serve/beam_group.h"
#include "colossal/serve/drafter.h"
#include "colossal/serve/engine.h"
#include "colossal/serve/forward_pass.h"
#include "colossal/serve/scheduler.h"
#include "colossal/serve/step_messages.h"

namespace colossal::serve {

// Returns the bytes of one page: the keys and values of page_size tokens in a rank's layers, on the
// rank with the most layers and heads, and those of the draft model.
int64_t page_bytes(const EngineOptions& options, const models::ModelFacts& facts,
                   const Strategy& strategy = {});

// Returns the most tokens that a request's text may have, prompt included.
int64_t longest_text(const Request& request, const EngineOptions& options,
                     const models::ModelFacts& facts);

class EngineCore {
 public:
  // options: as Engine::options() returns them, with zeros replaced. ranks: the ranks that hold the
  // model, this rank being the first; the other ranks call follow(). Null: this rank holds the
  // whole model. around_stage: see ForwardPass. before: counters of a previous core, from which
  // this core counts on.
  EngineCore(models::LanguageModel& model, const models::ModelFacts& facts,
             const EngineOptions& options, const ParallelContext* ranks = nullptr,
             const AroundStage& around_stage = {}, const EngineStatistics& before = {});
  // Waits for the passes in flight and ends follow() on the other ranks.
  ~EngineCore();
  EngineCore(const EngineCore&) = delete;
  EngineCore& operator=(const EngineCore&) = delete;

  void add(std::unique_ptr<Sequence> sequence);  // sets Sequence::salt
  void cancel(uint64_t id);
  void end_all(FinishReason reason, const std::string& error);
  // Whether there are no requests and no passes in flight.
  bool idle() const { return scheduler_.empty() && passes_in_flight_.empty(); }
  // Starts one forward pass, then handles the results of passes in flight, oldest first, until
  // another pass could start. With pipeline parallelism, up to ForwardPass::max_passes_in_flight()
  // - 1 passes remain in flight.
  //
  // An exception of the model ends the requests of that pass with `failed`. With several ranks,
  // step() throws CommError instead, and no further step is possible.
  //
  // While idle, call step() more often than the timeout of the ranks' groups: it then tells the
  // other ranks that there is nothing to do, so that their receives do not time out.
  void step();
  EngineStatistics statistics() const;

 private:
  // A row of logits or of final hidden states that a pass must return.
  struct WantedRow {
    Sequence* sequence;
    int64_t row;       // index of the token in the pass
    int64_t position;  // position of the row's token + 1, i.e. of the token it predicts
  };
  struct Wanted {
    std::vector<WantedRow> logits, states;
  };
  struct Choice {
    GeneratedToken token{};
    std::string error{};  // if not empty, no token could be chosen
  };
  // What a pass computes: a part of each of its sequences.
  using Works = std::vector<Scheduler::Work>;
  // A pass in flight.
  struct PassInFlight {
    Works works;
    Wanted wanted;
    bool has_all_states;  // the pass returns the states of all tokens, for HeadDrafter
  };

  void propose();                 // drafts tokens for the next pass
  bool drafts_by_states() const;  // whether the drafter reads hidden states
  void store_states(const at::Tensor& states, const Works& works);
  // Calls run(), which uses the drafter; an exception turns speculative decoding off.
  template <typename Run>
  void guard_drafter(const Run& run);
  void start(const Works& works);
  // Waits for the results of the oldest pass in flight and handles them.
  void finish();
  void finish_all();
  void take_results(const PassInFlight& pass);
  // Called when the step that computed these works is over.
  void leave_step(const Works& works);
  // Calls run(). An exception ends the requests of these works with `failed`; it is rethrown if a
  // rank is lost.
  template <typename Run>
  void guard_works(const Works& works, const Run& run);
  // Delivers to each sequence the token chosen from its first row, and one more from each further
  // row as long as the draft tokens before that row are accepted.
  void deliver_all(const at::Tensor& logits, const std::vector<WantedRow>& rows,
                   const Works& works);
  static Wanted wanted_rows(const Works& works);
  StepPlan plan(const Works& works, const Wanted& wanted);
  void score_prompts(const at::Tensor& logits, const std::vector<WantedRow>& rows) const;
  // Chooses a token from each of the rows with the indices `chosen`. logits[i] belongs to rows[i].
  std::vector<Choice> choose(const at::Tensor& logits, const std::vector<WantedRow>& rows,
                             const std::vector<size_t>& chosen) const;
  static Choice choose(const at::Tensor& logits, const Sequence& sequence);
  // Stores the candidates of the beams in rows `chosen`, and extends the beams of each request
  // whose beams all have candidates.
  void continue_beams(const at::Tensor& logits, const std::vector<WantedRow>& rows,
                      const std::vector<size_t>& chosen);
  static std::vector<BeamSearch::Candidate> candidates(const at::Tensor& logits,
                                                       const Sequence& beam);
  void advance(BeamGroup& group);
  // Replaces the sequences of a group by its new beams: keeps, forks and removes sequences.
  void rearrange(BeamGroup& group, const std::vector<BeamSearch::Continuation>& goes_on);
  void finish_beams(const BeamGroup& group);
  // Adds a hidden state to the sequence's embedding; after the last one, ends the request.
  void pool(const at::Tensor& state, const WantedRow& row);
  void finish_prompt(Sequence& sequence);
  void deliver(Sequence& sequence, const Choice& choice);
  void accept(Sequence& sequence, const GeneratedToken& token);
  // Calls run(); an exception ends the request `id` with `failed`.
  template <typename Run>
  void guarded(uint64_t id, const Run& run);
  void end(uint64_t id, FinishReason reason, const std::string& error = "");
  // Keeps a removed sequence until no step in flight includes it.
  void retire(std::unique_ptr<Sequence> sequence);

  // Makes the other ranks load the adapter unless they have it. Throws Error if one of them fails
  // to.
  void share(const std::shared_ptr<const nn::AdapterWeights>& adapter);
  void drop_unused_adapters();
  void tell(StepMessage::Kind kind, std::vector<int64_t> numbers = {});
  // Calls run(). With several ranks, an exception aborts the world and is rethrown as CommError.
  template <typename Run>
  auto in_step(const Run& run);

  models::ModelFacts facts_;
  EngineOptions options_;
  const ParallelContext* ranks_;
  bool lost_ = false;  // a rank is lost: messages no longer arrive
  std::optional<Heartbeat> heartbeat_;
  ForwardPass pass_;
  // page numbers (from, to): pages to copy before the next pass
  std::vector<std::pair<int64_t, int64_t>> copied_pages_;
  std::unique_ptr<Drafter> drafter_;  // null: no speculative decoding
  // Adapters loaded on the other ranks, by AdapterWeights::number.
  std::map<uint64_t, std::weak_ptr<const nn::AdapterWeights>> shared_adapters_;
  Scheduler scheduler_;
  std::deque<PassInFlight> passes_in_flight_;       // oldest first
  std::vector<std::unique_ptr<Sequence>> retired_;  // ended, but in steps in flight
  EngineStatistics counts_;
};

}  // namespace colossal::serve
