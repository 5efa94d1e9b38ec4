// Several steps of a pipeline in flight: each stage works on a different step, and texts are those
// of one rank.
#include <ATen/Parallel.h>
#include <gmock/gmock.h>

#include <array>
#include <atomic>
#include <chrono>
#include <thread>

#include "colossal/base/error.h"
#include "colossal/comm/law.h"
#include "colossal/serve/engine_core.h"
#include "colossal/serve/forward_pass.h"
#include "colossal/serve/inference_model.h"
#include "colossal/serve/step_messages.h"
#include "tests/serve/random_model.h"
#include "tests/serve/random_weights.h"
#include "tests/serve/sharded_models.h"
#include "tests/support/run_ranks.h"

namespace colossal::serve {
namespace {

using test::for_model;
using test::tensor_strategy;

class ShardedPipeline : public testing::Test {
 protected:
  ShardedPipeline() : specification_(test::uneven_gpt2()) {
    at::set_num_threads(1);  // more threads only slow down such small tensors
    test::write_random_weights(specification_, folder_.path());
  }

  using OfFirst = std::function<void(const InferenceModel& model)>;

  void over_ranks(const Strategy& strategy, const OfFirst& of_first,
                  const AroundStage& around_stage = {}) const {
    const InferenceOptions options{.type = at::kDouble,
                                   .strategy = for_model(strategy, specification_.facts)};
    test::run_ranks(strategy.world_size(), [&](comm::World& world) {
      at::set_num_threads(1);
      const InferenceModel model(specification_, options, world);
      if (world.rank() == 0) return of_first(model);
      follow(*model, specification_.facts, *model.ranks(), around_stage);
    });
  }

  // Calls `run` with an engine on the first rank.
  void use(const Strategy& strategy, EngineOptions options,
           const std::function<void(Engine& engine)>& run) const {
    options.type = at::kDouble;
    over_ranks(strategy, [&](const InferenceModel& model) {
      Engine engine(*model, specification_.facts, options, model.ranks());
      run(engine);
    });
  }

  // Takes part in the barrier and in the creation of the heartbeat group, as a rank of an engine
  // does before its first step.
  static comm::Group join_signs_of_life(const ParallelContext& ranks) {
    count_failures(false, ranks);
    const comm::Group& all = ranks.world_group();
    return ranks.world().host_group(all.axis(), all.ranks());
  }

  static Strategy stages(int pp) { return tensor_strategy(TensorMode::one_d, 1, 1, pp); }

