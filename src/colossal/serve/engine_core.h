// What the engine does in a step, without its thread: one forward pass, and what follows from it.
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

// Returns the bytes of a page: keys and values of all layers; if several ranks hold the model, on
// the rank that has most of them.
int64_t page_bytes(const EngineOptions& options, const models::ModelFacts& facts,
                   const Strategy& strategy = {});

// Returns how many tokens a request's text may have, the prompt's included.
int64_t longest_text(const Request& request, const EngineOptions& options,
                     const models::ModelFacts& facts);

class EngineCore {
 public:
  // options: resolved. ranks: that hold the model together, of which this is the first, while the
  // others follow(); null: this one alone. around_stage: as ForwardPass takes it.
  // before: what was counted by a core that this one goes on for.
  EngineCore(models::LanguageModel& model, const models::ModelFacts& facts,
             const EngineOptions& options, const ParallelContext* ranks = nullptr,
             const AroundStage& around_stage = {}, const EngineStatistics& before = {});
  ~EngineCore();  // lets the others go
  EngineCore(const EngineCore&) = delete;
  EngineCore& operator=(const EngineCore&) = delete;

  void add(std::unique_ptr<Sequence> sequence);  // finds its salt
  void cancel(uint64_t id);
  void end_all(FinishReason reason, const std::string& error);
  bool idle() const { return scheduler_.empty() && under_way_.empty(); }
  // Starts one forward pass, and takes the results of those that must end before the next one can
  // start: where ranks are a pipeline others go on, so that each stage has one to work on. An error
  // of the model ends the requests that it worked on with `failed`; with several ranks all
  // requests, and a CommError is thrown: there can be no further step. While it is idle it tells
  // the other ranks so, who wait no longer than their groups' timeout.
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
  struct Choice {
    GeneratedToken token{};
    std::string error{};
  };
  using Works = std::vector<Scheduler::Work>;
  // A pass that was started.
  struct UnderWay {
    Works works;
    Wanted wanted;
    bool has_all_states;  // those of all its tokens, for a drafter
  };

  void propose();
  bool drafts_by_states() const;
  void give_states(const at::Tensor& states, const Works& works);
  // run(); after an exception nothing is guessed any more.
  template <typename Run>
  void guard_drafter(const Run& run);
  void start(const Works& works);
  // Takes the results of the oldest pass under way.
  void finish();
  void finish_all();
  void take_results(const UnderWay& pass);
  // A step is over that had these works.
  void leave_step(const Works& works);
  // run(); an error ends the requests of these works, or is thrown where a rank is lost.
  template <typename Run>
  void guard_works(const Works& works, const Run& run);
  // Chooses from the first row of each sequence, and from the next one as long as its guesses are
  // right.
  void deliver_all(const at::Tensor& logits, const std::vector<WantedRow>& rows,
                   const Works& works);
  static Wanted wanted_rows(const Works& works);
  StepPlan plan(const Works& works, const Wanted& wanted);
  void score_prompts(const at::Tensor& logits, const std::vector<WantedRow>& rows) const;
  // For each of the rows of logits.
  std::vector<Choice> choose(const at::Tensor& logits, const std::vector<WantedRow>& rows,
                             const std::vector<size_t>& chosen) const;
  static Choice choose(const at::Tensor& logits, const Sequence& sequence);
  // Of beams: what may follow each, and, once that is known of all beams of a request, what does.
  void continue_beams(const at::Tensor& logits, const std::vector<WantedRow>& rows,
                      const std::vector<size_t>& chosen);
  static std::vector<BeamSearch::Candidate> candidates(const at::Tensor& logits,
                                                       const Sequence& beam);
  void advance(BeamGroup& group);
  // Puts the sequences in the places of what goes on.
  void rearrange(BeamGroup& group, const std::vector<BeamSearch::Continuation>& goes_on);
  void finish_beams(const BeamGroup& group);
  void pool(const at::Tensor& state, const WantedRow& row);
  void finish_prompt(Sequence& sequence);
  void deliver(Sequence& sequence, const Choice& choice);
  void accept(Sequence& sequence, const GeneratedToken& token);
  // run(); an exception ends the request with `failed`.
  template <typename Run>
  void guarded(uint64_t id, const Run& run);
  void end(uint64_t id, FinishReason reason, const std::string& error = "");
  // Keeps a sequence that was taken out until the step that works on it is over.
  void retire(std::unique_ptr<Sequence> sequence);

  // Has the other ranks load the adapter, unless they have it. Throws Error where one cannot.
  void share(const std::shared_ptr<const nn::AdapterWeights>& adapter);
  void drop_unused_adapters();
  void tell(StepMessage::Kind kind, std::vector<int64_t> numbers = {});
  // run(); an error of one rank ends the work of all, as a CommError.
  template <typename Run>
  auto in_step(const Run& run);

  models::ModelFacts facts_;
  EngineOptions options_;
  const ParallelContext* ranks_;
  bool lost_ = false;  // a rank: nobody hears what is told
  std::optional<Heartbeat> heartbeat_;
  ForwardPass pass_;
  std::vector<std::pair<int64_t, int64_t>> copied_pages_;  // before the next pass
  std::unique_ptr<Drafter> drafter_;                       // null: nothing is guessed
  // That the other ranks have, by number.
  std::map<uint64_t, std::weak_ptr<const nn::AdapterWeights>> shared_adapters_;
  Scheduler scheduler_;
  std::deque<UnderWay> under_way_;  // oldest first
  std::vector<std::unique_ptr<Sequence>> retired_;
  EngineStatistics counts_;
};

}  // namespace colossal::serve
