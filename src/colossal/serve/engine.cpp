#include "colossal/serve/engine.h"

#include <omp.h>

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "colossal/base/current_exception.h"
#include "colossal/base/log.h"
#include "colossal/base/machine.h"
#include "colossal/base/units.h"
#include "colossal/ops/kernels/paged_attention.h"
#include "colossal/ops/parallel_for.h"
#include "colossal/ops/product/few_rows.h"
#include "colossal/serve/engine_core.h"

namespace colossal::serve {
namespace {

void require_positive(const char* flag, int64_t value) {
  if (value < 1) throw ConfigError(fmt::format("--{}={}: must be 1 or more", flag, value));
}

int64_t pages_for(int64_t tokens, int64_t page_size) {
  return (tokens + page_size - 1) / page_size;
}

// Returns the number of pages for one sequence of the maximum length and the token after it.
int64_t least_pages(const EngineOptions& options) {
  return pages_for(options.max_model_len + 1, options.page_size);
}

void resolve_length(EngineOptions& options, const models::ModelFacts& facts) {
  if (options.max_model_len == 0) options.max_model_len = facts.positions;
  require_positive("max-model-len", options.max_model_len);
  if (options.max_model_len > facts.positions) {
    throw ConfigError(fmt::format("--max-model-len={}: the model has {} positions",
                                  options.max_model_len, facts.positions));
  }
}

// If cache_bytes is 0, sets it to the need of max_num_seqs sequences, but to at most a quarter of
// the free memory, or the need of one sequence if max_model_len was given. If it was not given,
// lowers it to what the pages can store.
void resolve_pages(EngineOptions& options, const models::ModelFacts& facts,
                   const ParallelContext* ranks, bool length_is_given) {
  const int64_t bytes = page_bytes(options, facts, ranks ? ranks->strategy() : Strategy{});
  // Assumes that all ranks share this host's memory, which is too cautious for several hosts.
  const int64_t sharing = ranks && options.device.is_cpu() ? ranks->world().size() : 1;
  if (options.cache_bytes == 0) {
    const int64_t most = options.max_num_seqs * least_pages(options);
    const int64_t free = machine::available_memory_bytes() / 4 / sharing / bytes;
    const int64_t pages = length_is_given ? std::max(free, least_pages(options)) : free;
    options.cache_bytes = std::min(most, pages) * bytes;
  }
  const int64_t pages = options.cache_bytes / bytes;
  if (pages >= least_pages(options)) return;
  const int64_t longest = pages * options.page_size - 1;
  if (length_is_given || longest < 1) {
    throw ConfigError(
        fmt::format("the KV cache of {} tokens takes {}, but there is room for {}: give more "
                    "memory with --kv-bytes{}",
                    options.max_model_len, format_bytes(least_pages(options) * bytes),
                    format_bytes(options.cache_bytes),
                    longest < 1 ? "" : fmt::format(", or at most --max-model-len={}", longest)));
  }
  options.max_model_len = longest;
}

void resolve_speculation(EngineOptions& options, const models::ModelFacts& facts) {
  const Speculation& speculation = options.speculation;
  if (speculation.kind == Speculation::Kind::none) return;
  require_positive("num-drafts", speculation.drafts);
  if (!speculation.model) return;
  if (speculation.kind == Speculation::Kind::head && speculation.facts.hidden != facts.hidden) {
    throw ConfigError(
        fmt::format("--draft: this head reads hidden states of size {}, but the model's have size "
                    "{}; give a head that was trained for this model",
                    speculation.facts.hidden, facts.hidden));
  }
  if (speculation.facts.vocabulary != facts.vocabulary) {
    throw ConfigError(
        fmt::format("--draft: its vocabulary has {} tokens, the model's {}; give a draft model "
                    "with the same vocabulary",
                    speculation.facts.vocabulary, facts.vocabulary));
  }
  const int64_t positions = speculation.facts.positions;
  if (options.max_model_len > positions) {
    throw ConfigError(
        fmt::format("--max-model-len={}: the model of --draft has {} positions; give at most that",
                    options.max_model_len, positions));
  }
  if (options.max_model_len == 0) options.max_model_len = std::min(positions, facts.positions);
}

EngineOptions resolved(EngineOptions options, const models::ModelFacts& facts,
                       const ParallelContext* ranks) {
  require_positive("max-num-seqs", options.max_num_seqs);
  require_positive("max-batch-tokens", options.max_batch_tokens);
  if (options.max_queue < 0) {
    throw ConfigError(fmt::format("--queue={}: must be 0 or more", options.max_queue));
  }
  if (options.page_size < 1 || options.page_size % ops::kernels::kPagePositions != 0) {
    throw ConfigError(fmt::format("--page-size={}: must be a multiple of {}", options.page_size,
                                  ops::kernels::kPagePositions));
  }
  const bool length_is_given = options.max_model_len != 0;
  resolve_speculation(options, facts);
  resolve_length(options, facts);
  resolve_pages(options, facts, ranks, length_is_given);
  return options;
}

void require_tokens(const char* what, std::span<const int32_t> tokens, int64_t vocabulary) {
  for (const int32_t token : tokens) {
    if (token >= 0 && token < vocabulary) continue;
    throw ConfigError(
        fmt::format("{} {} is outside the model's vocabulary of {}", what, token, vocabulary));
  }
}

void validate_beams(const Request& request, const EngineOptions& options) {
  if (request.beams.width < 1 || request.beams.width > options.max_num_seqs) {
    throw ConfigError(fmt::format("--num-beams={}: must be from 1 to --max-num-seqs, which is {}",
                                  request.beams.width, options.max_num_seqs));
  }
  if (!std::isfinite(request.beams.length_penalty)) {
    throw ConfigError(
        fmt::format("--length-penalty={}: must be a finite number", request.beams.length_penalty));
  }
  if (request.max_new_tokens == 0) {
    throw ConfigError(
        "--num-beams with --max-new-tokens=0: beam search needs at least one new token");
  }
  const SamplingOptions& sampling = request.sampling;
  const bool draws = (sampling.temperature != 0 && sampling.temperature != 1) ||
                     sampling.top_k != 0 || sampling.top_p != 1 || sampling.min_p != 0 ||
                     sampling.typical_p != 1;
  if (draws) {
    throw ConfigError(
        "--num-beams with --temperature, --top-k, --top-p, --min-p or --typical-p: beam search "
        "does not sample; leave these out");
  }
}

// Refuses what needs the logits or states of the prompt, which the encoder of an encoder-decoder
// does not give, and adapters of requests.
void validate_source(const Request& request) {
  const auto refuse = [](const char* what) {
    throw ConfigError(
        fmt::format("{} of an encoder-decoder is not supported: its encoder reads the "
                    "prompt, and only its decoder predicts tokens",
                    what));
  };
  if (request.prompt_logprobs >= 0) refuse("log-probabilities of the prompt");
  if (request.pooling != Pooling::none) refuse("an embedding");
  if (request.adapter) refuse("an adapter for a request");
}

void validate(const Request& request, const EngineOptions& options,
              const models::ModelFacts& facts) {
  if (request.prompt.empty()) {
    throw ConfigError("the prompt is empty: generation starts from at least one token");
  }
  if (request.max_new_tokens < 0) {
    throw ConfigError(
        fmt::format("--max-new-tokens={}: must be 0 or more", request.max_new_tokens));
  }
  if ((!facts.causal || facts.scores > 0) && request.pooling == Pooling::none) {
    throw ConfigError("the model predicts no next token: it computes embeddings or scores only");
  }
  COLOSSAL_CHECK(request.token_types.empty() || request.token_types.size() == request.prompt.size(),
                 "{} types of {} tokens", request.token_types.size(), request.prompt.size());
  COLOSSAL_CHECK(request.pooling == Pooling::none || request.max_new_tokens == 0,
                 "{} tokens of a prompt that is pooled", request.max_new_tokens);
  if (facts.encoder_layers > 0) validate_source(request);
  const int64_t length = longest_text(request, options, facts);
  const bool is_continued = request.max_new_tokens > 0 && facts.encoder_layers == 0;
  const int64_t most = length - (is_continued ? 1 : 0);
  if (std::ssize(request.prompt) > most) {
    throw ConfigError(
        fmt::format("the prompt has {} tokens, but a sequence may have {} in total: the prompt may "
                    "have at most {}",
                    request.prompt.size(), length, most));
  }
  require_tokens("token", request.prompt, facts.vocabulary);
  require_tokens("end token", request.end_tokens, facts.vocabulary);
  validate(request.sampling, facts.vocabulary);
  if (request.beams.width != 1) validate_beams(request, options);
}

// Applies Request::max_length. The prompt is what precedes the generated tokens.
void limit_new_tokens(Request& request) {
  if (request.max_length == 0 || request.max_new_tokens == 0) return;
  const int64_t room = request.max_length - std::ssize(request.prompt);
  if (room < 1) {
    throw ConfigError(
        fmt::format("max_length = {} leaves no room for a new token after {} tokens; give the "
                    "number of new tokens instead (max_new_tokens)",
                    request.max_length, request.prompt.size()));
  }
  request.max_new_tokens = std::min(request.max_new_tokens, room);
}

}  // namespace

struct Engine::Parts {
  Parts(models::Model& model, const models::ModelFacts& given_facts, const EngineOptions& given,
        const ParallelContext* given_ranks)
      : facts(given_facts), options(resolved(given, facts, given_ranks)), ranks(given_ranks) {
    start(model);
  }

