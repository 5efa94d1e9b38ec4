// EngineCore: the engine without a thread of its own; the caller runs each step. Engine (engine.h)
// runs an EngineCore on its thread, and roll_out() (tune/rollout/rollout.h) runs one during
// training. Not thread-safe.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "colossal/models/model.h"
#include "colossal/models/model_facts.h"
#include "colossal/serve/beam_group.h"
#include "colossal/serve/drafter.h"
#include "colossal/serve/engine.h"
#include "colossal/serve/forward_pass.h"
#include "colossal/serve/scheduler.h"
#include "colossal/serve/step_messages.h"

namespace colossal::serve {

// Returns the bytes of one page of the KV cache, as an upper bound for all ranks. A page has the
// keys and values of page_size tokens. It is counted with the largest number of layers that a rank
// has, with the largest number of K/V heads that a rank stores per layer, and with all layers and
// heads of the draft model, if there is one. facts: of the model. strategy: how ranks partition the
// model.
int64_t page_bytes(const EngineOptions& options, const models::ModelFacts& facts,
                   const Strategy& strategy = {});

// Returns the most tokens that a request's text may have, prompt included. This is the smaller of
// options.max_model_len and the number of positions that the virtual tokens of the request's
// adapter leave: the model's number of positions minus the number of virtual tokens. options:
// max_model_len must not be 0.
int64_t longest_text(const Request& request, const EngineOptions& options,
                     const models::ModelFacts& facts);

// Runs requests: schedules their tokens, plans and runs forward passes, samples tokens, and calls
// the requests' callbacks.
class EngineCore {
 public:
  // facts: of the model. options: cache_bytes and max_model_len must not be 0 (see
  // Engine::options()). ranks: the ranks that hold the model, of which this rank is the first; the
  // other ranks call follow() (forward_pass.h). Null: this rank holds the whole model.
  // around_stage: wraps the computation of each stage (AroundStage); may be empty. before: initial
  // values of the counters, e.g. those of a previous EngineCore.
  EngineCore(models::Model& model, const models::ModelFacts& facts, const EngineOptions& options,
             const ParallelContext* ranks = nullptr, const AroundStage& around_stage = {},
             const EngineStatistics& before = {});
  // Waits for the passes in flight and ends follow() on the other ranks.
  ~EngineCore();
  EngineCore(const EngineCore&) = delete;
  EngineCore& operator=(const EngineCore&) = delete;

  // Adds a request as a waiting sequence. The caller must have set these fields of Sequence: id;
  // request, which must be valid (Engine::submit() checks it, add() does not); tokens, to the
  // prompt; prompt_logprobs, to one nullopt for each token of the prompt if
  // Request::prompt_logprobs >= 0; submitted, if Usage::queue_seconds is read. add() sets
  // Sequence::salt and, for beam search, Sequence::group. If other ranks have not loaded the
  // request's adapter yet, add() handles the results of all passes in flight, then waits until the
  // ranks have loaded it. If one of them cannot, the request ends with `failed`.
  void add(std::unique_ptr<Sequence> sequence);
  // Ends a request with FinishReason::cancelled; does nothing if no request has this id.
  void cancel(uint64_t id);
  // Ends all requests; `reason` and `error` are passed to their on_finish.
  void end_all(FinishReason reason, const std::string& error);
  // Whether there are no requests and no passes in flight.
  bool idle() const { return scheduler_.empty() && passes_in_flight_.empty(); }
  // Starts one forward pass. If there is nothing to compute, also while idle, this is an empty pass
  // (ForwardPass::start()), which has no results and does not count as in flight. Then waits for
  // results of passes in flight, oldest first, and handles them (samples tokens, calls callbacks),
  // until another pass could start or no pass is in flight. With pipeline parallelism, up to
  // ForwardPass::max_passes_in_flight() - 1 passes remain in flight when step() returns.
  //
  // If the model throws and this rank holds the whole model, the requests of that pass end with
  // `failed`. With several ranks, step() throws CommError for any exception; after that, no further
  // step is possible. With one rank, another exception than the model's leaves step(): then call
  // end_all(), after which further steps are possible.
  //
  // With several ranks, each step() sends the other ranks a message, also for an empty pass.
  // Between steps they wait for the next message. So that this wait does not time out, call step()
  // also while idle, at intervals shorter than the timeout of the ranks' groups.
  void step();
  EngineStatistics statistics() const;  // as of now, with the counters of `before` included

