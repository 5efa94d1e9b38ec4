// Every family in every type, saved at one layout, read at another, and opened by transformers: all
// values are equal.
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <mutex>

#include "colossal/base/error.h"
#include "colossal/checkpoint/checkpoint.h"
#include "colossal/data/text_batch.h"
#include "colossal/engine/state_shapes.h"
#include "colossal/models/assembly.h"
#include "colossal/training/saved_model.h"
#include "colossal/training/saving_checks.h"
#include "tests/runs/configurations.h"
#include "tests/support/run_ranks.h"
#include "tests/support/small_families.h"
#include "tests/support/temporary_directory.h"

namespace colossal::test {
namespace {

namespace fs = std::filesystem;

// All values of a run, by name.
using Contents = std::map<std::string, at::Tensor>;

void collect(Contents& contents, const memory::ChunkEngine& chunks) {
  const auto put = [&](const std::string& name, int64_t numel, int64_t begin,
                       const at::Tensor& values) {
    at::Tensor& whole = contents[name];
    if (!whole.defined()) whole = at::full({numel}, NAN, values.scalar_type());
    whole.narrow(0, begin, values.numel()).copy_(values.reshape(-1));
  };
  chunks.for_each_checkpoint_shard([&](const memory::OwnedShard& shard) {
    const nn::Parameter& parameter = *shard.parameter;
    const auto put_kind = [&](const std::string& kind, const at::Tensor& values) {
      put(kind + "." + parameter.name, parameter.numel(), shard.elements.begin, values);
    };
    put_kind("weight", shard.working());
    put_kind("master", shard.master());
    for (size_t i = 0; i < shard.num_states(); ++i) {
      put_kind("state" + std::to_string(i), shard.state(i));
    }
  });
  for (const nn::ParameterHandle& parameter : chunks.parameters()) {
    const std::vector<optim::WholeState> specs = chunks.whole_state_specs(*parameter);
    for (const memory::ChunkEngine::WholeStatePart& part : chunks.whole_state_parts(*parameter)) {
      const optim::WholeState& spec = specs[part.state];
      put(spec.name + "." + parameter->name, c10::multiply_integers(spec.shape), part.begin,
          part.values);
    }
  }
}

// A batch of hashed tokens, with all fields that any family reads.
data::Batch batch_of(const Job& job, int64_t begin, int64_t count) {
  const int64_t sequence = job.sequence_length, vocabulary = job.model.transformer.vocabulary;
  const at::Tensor samples = at::arange(begin, begin + count, at::kLong).unsqueeze(1);
  const at::Tensor tokens =
      ((samples * 31 + at::arange(sequence + 1, at::kLong) * 7 + 5).remainder(vocabulary));
  data::Batch batch =
      data::text_batch(tokens.narrow(1, 0, sequence).contiguous(),
                       tokens.narrow(1, 1, sequence).contiguous(), std::vector<int64_t>(count));
  std::iota(batch.sample_ids.begin(), batch.sample_ids.end(), begin);
  if (job.model.facts.encoder_layers > 0) {
    batch.set(data::kSource, batch.at(data::kTokens), 1);
    batch.set(data::kSourceDocuments, at::zeros_like(batch.at(data::kTokens)));
  }
  if (const int64_t types = job.model.transformer.token_types; types > 1) {
    batch.set(data::kTokenTypes, batch.at(data::kTokens).remainder(types), 1);
  }
  return batch;
}

std::vector<data::Batch> batches_of(const Job& job, const ParallelContext& context) {
  std::vector<data::Batch> batches;
  for (int64_t row = 0; row < job.share; row += job.micro_batch) {
    batches.push_back(batch_of(job, context.coordinate(Axis::dp) * job.share + row,
                               std::min(job.micro_batch, job.share - row)));
  }
  return batches;
}

checkpoint::Description description_of(const Job& job) {
  const auto tokenizer = text::make_tokenizer("bytes");
  const SavedModel saved = describe_saved_model(job, *tokenizer);
  return {.model_config = saved.config,
          .model_fields = saved.shaping_fields,
          .weight_files = saved.weight_files,
          .slice_in_files =
              [model = job.model](const std::string& name) {
                return models::slice_in_files(model, name);
              },
          .files = {},
          .state = {}};
}

// Runs `use` on each rank with the job's engine. Returns what all ranks hold then.
Contents with_engine(const Job& job,
                     const std::function<void(Engine&, const ParallelContext&)>& use) {
  Contents contents;
  std::mutex mutex;
  run_ranks(job.strategy.world_size(), [&](comm::World& world) {
    const ParallelContext context(world, job.strategy);
    const models::Assembly assembly = models::assemble(job.model, context);
    Engine engine(assembly.parameters(), pipelined(*assembly.model, model_source_of(job), context),
                  context, engine_config(job));
    use(engine, context);
    engine.chunks().synchronize();
    const std::lock_guard lock(mutex);
    collect(contents, engine.chunks());
  });
  return contents;
}

void expect_equal(const Contents& found, const Contents& expected) {
  EXPECT_EQ(found.size(), expected.size());
  for (const auto& [name, tensor] : expected) {
    ASSERT_TRUE(found.contains(name)) << name;
    EXPECT_TRUE(at::equal(found.at(name), tensor)) << name;
  }
}

struct SavingCase {
  std::string family, type;
  size_t layout = 0, other_layout = 0, tier = 0, optimizer = 0;
  int64_t table_rows = 0;
};

std::string name_of(const SavingCase& c) {
  return fmt::format("{}, {}, {}, {}, {}, table rows {}, read at {}", c.family, c.type,
                     layouts()[c.layout].name, tiers()[c.tier].name, optimizers()[c.optimizer].name,
                     c.table_rows, layouts()[c.other_layout].name);
}

class SavingMatrix {
 public:
  // Saves and reads one case. Returns false if the model has no such layout.
  bool run(const SavingCase& c) {
    TRACED_CASE(name_of(c));
    const fs::path folder = folder_.path() / std::to_string(count_);
    RunConfig config = small_run(c.family, (folder / "model").string());
    config.precision.compute = c.type;
    config.optimizer.learning_rate = 0.01;
    optimizers()[c.optimizer].change(config);
    tiers()[c.tier].change(config);
    RunConfig other = config;
    layouts()[c.layout].change(config);
    config.memory.table_rows = c.table_rows;
    try {
      const Job job = job_for(config, layouts()[c.layout].ranks);
      const fs::path directory = folder / "checkpoints";
      Contents first;  // before the save
      const Contents saved = with_engine(job, [&](Engine& engine, const ParallelContext& context) {
        engine.chunks().initialise(7);
        engine.step(batches_of(job, context));
        engine.chunks().synchronize();
        require_savable(job, engine.chunks(), context);
        checkpoint::RunFolder run(directory, 2, "auto", context);
        checkpoint::save(run, 1, engine.chunks(), context, description_of(job));
      });
      for (const auto& [name, values] : saved) {
        EXPECT_FALSE(values.isnan().any().item<bool>()) << name << " is not whole";
      }
      read(other, c, directory / "step-000001", saved);
      ++count_;
      return true;
    } catch (const ConfigError& error) {
      EXPECT_EQ(std::string(error.what()).find("cannot be saved"), std::string::npos)
          << error.what();
      fs::remove_all(folder);
      return false;
    }
  }