  void start(models::Model& model) {
    core.emplace(model, facts, options, ranks, AroundStage(), statistics);
    statistics = core->statistics();
    // Ends the caller's OpenMP threads, which have read the weights: they may stay awake and take
    // CPUs from the engine's threads.
    omp_pause_resource_all(omp_pause_soft);
    thread = std::thread([this, threads = at::get_num_threads()] { run(threads); });
  }

  void resume(models::Model& model, const ParallelContext* new_ranks) {
    thread.join();
    ranks = new_ranks;
    start(model);
    const std::lock_guard lock(mutex);
    lost.reset();
  }

  void run(int threads) {
    at::set_num_threads(threads);
    const at::NoGradGuard no_grad;
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    const ops::AwakeThreads awake;
    std::optional<ops::BatchInvariantProducts> invariant;
    if (options.batch_invariant) invariant.emplace();
    try {
      while (take_calls()) {
        step();
        publish();
      }
      core->end_all(FinishReason::cancelled, "");
      publish();
    } catch (const CommError& error) {
      lose(error.what());
    }
  }

  // Runs a step. An exception ends all requests with `failed`; CommError is rethrown.
  void step() {
    try {
      core->step();
    } catch (const CommError&) {
      throw;
    } catch (...) {
      const std::string error = message_of_current_exception();
      log::error("the engine: {}", error);
      core->end_all(FinishReason::failed, error);
    }
  }