 private:
  // A token of a pass whose logits or final hidden state the pass must return.
  struct WantedRow {
    Sequence* sequence;
    int64_t row;       // index of the token among all tokens of the pass
    int64_t position;  // position, in its sequence, of the next token, which the logits predict
  };
  struct Wanted {
    std::vector<WantedRow> logits, states;
  };
  // What a pass has returned for an element of Wanted::logits.
  struct RowResult {
    at::Tensor logits{};  // [vocabulary]; undefined if the token was chosen on the device
    int64_t token = 0;    // then: the token, or -1 if none could be chosen
  };
  using RowResults = std::vector<RowResult>;
  // The token sampled for a sequence.
  struct Choice {
    GeneratedToken token{};
    std::string error{};  // if not empty, no token could be chosen
  };
  // What a pass computes: one element for each of its sequences, which says which tokens of the
  // sequence are computed.
  using Works = std::vector<Scheduler::Work>;
  // A pass in flight.
  struct PassInFlight {
    Works works;
    Wanted wanted;
    bool has_all_states;               // the pass returns the states of all tokens, for HeadDrafter
    std::vector<TokenChoice> choices;  // StepPlan::choices
  };

  void run_step();                // step(), without its guard
  void propose();                 // drafts tokens for the next pass
  bool drafts_by_states() const;  // whether the drafter reads hidden states
  // Sets Sequence::states for the drafter. states: [tokens of the pass, hidden].
  void store_states(const at::Tensor& states, const Works& works);
  // Calls run(), which uses the drafter; an exception removes the drafter for a number of steps.
  template <typename Run>
  void guard_drafter(const Run& run);
  void renew_drafter();  // makes a new drafter if one was removed and these steps are over
  void start(const Works& works);  // starts a pass
  // Waits for the results of the oldest pass in flight and handles them.
  void finish();
  void finish_all();                            // calls finish() until no pass is in flight
  void take_results(const PassInFlight& pass);  // waits for the results and handles them
  // Called when the pass that computed these works is over: decrements Sequence::steps and deletes
  // retired sequences that no pass includes any more.
  void leave_step(const Works& works);
  // Calls run(). An exception ends the requests of these works with `failed`; it is rethrown if a
  // rank is lost.
  template <typename Run>
  void guard_works(const Works& works, const Run& run);
  // Samples the next tokens of the sequences and delivers them. A sequence has one row for its last
  // token and one for each draft token. Sampling continues with the sequence's next row as long as
  // the sampled token equals the draft token of that row.
  void deliver_all(const RowResults& results, const std::vector<WantedRow>& rows,
                   const Works& works);
  // Returns the tokens of a pass whose logits or states are needed.
  static Wanted wanted_rows(const Works& works);
  StepPlan plan(const Works& works, const Wanted& wanted);
  // Returns which of the rows have their tokens chosen on the device.
  std::vector<TokenChoice> choices_on_device(const std::vector<WantedRow>& rows) const;
  // results: of a pass whose plan had these rows and choices.
  static RowResults by_row(const PassResults& results, size_t rows,
                           const std::vector<TokenChoice>& choices);
  // Sets Sequence::prompt_logprobs for rows of prompts whose log-probabilities are requested.
  static void score_prompts(const RowResults& results, const std::vector<WantedRow>& rows);
  // Samples a token for each row whose index is in `chosen`. results[i] belongs to rows[i].
  static std::vector<Choice> choose(const RowResults& results, const std::vector<WantedRow>& rows,
                                    const std::vector<size_t>& chosen);
  // Samples a token for a sequence.
  static Choice choose(const RowResult& result, const Sequence& sequence);
  // Sets the candidates of the beams whose rows have the indices `chosen`. Then extends the beams
  // of each request for which the candidates of all beams are set.
  void continue_beams(const RowResults& results, const std::vector<WantedRow>& rows,
                      const std::vector<size_t>& chosen);
  // Returns the candidates for a beam's next token. logits: [vocabulary].
  static std::vector<BeamSearch::Candidate> candidates(const at::Tensor& logits,
                                                       const Sequence& beam);
  void advance(BeamGroup& group);  // extends all beams of a request by one token
  // Makes the sequences of a group those of its new beams: keeps, forks and removes sequences.
  // goes_on: the new beams, as BeamSearch::advance() returned them.
  void rearrange(BeamGroup& group, const std::vector<BeamSearch::Continuation>& goes_on);
  void finish_beams(const BeamGroup& group);  // calls on_beams and ends the request
  // Adds the hidden state [hidden] of a prompt token to Sequence::pooled. After the last prompt
  // token, calls on_embedding and ends the request.
  void pool(const at::Tensor& state, const WantedRow& row);
  // Marks the prompt as done and calls on_prompt, when the prompt's last logits have arrived.
  void finish_prompt(Sequence& sequence);
  // Passes a sampled token to accept(). Ends the request instead if it wants no tokens
  // (max_new_tokens is 0), or, with `failed`, if sampling failed. Calls finish_prompt() before if
  // this is the first result after the prompt.
  void deliver(Sequence& sequence, const Choice& choice);
  // Ends the request if the token is an end token. Otherwise appends the token to the sequence and
  // calls on_token, then ends the request if this was its last token.
  void accept(Sequence& sequence, const GeneratedToken& token);
  // Calls run(); an exception ends the request `id` with `failed`.
  template <typename Run>
  void guarded(uint64_t id, const Run& run);
  // Ends a request: removes its sequences and calls on_finish. Does nothing if it has ended.
  void end(uint64_t id, FinishReason reason, const std::string& error = "");
  // Keeps a sequence that the scheduler has removed until no pass in flight includes it.
  void retire(std::unique_ptr<Sequence> sequence);

