// Known cost: bytes of a step equal the laws (docs/laws.md), reason by reason.
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/support/run_ranks.h"
#include "tests/support/tiny_training.h"

namespace colossal::test {
namespace {

int64_t total_parameters(const TinyTraining& training) {
  return models::facts(training.model).parameters;
}

struct Sent {
  int64_t gradient = 0, parameter = 0, control = 0, parameters_in_model = 0;
};

Sent sum_of(const TinyResult& result) {
  Sent sent;
  for (const auto& traffic : result.traffic) {
    for (const auto& [key, bytes] : traffic) {
      EXPECT_TRUE(key.axis.starts_with("dp")) << key.axis;
      EXPECT_EQ(bytes.law_bytes, bytes.wire_bytes) << comm::reason_name(key.reason);
      switch (key.reason) {
        case comm::Reason::gradient:
          sent.gradient += bytes.law_bytes;
          break;
        case comm::Reason::parameter:
          sent.parameter += bytes.law_bytes;
          break;
        case comm::Reason::control:
          sent.control += bytes.law_bytes;
          break;
        default:
          ADD_FAILURE() << "unexpected traffic: " << comm::reason_name(key.reason);
      }
    }
  }
  sent.parameters_in_model = static_cast<int64_t>(result.weights.size());
  return sent;
}

Sent sent_by_all(const TinyTraining& training, int ranks) {
  return sum_of(train_tiny(training, ranks));
}

// With hidden sizes that are multiples of 8 fp64 elements nothing is padded, and the laws give
// whole numbers: over all ranks an all-reduce of M sends 2 (n-1) M, a reduce-scatter (n-1) M.
TinyTraining unpadded(int zero, int64_t micro_batch) {
  TinyTraining training;
  training.model = unpadded_gpt2();
  training.layout.zero = zero;
  training.micro_batch = micro_batch;
  training.steps = 2;
  return training;
}

TEST(BytesOfAStep, EqualTheLaws) {
  for (int ranks : {1, 2, 3, 4}) {
    for (int zero : {0, 1}) {
      for (int64_t micro_batch : {0, 1}) {  // accumulation changes nothing: gradients leave once
        const TinyTraining training = unpadded(zero, micro_batch);
        const int64_t model_bytes = 8 * total_parameters(training);
        const int64_t others = ranks - 1;
        const Sent sent = sent_by_all(training, ranks);
        const int64_t gradient = (zero == 0 ? 2 : 1) * others * model_bytes;
        const int64_t parameter = zero == 0 ? 0 : others * model_bytes;
        const int64_t control = 2 * others * 8 * (5 + sent.parameters_in_model);
        EXPECT_EQ(sent.gradient, training.steps * gradient) << ranks << " ranks, stage " << zero;
        EXPECT_EQ(sent.parameter, training.steps * parameter) << ranks << " ranks, stage " << zero;
        EXPECT_EQ(sent.control, training.steps * control) << ranks << " ranks, stage " << zero;
      }
    }
  }
}

// How often a micro-batch gathers a parameter whose chunk it has to itself, with nothing ahead: for
// its product, and once more where the gradient needs it. That of a bias, of positions and of the
// loss does not; the embedding's table is read at both ends. The last norm's weight is the first
// that the backward pass reads, and is still here. A block that runs again reads all that it read;
// the last product's weight is then still here for its gradient.
int64_t gathers_of(const std::string& name, bool blocks_run_again) {
  const bool needed_backward = !name.ends_with(".bias");
  if (name == "token_embedding.weight") return 2;
  if (name == "position_embedding.weight" || name == "final_norm.weight") return 1;
  const bool again =
      blocks_run_again && name.starts_with("blocks.") && !name.ends_with("mlp_down.weight");
  return 1 + (needed_backward ? 1 : 0) + (again ? 1 : 0);
}

TEST(BytesOfAStep, OfGradientsAndWeightsInPartsEqualTheLaws) {
  for (int ranks : {2, 3}) {
    for (int zero : {2, 3}) {
      for (bool whole : {false, true}) {
        TinyTraining training = unpadded(zero, 1);
        const bool blocks_run_again = whole;  // the two have nothing to do with each other
        if (blocks_run_again) training.recompute.full_blocks = memory::Recompute::kAllBlocks;
        training.reduce_once_per_step = whole;
        training.order_known = true;
        training.chunk_bytes = 1;
        training.window_bytes = 0;
        TRACED_CASE(fmt::format("{} ranks, stage {}, {}", ranks, zero, whole ? "full" : "parts"));
        const int64_t model_bytes = 8 * total_parameters(training);
        const int64_t others = ranks - 1, micro_batches = training.global_batch / ranks;
        const TinyResult result = train_tiny(training, ranks);
        int64_t gathered = 0;
        for (const auto& [name, weight] : result.weights) {
          gathered += 8 * weight.numel() * gathers_of(name, blocks_run_again);
        }
        const Sent sent = sum_of(result);
        EXPECT_EQ(sent.gradient,
                  training.steps * (whole ? 1 : micro_batches) * others * model_bytes);
        EXPECT_EQ(sent.parameter,
                  training.steps * others * (zero == 2 ? model_bytes : micro_batches * gathered));
      }
    }
  }
}

// A tied table in blocks: what the last layer makes of its gradient is summed apart from the first
// layer's. The backward pass of the last layer reads each block once more, but for the last two,
// which are still here.
TEST(BytesOfAStep, OfTablesInBlocksEqualTheLaws) {
  constexpr int64_t kBlocks = 4;
  for (int ranks : {2, 3}) {
    for (int zero : {1, 2, 3}) {
      TinyTraining training = unpadded(zero, 1);
      training.order_known = true;
      training.chunk_bytes = 1;
      training.window_bytes = 0;
      training.layout.table_rows = training.model.vocabulary / kBlocks;
      TRACED_CASE(fmt::format("{} ranks, stage {}", ranks, zero));
      const TinyResult result = train_tiny(training, ranks);
      const int64_t others = ranks - 1, micro_batches = training.global_batch / ranks;
      const int64_t model_bytes = 8 * total_parameters(training);
      const int64_t table_bytes = 8 * result.weights.at("token_embedding.weight").numel();
      int64_t gathered = table_bytes / kBlocks * (3 * kBlocks - 2);
      for (const auto& [name, weight] : result.weights) {
        if (name == "token_embedding.weight") continue;
        gathered += 8 * weight.numel() * gathers_of(name, /*blocks_run_again=*/false);
        if (name == "final_norm.weight") gathered += 8 * weight.numel();  // blocks came between
      }
      const Sent sent = sum_of(result);
      EXPECT_EQ(sent.gradient,
                training.steps * others *
                    (zero == 1 ? model_bytes : micro_batches * (model_bytes + table_bytes)));
      EXPECT_EQ(sent.parameter,
                training.steps * others * (zero == 3 ? micro_batches * gathered : model_bytes));
    }
  }
}

// Groups of s ranks share out what others hold too. Sums of whole gradients go to the shares of a
// group and from there over the groups; weights travel within a group.
TEST(BytesOfAStep, InGroupsOfRanksEqualTheLaws) {
  for (int zero : {1, 2, 3}) {
    for (int shards : {1, 2, 4}) {
      TinyTraining training = unpadded(zero, 0);
      training.layout.zero_group = shards;
      training.order_known = true;
      training.chunk_bytes = 1;
      training.window_bytes = 0;
      const int64_t groups = 4 / shards;
      const int64_t model_bytes = 8 * total_parameters(training);
      const TinyResult result = train_tiny(training, 4);
      int64_t gathered = 0;
      for (const auto& [name, weight] : result.weights) {
        gathered += 8 * weight.numel() * gathers_of(name, /*blocks_run_again=*/false);
      }
      const Sent sent = sum_of(result);
      EXPECT_EQ(sent.gradient,
                training.steps * model_bytes * (groups * (shards - 1) + 2 * (groups - 1)))
          << "stage " << zero << ", groups of " << shards;
      EXPECT_EQ(sent.parameter,
                training.steps * groups * (shards - 1) * (zero == 3 ? gathered : model_bytes))
          << "stage " << zero << ", groups of " << shards;
    }
  }
}

// Borders of a pipeline: each micro-batch's activations forward and their gradients backward. A
// tied table is at both ends, which sum its gradients once a step: of ZeRO, those of the own part.
TEST(BytesOfAStep, OfPipelinesEqualTheLaws) {
  constexpr int64_t kMicroBatch = 2;
  for (const char* schedule : {"1f1b", "zb-h1"}) {
    for (const int pp : {2, 3}) {
      for (const int dp : {1, 2}) {
        TinyTraining training = unpadded(/*zero=*/dp - 1, kMicroBatch);
        training.model.layers = pp;
        training.layout.pp = pp;
        training.layout.pp_schedule = schedule;
        training.layout.stage_blocks.assign(pp, 1);
        TRACED_CASE(fmt::format("{}, pp {}, dp {}", schedule, pp, dp));
        const int64_t micro_batches = training.global_batch / dp / kMicroBatch;
        const int64_t state = 8 * kMicroBatch * training.sequence * training.model.hidden;
        const int64_t table = 8 * training.model.vocabulary * training.model.hidden;
        const TinyResult result = train_tiny(training, pp * dp);
        for (int rank = 0; rank < pp * dp; ++rank) {
          const int place = rank / dp;
          const bool first = place == 0, last = place == pp - 1;
          const auto sent = [&](const char* axis, comm::Reason reason) {
            const auto found = result.traffic[rank].find({axis, reason});
            return found == result.traffic[rank].end() ? 0 : found->second.law_bytes;
          };
          const int borders = (last ? 0 : 1) + (first ? 0 : 1);
          EXPECT_EQ(sent("pp", comm::Reason::stage),
                    training.steps * micro_batches * borders * state);
          EXPECT_EQ(sent("pp.ends", comm::Reason::gradient),
                    first || last ? training.steps * table / dp : 0);
        }
      }
    }
  }
}

using memory::MemoryKind;
using memory::Tier;
using memory::TierTraffic;

// What moves between the tiers in a run of one rank, with nothing fetched ahead.
memory::TierPools::Traffic moved(TinyTraining training) {
  training.order_known = true;
  training.chunk_bytes = 1;
  training.window_bytes = 0;
  training.tiers.nvme_path = std::filesystem::temp_directory_path();
  return train_tiny(training, 1).tier_traffic.front();
}

int64_t fetched_elements(const TinyTraining& training) {
  int64_t elements = 0;
  for (const auto& [name, weight] : train_tiny(training, 1).weights) {
    elements += weight.numel() * gathers_of(name, /*blocks_run_again=*/false);
  }
  return elements;
}

TEST(TierBytes, EqualTheLaws) {
  TinyTraining training = unpadded(0, 0);
  const int64_t model = 8 * total_parameters(training) * training.steps;  // once a step, fp64
  const int64_t fetched = 8 * fetched_elements(training) * training.steps;
  const auto key = [](Tier tier, MemoryKind kind) { return std::pair(tier, kind); };

  // Masters and moments are updated where they are: on the host. Weights come up for their uses,
  // gradients go down.
  training.tiers.parameters = training.tiers.gradients = training.tiers.optimizer = {.host = 1};
  EXPECT_EQ(moved(training), (memory::TierPools::Traffic{
                                 {key(Tier::host, MemoryKind::parameters), {.from = fetched}},
                                 {key(Tier::host, MemoryKind::gradients), {.to = model}}}));

  // From NVMe masters (in fp64 the weights) and both moments come to the host, and go back.
  training.tiers.parameters = training.tiers.gradients = training.tiers.optimizer = {.nvme = 1};
  EXPECT_EQ(moved(training),
            (memory::TierPools::Traffic{
                {key(Tier::nvme, MemoryKind::parameters), {.to = model, .from = fetched + model}},
                {key(Tier::nvme, MemoryKind::gradients), {.to = model, .from = model}},
                {key(Tier::nvme, MemoryKind::optimizer), {.to = 2 * model, .from = 2 * model}}}));

  // Moments on the host, the rest on the device: the update is on the host, where weights and
  // gradients go for it, and weights come back.
  training.tiers = {};
  training.tiers.optimizer = {.host = 1};
  EXPECT_EQ(moved(training),
            (memory::TierPools::Traffic{
                {key(Tier::host, MemoryKind::parameters), {.to = model, .from = model}},
                {key(Tier::host, MemoryKind::gradients), {.to = model}}}));
}

// With masters of their own, weights in bf16 are made on the host and come up.
TEST(TierBytes, OfBf16EqualTheLaws) {
  TinyTraining training = unpadded(0, 0);
  training.model = decoder("gpt2-tiny", {{"vocab_size", 64},
                                         {"n_positions", 16},
                                         {"n_embd", 32},
                                         {"n_layer", 2},
                                         {"n_head", 2},
                                         {"n_inner", 64}});
  training.compute = at::kBFloat16;
  training.gradient = at::kFloat;
  training.tiers.optimizer = {.host = 1};
  const int64_t parameters = total_parameters(training) * training.steps;
  EXPECT_EQ(moved(training), (memory::TierPools::Traffic{
                                 {{Tier::host, MemoryKind::parameters}, {.from = 2 * parameters}},
                                 {{Tier::host, MemoryKind::gradients}, {.to = 4 * parameters}}}));
}

}  // namespace
}  // namespace colossal::test