  // Called when a rank is lost. Fails all requests; later calls of submit() throw.
  void lose(const std::string& error) {
    std::vector<std::unique_ptr<Sequence>> sequences;
    {
      const std::lock_guard lock(mutex);
      lost = error;
      sequences.swap(submitted);
    }
    for (std::unique_ptr<Sequence>& sequence : sequences) core->add(std::move(sequence));
    core->end_all(FinishReason::failed, error);
    publish();
    if (options.on_lost) options.on_lost(error);
  }

  // Called after on_finish of finished requests, so that after drain() the caller may destroy what
  // the requests' callbacks use.
  void publish() {
    const std::lock_guard lock(mutex);
    statistics = core->statistics();
    if (live() == 0) all_done.notify_all();
  }

  // Returns the number of requests that have not ended.
  int64_t live() const {
    int64_t ended = 0;
    for (const int64_t count : statistics.finished) ended += count;
    return static_cast<int64_t>(last_id) - ended;
  }

  // Passes submitted and cancelled requests to the core. Waits while there is nothing to do; with
  // several ranks, at most until the next idle message is due. Returns false if the engine must
  // end.
  bool take_calls() {
    std::vector<std::unique_ptr<Sequence>> sequences;
    std::vector<RequestId> ids;
    bool goes_on = true;
    {
      std::unique_lock lock(mutex);
      const auto has_calls = [&] {
        return stopped || !submitted.empty() || !cancelled.empty() || !core->idle();
      };
      if (ranks) {
        called.wait_for(lock, options.idle_message_interval, has_calls);
      } else {
        called.wait(lock, has_calls);
      }
      sequences.swap(submitted);
      ids.swap(cancelled);
      goes_on = !stopped;
    }
    for (std::unique_ptr<Sequence>& sequence : sequences) core->add(std::move(sequence));
    for (const RequestId id : ids) core->cancel(id);
    return goes_on;
  }