  void open_with_transformers() const {
    const std::string command = fmt::format(
        "{0}/.venv/bin/python {0}/tests/runs/open_folders.py {1} 2> {1}/log || "
        "(tail -40 {1}/log >&2; exit 1)",
        COLOSSAL_TEST_SOURCE_DIR, folder_.path().string());
    EXPECT_EQ(std::system(command.c_str()), 0);
  }

  int count() const { return count_; }

 private:
  // At the other layout or, if the model does not have it, on one rank.
  static void read(RunConfig config, const SavingCase& c, const fs::path& checkpoint,
                   const Contents& saved) {
    const auto read_at = [&](const Job& job) {
      expect_equal(with_engine(job,
                               [&](Engine& engine, const ParallelContext&) {
                                 checkpoint::load(checkpoint, engine.chunks(), description_of(job));
                               }),
                   saved);
    };
    RunConfig other = config;
    layouts()[c.other_layout].change(other);
    std::optional<Job> job;
    try {
      job = job_for(other, layouts()[c.other_layout].ranks);
    } catch (const ConfigError&) {
      job = job_for(config, 1);
    }
    read_at(*job);
  }

  TemporaryDirectory folder_;
  int count_ = 0;
};

// Of a family's cases, the one with this number: settings take turns.
SavingCase case_of(const std::string& family, size_t number, size_t layout, size_t type) {
  const size_t turn = number + layout + type;
  return {.family = family,
          .type = types()[type],
          .layout = layout,
          .other_layout = (5 * turn + 2) % layouts().size(),
          .tier = turn % 5 < tiers().size() ? turn % 5 : 0,
          .optimizer = turn % optimizers().size(),
          .table_rows = turn % 2 == 0 ? 0 : 10};
}

// What could not be saved once, and a third of the families.
TEST(SavingMatrix, SomeFoldersAreReadAtOtherLayoutsAndByTransformers) {
  SavingMatrix matrix;
  for (const char* mode : {"2d", "2.5d", "3d"}) {
    for (size_t layout = 0; layout < layouts().size(); ++layout) {
      if (layouts()[layout].name != mode) continue;
      EXPECT_TRUE(matrix.run({.family = "llama",
                              .type = "bf16",
                              .layout = layout,
                              .other_layout = 6,
                              .table_rows = 10}));
      EXPECT_TRUE(matrix.run(
          {.family = "deepseek_v3", .type = "bf16", .layout = layout, .other_layout = 4}));
    }
  }
  const std::vector<std::string> families = family_names();
  for (size_t i = 0; i < families.size(); i += 3) {
    matrix.run(case_of(families[i], i, (7 * i + 1) % layouts().size(), i % types().size()));
  }
  matrix.open_with_transformers();
}

// Every family in every type and at every layout, each type at a third of the layouts.
TEST(SlowSavingMatrix, EveryFamilyInEveryTypeAndAtEveryLayout) {
  SavingMatrix matrix;
  int refused = 0;
  const std::vector<std::string> families = family_names();
  for (size_t i = 0; i < families.size(); ++i) {
    for (size_t layout = 0; layout < layouts().size(); ++layout) {
      if (!matrix.run(case_of(families[i], i, layout, (i + layout) % types().size()))) ++refused;
    }
  }
  matrix.open_with_transformers();
  fmt::print(
      "{} folders saved, read at another layout and opened by transformers; {} layouts that "
      "their families do not have\n",
      matrix.count(), refused);
}

}  // namespace
}  // namespace colossal::test