  // Makes the other ranks load the adapter, unless they have already loaded it. Throws Error if a
  // rank cannot load it.
  void share(const std::shared_ptr<const nn::AdapterWeights>& adapter);
  // Makes the other ranks drop adapters that no request on this rank uses any more.
  void drop_unused_adapters();
  // Sends a message to the other ranks; does nothing if this rank holds the whole model.
  void tell(StepMessage::Kind kind, std::vector<int64_t> numbers = {});
  // Calls run(). With several ranks, an exception aborts the world and is rethrown as CommError.
  template <typename Run>
  auto in_step(const Run& run);

  models::ModelFacts facts_;
  EngineOptions options_;
  const ParallelContext* ranks_;
  bool lost_ = false;  // a rank is lost: no messages are sent any more
  std::optional<Heartbeat> heartbeat_;
  ForwardPass pass_;
  // page numbers (from, to): pages to copy before the next pass
  std::vector<std::pair<int64_t, int64_t>> copied_pages_;
  std::unique_ptr<Drafter> drafter_;  // null: no speculative decoding, or none for now
  int64_t num_steps_ = 0;             // calls of step()
  // After a failure of the drafter: the step at which a new one is made; and the steps between the
  // next failure and the next drafter.
  int64_t next_drafter_step_ = 0, drafter_pause_ = 1;
  // Adapters that the other ranks have loaded. Key: AdapterWeights::number.
  std::map<uint64_t, std::weak_ptr<const nn::AdapterWeights>> shared_adapters_;
  // Of an encoder-decoder: the requests whose sources the encoder has read, and those of them that
  // have ended since the last pass.
  std::set<uint64_t> read_sources_;
  std::vector<int64_t> dropped_sources_;
  Scheduler scheduler_;
  std::deque<PassInFlight> passes_in_flight_;       // oldest first
  std::vector<std::unique_ptr<Sequence>> retired_;  // ended, but in passes in flight
  EngineStatistics counts_;  // counters; the fields of the current state are not set
};

}  // namespace colossal::serve