  const models::ModelFacts facts;
  const EngineOptions options;
  // While the engine's thread runs, only that thread uses these two.
  const ParallelContext* ranks;
  std::optional<EngineCore> core;

  mutable std::mutex mutex;  // protects the members below, except `thread`
  std::condition_variable called, all_done;
  std::vector<std::unique_ptr<Sequence>> submitted;
  std::vector<RequestId> cancelled;
  RequestId last_id = 0;
  bool stopped = false;
  std::optional<std::string> lost;  // the error; nullopt if no rank is lost
  EngineStatistics statistics;

  std::thread thread;
};

Engine::Engine(models::Model& model, const models::ModelFacts& facts, const EngineOptions& options,
               const ParallelContext* ranks)
    : parts_(std::make_unique<Parts>(model, facts, options, ranks)) {}

Engine::~Engine() {
  {
    const std::lock_guard lock(parts_->mutex);
    parts_->stopped = true;
    parts_->called.notify_all();
  }
  parts_->thread.join();
}

RequestId Engine::submit(Request request) {
  validate(request, parts_->options, parts_->facts);
  auto sequence = std::make_unique<Sequence>();
  const models::ModelFacts& facts = parts_->facts;
  if (facts.encoder_layers > 0) {
    sequence->source =
        std::exchange(request.prompt, {facts.decoder_prompt.begin(), facts.decoder_prompt.end()});
  }
  limit_new_tokens(request);
  sequence->tokens = request.prompt;
  if (request.prompt_logprobs >= 0) sequence->prompt_logprobs.resize(request.prompt.size());
  sequence->request = std::move(request);
  sequence->submitted = Sequence::Clock::now();
  const std::lock_guard lock(parts_->mutex);
  if (parts_->lost) throw EngineLost(*parts_->lost);
  if (parts_->live() >= parts_->options.max_num_seqs + parts_->options.max_queue) {
    throw QueueFull(
        fmt::format("{} requests are already running or waiting; try again later", parts_->live()));
  }
  sequence->id = ++parts_->last_id;
  parts_->submitted.push_back(std::move(sequence));
  parts_->called.notify_all();
  return parts_->last_id;
}

void Engine::cancel(RequestId request) {
  const std::lock_guard lock(parts_->mutex);
  parts_->cancelled.push_back(request);
  parts_->called.notify_all();
}

void Engine::drain() {
  std::unique_lock lock(parts_->mutex);
  parts_->all_done.wait(lock, [&] { return parts_->live() == 0; });
}

void Engine::resume(models::Model& model, const ParallelContext* ranks) {
  parts_->resume(model, ranks);
}

bool Engine::is_lost() const {
  const std::lock_guard lock(parts_->mutex);
  return parts_->lost.has_value();
}

EngineStatistics Engine::statistics() const {
  const std::lock_guard lock(parts_->mutex);
  return parts_->statistics;
}

const EngineOptions& Engine::options() const {
  return parts_->options;
}

}  // namespace colossal::serve