  const test::TemporaryDirectory folder_;
  models::ModelSpecification specification_;
};

// Requests that generate 5 tokens each, on two stages. The last rank begins its part of a step only
// after the first rank has begun the next step, if there is one.
TEST_F(ShardedPipeline, StagesWorkAtTheSameTime) {
  struct Case {
    int64_t requests, prompt, max_batch_tokens;
    int steps, followed;  // how many of the first steps are followed by another one in flight
  };
  // Six requests, divided into two steps in flight; and one long prompt, whose chunks follow each
  // other.
  for (const Case& of : {Case{6, 4, 512, 2 * 5, 2 * 5 - 1}, Case{1, 40, 7, 6 + 4, 5}}) {
    std::atomic<int> begun = 0;
    int done = 0, in_vain = 0;
    const AroundStage at_first = [&](int, const std::function<void()>& run) {
      ++begun;
      run();
    };
    const AroundStage at_last = [&](int, const std::function<void()>& run) {
      ++done;
      const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(2);
      const auto is_behind = [&] { return done <= of.followed && begun <= done; };
      while (is_behind() && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
      in_vain += is_behind() ? 1 : 0;
      run();
    };
    std::vector<int64_t> ended(of.requests, 0);
    const auto of_first = [&](const InferenceModel& model) {
      EngineOptions options{.max_num_seqs = 8,
                            .max_batch_tokens = of.max_batch_tokens,
                            .max_model_len = 60,
                            .heartbeat = {.timeout = {}},
                            .type = at::kDouble};
      options.cache_bytes = 40 * page_bytes(options, specification_.facts);
      EngineCore core(*model, specification_.facts, options, model.ranks(), at_first);
      for (int64_t i = 0; i < of.requests; ++i) {
        auto sequence = std::make_unique<Sequence>();
        sequence->id = static_cast<uint64_t>(i + 1);
        sequence->request = greedy(prompt_of(of.prompt + i, 1), 5);
        sequence->tokens = sequence->request.prompt;
        sequence->request.on_finish = [&, i](FinishReason, const Usage& usage, const std::string&) {
          ended[i] = usage.completion_tokens;
        };
        core.add(std::move(sequence));
      }
      const at::NoGradGuard no_grad;
      while (!core.idle()) core.step();
      EXPECT_EQ(core.statistics().steps, of.steps);
    };
    over_ranks(stages(2), of_first, at_last);
    EXPECT_EQ(in_vain, 0);
    EXPECT_THAT(ended, testing::Each(5));
  }
}

// Drafts, beams, preemption, chunks and cancelled requests work across steps in flight.
TEST_F(ShardedPipeline, TextsAreThoseOfOneRank) {
  const RandomModel draft(specification_, at::kDouble);
  const auto texts = [&](const Strategy& strategy, const EngineOptions& options,
                         EngineStatistics* counted = nullptr) {
    std::vector<std::string> found;
    use(strategy, options, [&](Engine& engine) {
      Answers answers;
      std::vector<std::string> beams(2);
      for (int64_t i = 0; i < 9; ++i) {
        Request request = greedy(prompt_of(3 + i * 4, i % 2, 53), 4 + i % 5);
        request.sampling = {.temperature = i % 3 == 0 ? 0.0 : 1.0,
                            .seed = static_cast<uint64_t>(i)};
        if (i % 4 == 1) request.end_tokens = {3, 7, 18, 21};
        request.priority = i == 5 ? -1 : 0;
        answers.submit(engine, std::move(request));
      }
      for (size_t i = 0; i < beams.size(); ++i) {
        Request request = greedy(prompt_of(5 + static_cast<int64_t>(i), 1, 53), 6);
        request.sampling.temperature = 1;
        request.beams.width = 3;
        request.on_beams = [&, i](const std::vector<BeamText>& all) {
          for (const BeamText& text : all) {
            beams[i] += fmt::format("{:.9f}:", text.score);
            for (const GeneratedToken& token : text.tokens) {
              beams[i] += fmt::format(" {}", token.token);
            }
          }
        };
        answers.submit(engine, std::move(request));
      }
      engine.drain();
      for (const auto& answer : answers.all) {
        found.push_back(fmt::format("{} {} {}", static_cast<int>(answer->reason.value()),
                                    answer->error, fmt::join(answer->numbers(), " ")));
      }
      found.insert(found.end(), beams.begin(), beams.end());
      EXPECT_EQ(engine.statistics().pages_in_use, 0);
      if (counted) *counted = engine.statistics();
    });
    return found;
  };
  const std::vector<std::string> expected = texts({}, {});
  EngineOptions few_pages{.max_num_seqs = 6, .max_model_len = 47, .type = at::kDouble};
  few_pages.cache_bytes =
      8 * page_bytes(few_pages, specification_.facts, for_model(stages(2), specification_.facts));
  Speculation by_model{.kind = Speculation::Kind::model,
                       .drafts = 3,
                       .model = draft.model.get(),
                       .facts = draft.specification.facts};
  for (const int pp : {2, 3, 4}) {
    for (const EngineOptions& options : std::vector<EngineOptions>{
             {},
             {.max_batch_tokens = 7},
             {.max_num_seqs = 4},
             {.prefix_cache = false, .speculation = {.kind = Speculation::Kind::lookup}},
             {.speculation = by_model},
             few_pages}) {
      TRACED_CASE(testing::Message() << pp << ' ' << options.max_batch_tokens << ' '
                                     << options.max_num_seqs << ' ' << options.cache_bytes);
      EngineStatistics counted;
      EXPECT_EQ(texts(stages(pp), options, &counted), expected);
      EXPECT_TRUE(counted.preemptions > 0 || options.cache_bytes == 0 || pp > 2);
      EXPECT_TRUE(counted.prefix_hits > 0 || options.max_num_seqs != 4);
    }
  }
}

// Requests may be cancelled while steps work on them: their pages are free at once, and other
// requests continue.
TEST_F(ShardedPipeline, RequestsMayBeCancelled) {
  Answers alone;
  use({}, {}, [&](Engine& engine) {
    alone.submit(engine, greedy(prompt_of(9, 2, 53), 30));
    engine.drain();
  });
  for (const bool by_beams : {false, true}) {
    Answers answers;
    use(stages(3), {.max_num_seqs = 12}, [&](Engine& engine) {
      std::vector<RequestId> cancelled;
      for (int64_t i = 0; i < 4; ++i) {
        Request request = greedy(prompt_of(7 + i, 1, 53), 50);
        request.sampling.temperature = by_beams ? 1 : 0;
        if (by_beams) request.beams.width = 2;
        cancelled.push_back(answers.submit(engine, std::move(request)));
      }
      Request request = greedy(prompt_of(9, 2, 53), 30);
      request.on_token = [&, left = std::ssize(cancelled) + 3](const GeneratedToken&) mutable {
        if (--left < std::ssize(cancelled) && left >= 0) engine.cancel(cancelled[left]);
        return true;
      };
      answers.submit(engine, std::move(request));
      engine.drain();
      EXPECT_EQ(engine.statistics().pages_in_use, 0);
    });
    for (size_t i = 0; i < 4; ++i) EXPECT_EQ(answers[i].reason, FinishReason::cancelled);
    EXPECT_EQ(answers[4].numbers(), alone[0].numbers());
  }
}

TEST_F(ShardedPipeline, AnEngineMayEndWhileStepsAreUnderWay) {
  Answers answers;
  use(stages(3), {}, [&](Engine& engine) {
    std::atomic<int> tokens = 0;
    for (int64_t i = 0; i < 6; ++i) {
      Request request = greedy(prompt_of(7 + i, 1, 53), 50);
      request.on_token = [&](const GeneratedToken&) { return ++tokens > 0; };
      answers.submit(engine, std::move(request));
    }
    while (tokens < 12) std::this_thread::yield();
  });
  for (const auto& answer : answers.all) {
    EXPECT_EQ(answer->reason, FinishReason::cancelled) << answer->error;
  }
}

// A rank that receives the begin message and then hangs. Its thread that answers heartbeats does
// not run either.
TEST_F(ShardedPipeline, ARankThatHangsIsFoundLongBeforeTheTimeout) {
  for (const Strategy& strategy : {stages(2), tensor_strategy(TensorMode::one_d, 2)}) {
    const InferenceOptions options{.type = at::kDouble,
                                   .strategy = for_model(strategy, specification_.facts)};
    Answers answers;
    std::atomic<bool> is_over = false;
    std::string cause;
    std::chrono::duration<double> taken{};
    EXPECT_THROW(
        test::run_ranks(2,
                        [&](comm::World& world) {
                          at::set_num_threads(1);
                          const InferenceModel model(specification_, options, world);
                          if (world.rank() != 0) {
                            hear(*model.ranks());
                            const comm::Group silent = join_signs_of_life(*model.ranks());
                            while (!is_over) std::this_thread::yield();
                            return;
                          }
                          const auto start = std::chrono::steady_clock::now();
                          EngineOptions of_engine{
                              .heartbeat = {.interval = std::chrono::milliseconds(20),
                                            .timeout = std::chrono::milliseconds(200)},
                              .type = at::kDouble};
                          of_engine.on_lost = [&](const std::string& error) { cause = error; };
                          {
                            Engine engine(*model, specification_.facts, of_engine, model.ranks());
                            for (int64_t i = 0; i < 3; ++i) {
                              answers.submit(engine, greedy(prompt_of(5, i, 53), 5));
                            }
                            engine.drain();
                            taken = std::chrono::steady_clock::now() - start;
                          }
                          is_over = true;
                          throw CommError("as the engine's rank ends then");
                        }),
        std::runtime_error);
    for (const auto& answer : answers.all) EXPECT_EQ(answer->reason, FinishReason::failed);
    EXPECT_THAT(cause, testing::HasSubstr("rank 1 has not answered for 200ms"));
    EXPECT_LT(taken.count(), 5);
  }
}

// Each heartbeat and each answer has 8 bytes; so has the all-reduce after all ranks have their
// weights.
TEST_F(ShardedPipeline, SignsOfLifeSendWhatTheLawSays) {
  const InferenceOptions options{.type = at::kDouble,
                                 .strategy = for_model(stages(2), specification_.facts)};
  const auto sent_by = [&](std::chrono::milliseconds timeout) {
    std::array<int64_t, 2> sent{};
    test::run_ranks(2, [&](comm::World& world) {
      at::set_num_threads(1);
      const InferenceModel model(specification_, options, world);
      world.ledger().reset();
      if (world.rank() == 0) {
        const Engine engine(
            *model, specification_.facts,
            {.heartbeat = {.interval = std::chrono::milliseconds(10), .timeout = timeout},
             .type = at::kDouble,
             .idle_message_interval = std::chrono::minutes(1)},
            model.ranks());
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
      } else {
        follow(*model, specification_.facts, *model.ranks());
      }
      sent[world.rank()] = world.ledger().entries()[{"pp", comm::Reason::control}].law_bytes;
    });
    return sent;
  };
  const auto without = sent_by({}), with = sent_by(std::chrono::seconds(5));
  const auto beats_of = [&](int rank) {
    return with[rank] - without[rank] - comm::law::all_reduce(1, 2, rank, 8);
  };
  EXPECT_GE(beats_of(0), 2 * 8);  // including the last heartbeat
  EXPECT_LE(beats_of(0), 12 * 8);
  EXPECT_EQ(beats_of(0) % 8, 0);
  EXPECT_EQ(beats_of(1), beats_of(0));
}

// The first rank hangs after two heartbeats, between steps or during a step.
TEST_F(ShardedPipeline, TheOthersFindAFirstRankThatHangs) {
  for (const bool in_a_step : {false, true}) {
    const InferenceOptions options{.type = at::kDouble,
                                   .strategy = for_model(stages(3), specification_.facts)};
    std::atomic<int> left = 2;
    std::array<std::string, 2> causes;
    std::array<std::chrono::duration<double>, 2> taken{};
    const auto follow_until_lost = [&](const InferenceModel& model, size_t i) {
      const auto start = std::chrono::steady_clock::now();
      try {
        follow(*model, specification_.facts, *model.ranks());
      } catch (const CommError& error) {
        causes[i] = error.what();
      }
      taken[i] = std::chrono::steady_clock::now() - start;
      --left;
    };
    test::run_ranks(3, [&](comm::World& world) {
      at::set_num_threads(1);
      const InferenceModel model(specification_, options, world);
      if (world.rank() > 0) return follow_until_lost(model, world.rank() - 1);
      tell({StepMessage::Kind::begin, {8, 16, 0, 0, /*patience in ms=*/300}}, *model.ranks());
      const comm::Group beats = join_signs_of_life(*model.ranks());
      for (int beat = 0; beat < 2; ++beat) {
        for (const int rank : {1, 2}) {
          const at::Tensor goes_on = at::ones({1}, at::kLong);
          comm::send(goes_on, rank, beats, comm::Reason::control);
          comm::receive(goes_on, rank, beats, comm::Reason::control);
        }
      }
      // Sends the header of a message without its numbers.
      if (in_a_step) {
        comm::send(at::tensor({1, 9}, at::kLong), 1, model.ranks()->group(Axis::pp),
                   comm::Reason::control);
      }
      while (left > 0) std::this_thread::yield();
    });
    for (const std::string& cause : causes) {
      EXPECT_THAT(cause, testing::HasSubstr("rank 0 has sent no heartbeat for 300ms"));
    }
    for (const auto& each : taken) EXPECT_LT(each.count(), 5);
  }
}

// A rank answers heartbeats however long its work takes.
TEST_F(ShardedPipeline, ARankThatWorksForLongIsNotLost) {
  int passes = 0;
  Answers answers;
  over_ranks(
      stages(2),
      [&](const InferenceModel& model) {
        Engine engine(*model, specification_.facts,
                      {.heartbeat = {.interval = std::chrono::milliseconds(10),
                                     .timeout = std::chrono::milliseconds(150)},
                       .type = at::kDouble},
                      model.ranks());
        answers.submit(engine, greedy(prompt_of(5, 1, 53), 3));
        engine.drain();
      },
      [&](int, const std::function<void()>& run) {
        if (++passes == 2) std::this_thread::sleep_for(std::chrono::milliseconds(600));
        run();
      });
  EXPECT_EQ(answers[0].numbers().size(), 3) << answers[0].error;
}

}  // namespace
}  // namespace colossal::serve
