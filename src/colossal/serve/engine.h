// Serves many requests at once from one model: continuous batching with chunked prefill over paged
// keys and values.
//
// A step is one forward pass over a row of tokens of several requests: one token each of those that
// generate, and chunks of prompts that have not been read. Requests join and leave between steps.
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

// How the next tokens of texts are guessed, which the model then checks in one pass: see drafter.h.
struct Speculation {
  enum class Kind {
    none,
    lookup,  // from the text itself
    model,   // by a smaller model
    head     // by one that reads the model's states (DecoderConfig::reads_states)
  };
  Kind kind = Kind::none;
  int64_t drafts = 4;                      // tokens guessed at once
  models::LanguageModel* model = nullptr;  // which must outlive the engine
  models::ModelFacts facts{};              // of that model
  at::ScalarType type = at::kFloat;        // that it computes in
};

struct EngineOptions {
  int64_t page_size = 16;          // tokens of a page of keys and values
  int64_t cache_bytes = 0;         // of all pages; 0: for max_num_seqs of the longest sequences, at
                                   // most a quarter of the memory that is free
  int64_t max_num_seqs = 64;       // requests that run at once
  int64_t max_batch_tokens = 512;  // tokens of a step
  int64_t max_model_len = 0;       // longest sequence, prompt included; 0: the model's positions
  int64_t max_queue = 256;         // requests that wait; more are refused
  bool prefix_cache = true;        // requests with equal beginnings share pages
  // The bits of a request's numbers do not depend on what runs beside it, nor on how its prompt is
  // cut into chunks: each token attends by itself, and products compute each row by itself. Reading
  // long prompts takes longer.
  bool batch_invariant = false;
  Speculation speculation{};
  bool int8_key_values = false;  // with a scale for each head and token; else in the model's type
  HeartbeatOptions heartbeat{};  // with several ranks: how one that hangs is found
  at::ScalarType type = at::kFloat;  // that the model computes in, of keys and values
  at::Device device = at::kCPU;      // where the model's weights are
  // With several ranks: how long the others hear nothing from an idle engine. Less than the timeout
  // of their groups.
  std::chrono::milliseconds sign_of_life{1000};
  // With several ranks: called once a rank is lost, after all requests have ended with `failed`.
  std::function<void(const std::string& error)> on_lost{};
};

// A rank of the engine is lost: it takes no more requests.
class EngineLost : public Error {
 public:
  using Error::Error;
};

// The queue is full: try again later.
class QueueFull : public Error {
 public:
  using Error::Error;
};

using RequestId = uint64_t;

// Counts since the start, and what is now.
struct EngineStatistics {
  int64_t running = 0, waiting = 0;
  int64_t pages = 0;         // in all
  int64_t pages_in_use = 0;  // that a running request holds
  int64_t page_size = 0;
  int64_t prefix_queries = 0;  // tokens of prompts that were looked up
  int64_t prefix_hits = 0;     // tokens of those that were found
  int64_t preemptions = 0;
  int64_t drafts = 0;           // times that tokens of a text were guessed
  int64_t draft_tokens = 0;     // that were checked
  int64_t accepted_tokens = 0;  // of those, that the text got
  int64_t prompt_tokens = 0;    // read, those found in the cache included
  int64_t generated_tokens = 0;
  int64_t steps = 0;
  int64_t batch_tokens = 0;           // of all steps
  std::array<int64_t, 4> finished{};  // by FinishReason
};

class Engine {
 public:
  // Starts the thread that runs steps. The model must outlive the engine, and nothing else may use
  // it. Throws ConfigError for options that make no sense.
  // ranks: those that hold the model together, of which this is the first; the others call follow()
  // (forward_pass.h). Null: this rank has all of it.
  Engine(models::LanguageModel& model, const models::ModelFacts& facts,
         const EngineOptions& options = {}, const ParallelContext* ranks = nullptr);
  // Cancels what is left.
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Thread-safe. Throws ConfigError for what can never run (no prompt, too long, a token outside
  // the vocabulary, bad sampling options), QueueFull and EngineLost.
  RequestId submit(Request request);
  // Thread-safe. The request's pages are free within a step, and its on_finish has been told
  // `cancelled`. A request that has ended, or never was, is left alone.
  void cancel(RequestId request);
  // Waits until no request runs or waits.
  void drain();
  // Once on_lost was called: takes requests again, with the model opened anew on `ranks`. Not from
  // on_lost itself.
  void resume(models::LanguageModel& model, const ParallelContext* ranks);
  // Thread-safe.
  EngineStatistics statistics() const;

  const EngineOptions& options() const;  // with zeros resolved

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace colossal::serve
