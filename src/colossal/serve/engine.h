// The inference engine: generates text for many requests at once from one model, by continuous
// batching with chunked prefill over a paged KV cache. Used by the server and `colossal
// generate`; tuning uses EngineCore (engine_core.h) directly.
//
// A step is one forward pass over tokens of several requests. A request in the decode phase has one
// token in the pass, and its draft tokens; a request in the prefill phase has a chunk of its
// prompt. Requests join and leave between steps.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "colossal/base/error.h"
#include "colossal/mesh/parallel_context.h"
#include "colossal/models/model.h"
#include "colossal/models/model_facts.h"
#include "colossal/serve/heartbeat.h"
#include "colossal/serve/request.h"

namespace colossal::serve {

// Settings of speculative decoding; see drafter.h.
struct Speculation {
  enum class Kind {
    none,
    lookup,  // prompt lookup: draft tokens from the text itself
    model,   // a smaller draft model
    head     // a draft head on the model's hidden states (TransformerConfig::is_draft_head)
  };
  Kind kind = Kind::none;
  int64_t drafts = 4;  // most draft tokens per step and request
  // The draft model or draft head, which must outlive the engine; null for `none` and `lookup`.
  models::Model* model = nullptr;
  models::ModelFacts facts{};        // of `model`; not used if `model` is null
  at::ScalarType type = at::kFloat;  // dtype of the activations of `model`
};

struct EngineOptions {
  int64_t page_size = 16;  // tokens per page, a multiple of ops::kernels::kPagePositions
  // Bytes of a rank's KV cache, i.e. of all its pages. 0: enough for max_num_seqs sequences of the
  // greatest length, but at most a quarter of the host's free memory, even if the cache is on a
  // GPU. On the CPU, this quarter is divided by the number of ranks, as if all ranks were on this
  // host.
  // If max_model_len (below) is not 0, the cache must have room for one sequence of the greatest
  // length: smaller cache_bytes are a ConfigError; with cache_bytes = 0, the cache becomes larger
  // than the quarter if necessary.
  int64_t cache_bytes = 0;
  // Most requests that run at once. A request with beam search counts as BeamSearchOptions::width
  // requests.
  int64_t max_num_seqs = 64;
  int64_t max_batch_tokens = 512;  // most tokens per step
  // Most tokens of a sequence, prompt included. 0: the model's number of positions (with a draft
  // model or draft head, the smaller of the two numbers), reduced if the pages have no room for as
  // many tokens.
  int64_t max_model_len = 0;
  // How many requests may wait: submit() throws QueueFull while max_num_seqs + max_queue requests
  // have not ended.
  int64_t max_queue = 256;
  bool prefix_cache = true;  // requests whose prompts begin with the same tokens share pages
  // Makes the logits of a request bitwise independent of the other requests of a step and of how
  // the prompt is divided into chunks: attention and linear layers compute each token separately.
  // This makes prefill of long prompts slower.
  bool batch_invariant = false;
  Speculation speculation{};
  // True: stores keys and values in int8, with one scale per head and token. False: in `type`.
  bool int8_key_values = false;
  HeartbeatOptions heartbeat{};      // detection of hung ranks; used only with several ranks
  at::ScalarType type = at::kFloat;  // dtype of activations, keys and values
  at::Device device = at::kCPU;      // device of the model's weights
  // With several ranks: how often the first rank sends the other ranks a message while the engine
  // is idle. Must be shorter than the timeout of the ranks' communication groups.
  std::chrono::milliseconds idle_message_interval{1000};
  // With several ranks: called when a rank is lost, on the engine's thread, after all requests have
  // ended with `failed`.
  std::function<void(const std::string& error)> on_lost{};
};

// Thrown by submit() after a rank was lost (on_lost), until resume() is called.
class EngineLost : public Error {
 public:
  using Error::Error;
};

// Thrown by submit() if the queue is full; the caller may retry later.
class QueueFull : public Error {
 public:
  using Error::Error;
};

using RequestId = uint64_t;  // from 1, in the order of the submit() calls

// Statistics of an engine. The first five fields describe its current state; the other fields are
// counters over its lifetime.
struct EngineStatistics {
  int64_t running = 0, waiting = 0;  // sequences; each beam of a request is a sequence
  int64_t pages = 0;                 // total number of pages
  int64_t pages_in_use = 0;          // pages held by sequences
  int64_t page_size = 0;             // tokens per page
  int64_t prefix_queries = 0;        // prompt tokens looked up in the prefix cache
  int64_t prefix_hits = 0;           // prompt tokens found in the prefix cache
  int64_t preemptions = 0;           // how many times a sequence lost its pages; see scheduler.h
  // How many times a step verified draft tokens of a sequence. A step that verifies draft tokens of
  // n sequences counts n times.
  int64_t drafts = 0;
  int64_t draft_tokens = 0;           // draft tokens that were verified
  int64_t accepted_tokens = 0;        // draft tokens that were accepted
  int64_t draft_failures = 0;         // how many times drafting failed
  int64_t prompt_tokens = 0;          // prompt tokens, those found in the prefix cache included
  int64_t generated_tokens = 0;       // end tokens excluded; in beam search, of all beams
  int64_t steps = 0;                  // forward passes whose results have arrived
  int64_t batch_tokens = 0;           // sum of the tokens of all steps
  std::array<int64_t, 4> finished{};  // number of ended requests, by FinishReason
};

// The engine and its thread, which runs the steps (EngineCore, engine_core.h).
class Engine {
 public:
  // Starts the thread that runs steps. facts: of the model. ranks: the ranks that hold the model;
  // null: this rank holds the whole model. If not null, this rank must be the first of them
  // (leads() in step_messages.h), and the other ranks must call follow() (forward_pass.h). Throws
  // ConfigError for invalid options.
  //
  // The draft model must outlive the engine. So must the model and `ranks`, unless a rank is lost:
  // they are not used any more when on_lost is called, and resume() replaces them. Nothing else may
  // use the model and the draft model while the engine uses them.
  Engine(models::Model& model, const models::ModelFacts& facts, const EngineOptions& options = {},
         const ParallelContext* ranks = nullptr);
  // Ends all requests with `cancelled`.
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Adds a request and returns its id; the results arrive through the callbacks of the request.
  // Thread-safe. Throws ConfigError for an invalid request (empty prompt, prompt too long, token
  // outside the vocabulary, bad sampling options), QueueFull and EngineLost.
  RequestId submit(Request request);
  // Thread-safe. Returns at once; after the current step, the engine frees the request's pages and
  // calls its on_finish with `cancelled`. Does nothing if the request has ended or never existed.
  void cancel(RequestId request);
  // Thread-safe. Waits until every submitted request has ended.
  void drain();
  // Restarts the engine after a rank was lost: submit() accepts requests again. Call it only after
  // on_lost was called, and not from on_lost, because resume() waits for on_lost to return. ranks:
  // the new ranks, with the meaning that they have for the constructor. model: the model, loaded
  // again on these ranks. The engine goes on with the same draft model.
  void resume(models::Model& model, const ParallelContext* ranks);
  // Returns whether a rank was lost, and resume() was not called since. Thread-safe; callbacks of
  // requests may call it: all requests that the loss ends are told so after it returns true.
  bool is_lost() const;
  // Returns the statistics as of the end of the last step. Thread-safe.
  EngineStatistics statistics() const;

  // Returns the options in use: cache_bytes and max_model_len are replaced by their actual values
  // if they were 0.
  const EngineOptions& options() const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace colossal::serve
