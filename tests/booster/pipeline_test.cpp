// Same numbers: pipelines of every schedule, and of anything else with them, against the serial
// run.
#include <gtest/gtest.h>

#include "colossal/parallel/pipeline/schedules.h"
#include "tests/support/layout_cases.h"
#include "tests/support/tiny_training.h"

namespace colossal::test {
namespace {

struct PipelineCase {
  Strategy layout;
  int64_t micro_batches;  // of each replica
  bool llama = false;
};

int64_t num_blocks(const PipelineCase& c) {
  return c.layout.num_stages() + 1;  // one stage has two
}

std::string pipeline_case_name(const testing::TestParamInfo<PipelineCase>& info) {
  return fmt::format("{}{}_micro{}", info.param.llama ? "llama_" : "",
                     layout_name(info.param.layout), info.param.micro_batches);
}

Strategy pipeline(const std::string& schedule, int pp, int chunks = 1) {
  Strategy layout;
  layout.pp = pp;
  layout.pp_chunks = chunks;
  layout.pp_schedule = schedule;
  layout.stage_ranks = parallel::pipeline::make_schedule(schedule, {pp, chunks, 1}).rank_of_stage;
  return layout;
}

// Blocks cut unevenly, the extra one in the middle.
Strategy with_blocks(Strategy layout) {
  layout.stage_blocks.assign(layout.num_stages(), 1);
  layout.stage_blocks[layout.num_stages() / 2] = 2;
  return layout;
}

TinyTraining pipeline_training(const PipelineCase& c) {
  TinyTraining training;
  training.layout = with_blocks(c.layout);
  training.model.n_layer = num_blocks(c);
  if (c.llama) {
    training.llama = models::llama::Config{.vocab_size = 97,
                                           .hidden_size = 36,
                                           .intermediate_size = 52,
                                           .num_hidden_layers = num_blocks(c),
                                           .num_attention_heads = 6,
                                           .num_key_value_heads = 2,
                                           .head_dim = 6,
                                           .max_position_embeddings = 16};
  }
  const int64_t share = training.global_batch / std::max(1, c.layout.dp);
  training.micro_batch = (share + c.micro_batches - 1) / c.micro_batches;
  return training;
}

TinyResult serial_run(const PipelineCase& c) {
  TinyTraining training = pipeline_training(c);
  training.layout = Strategy{};
  training.micro_batch = 0;
  return train_tiny(training, 1);
}

class Pipeline : public testing::TestWithParam<PipelineCase> {};

TEST_P(Pipeline, EqualsSerial) {
  const PipelineCase& c = GetParam();
  const TinyTraining training = pipeline_training(c);
  const int ranks = c.layout.pp * c.layout.dp * c.layout.sp * c.layout.tp;
  expect_same(train_tiny(training, ranks), serial_run(c), 1e-9, training);
}

std::vector<PipelineCase> schedule_cases() {
  std::vector<PipelineCase> cases;
  for (const int pp : {2, 3, 4}) {
    for (const int64_t micro_batches : {1, 2, 4, 5}) {
      for (const bool llama : {false, true}) {
        for (const char* schedule : {"gpipe", "1f1b"}) {
          cases.push_back({pipeline(schedule, pp), micro_batches, llama});
        }
      }
    }
  }
  for (const int pp : {2, 3}) {
    for (const int64_t micro_batches : {1, 3, 4, 6}) {
      cases.push_back({pipeline("interleaved", pp, 2), micro_batches});
      for (const char* schedule : {"zb-h1", "zb-h2"}) {
        cases.push_back({pipeline(schedule, pp), micro_batches});
      }
      for (const char* schedule : {"zb-v", "v-half", "v-min", "dualpipe-v"}) {
        cases.push_back({pipeline(schedule, pp, 2), micro_batches, /*llama=*/pp == 3});
      }
    }
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Schedules, Pipeline, testing::ValuesIn(schedule_cases()),
                         pipeline_case_name);

std::vector<PipelineCase> combination_cases() {
  std::vector<PipelineCase> cases;
  for (const int zero : {0, 1, 2, 3}) {
    PipelineCase c{pipeline("1f1b", 2), 3};
    c.layout.dp = 2;
    c.layout.zero = zero;
    cases.push_back(c);
    c.layout.sp = 2;
    c.layout.dp = 1;
    cases.push_back(c);
    c.layout.sp = 1;
    c.layout.tp = 2;
    c.layout.tp_sequence = zero % 2 == 0;
    cases.push_back(c);
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Combinations, Pipeline, testing::ValuesIn(combination_cases()),
                         pipeline_case_name);

}  // namespace
}  // namespace colossal::test
