// Serves many requests at once from one model: continuous batching with chunked prefill over paged
// keys and values.
//
// A step is one forward pass over tokens of several requests: for each request in the decode phase
// its last token, for others a chunk of the prompt. Requests join and leave between steps.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "colossal/base/error.h"
#include "colossal/mesh/parallel_context.h"
#include "colossal/models/language_model.h"
#include "colossal/serve/heartbeat.h"
#include "colossal/serve/request.h"

namespace colossal::serve {

// Speculative decoding; see drafter.h.
struct Speculation {
  enum class Kind {
    none,
    lookup,  // prompt lookup: draft tokens from the text itself
    model,   // a smaller draft model
    head     // a draft head on the model's hidden states (DecoderConfig::is_draft_head)
  };
  Kind kind = Kind::none;
  int64_t drafts = 4;                      // most draft tokens per step and request
  models::LanguageModel* model = nullptr;  // the draft model; must outlive the engine
  models::ModelFacts facts{};              // of the draft model
  at::ScalarType type = at::kFloat;        // dtype of the draft model's activations
};

struct EngineOptions {
  int64_t page_size = 16;  // tokens per page, a multiple of ops::kernels::kPagePositions
  // Bytes of all pages of a rank. 0: enough for max_num_seqs sequences of the greatest length, but
  // at most a quarter of the free host memory (which ranks that compute on CPUs share); at least
  // enough for one sequence if max_model_len is given.
  int64_t cache_bytes = 0;
  int64_t max_num_seqs = 64;  // most requests that run at once; one with beams counts as `width`
  int64_t max_batch_tokens = 512;  // most tokens per step
  // most tokens of a sequence, prompt included; 0: the model's number of positions, or as many as
  // the draft model's positions and the pages allow
  int64_t max_model_len = 0;
  // submit() throws QueueFull while max_num_seqs + max_queue requests have not ended.
  int64_t max_queue = 256;
  bool prefix_cache = true;  // requests with equal prefixes share pages
  // Makes a request's numbers bitwise independent of the other requests of a step and of how the
  // prompt is cut into chunks: attention and linear layers compute each token separately. This
  // makes prefill of long prompts slower.
  bool batch_invariant = false;
  Speculation speculation{};
  // True: stores keys and values in int8, with one scale per head and token. False: in `type`.
  bool int8_key_values = false;
  HeartbeatOptions heartbeat{};      // with several ranks: detects hung ranks
  at::ScalarType type = at::kFloat;  // dtype of activations, keys and values
  at::Device device = at::kCPU;      // device of the model's weights
  // With several ranks: how often the first rank sends the other ranks a message while the engine
  // is idle. Must be shorter than the timeout of the ranks' communication groups.
  std::chrono::milliseconds idle_message_interval{1000};
  // With several ranks: called when a rank is lost, on the engine's thread, after all requests have
  // ended with `failed`.
  std::function<void(const std::string& error)> on_lost{};
};

// Thrown by submit() after a rank was lost, until resume().
class EngineLost : public Error {
 public:
  using Error::Error;
};

// Thrown by submit() if the queue is full; the caller may retry later.
class QueueFull : public Error {
 public:
  using Error::Error;
};

using RequestId = uint64_t;

// Counters over the engine's lifetime, and gauges of its current state.
struct EngineStatistics {
  int64_t running = 0, waiting = 0;
  int64_t pages = 0;         // total number of pages
  int64_t pages_in_use = 0;  // pages held by running requests
  int64_t page_size = 0;
  int64_t prefix_queries = 0;  // prompt tokens looked up in the prefix cache
  int64_t prefix_hits = 0;     // prompt tokens found in the prefix cache
  int64_t preemptions = 0;
  int64_t drafts = 0;           // how many times a sequence's drafts were verified
  int64_t draft_tokens = 0;     // draft tokens that were verified
  int64_t accepted_tokens = 0;  // draft tokens that were accepted
  int64_t prompt_tokens = 0;    // prompt tokens, those found in the prefix cache included
  int64_t generated_tokens = 0;
  int64_t steps = 0;
  int64_t batch_tokens = 0;           // sum of the tokens of all steps
  std::array<int64_t, 4> finished{};  // number of ended requests, by FinishReason
};

class Engine {
 public:
  // Starts the thread that runs steps. The model and the draft model must outlive the engine, and
  // nothing else may use them meanwhile. ranks: the ranks that hold the model, this rank being the
  // first; they must outlive the engine, too. The other ranks call follow() (forward_pass.h). Null:
  // this rank holds the whole model. Throws ConfigError for invalid options.
  Engine(models::LanguageModel& model, const models::ModelFacts& facts,
         const EngineOptions& options = {}, const ParallelContext* ranks = nullptr);
  // Ends all requests with `cancelled`.
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Thread-safe. Throws ConfigError for an invalid request (empty prompt, prompt too long, token
  // outside the vocabulary, bad sampling options), QueueFull and EngineLost.
  RequestId submit(Request request);
  // Thread-safe. Returns at once; after the current step, the engine frees the request's pages and
  // calls its on_finish with `cancelled`. Does nothing if the request has ended or never existed.
  void cancel(RequestId request);
  // Thread-safe. Waits until every submitted request has ended.
  void drain();
  // Accepts requests again after on_lost was called, with the model reopened on `ranks`. Waits for
  // on_lost to return, so it must not be called from on_lost.
  void resume(models::LanguageModel& model, const ParallelContext* ranks);
  // Thread-safe.
  EngineStatistics statistics() const;

  const EngineOptions& options() const;  // with zeros replaced by the values in use

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace colossal::serve
