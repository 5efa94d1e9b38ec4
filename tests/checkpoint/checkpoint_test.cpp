#include "colossal/checkpoint/checkpoint.h"

#include <gmock/gmock.h>
#include <torch/csrc/autograd/autograd.h>

#include <atomic>
#include <fstream>
#include <map>
#include <mutex>

#include "colossal/base/error.h"
#include "colossal/io/manifest.h"
#include "colossal/io/tensor_directory.h"
#include "colossal/layout/partition.h"
#include "colossal/layout/segments.h"
#include "colossal/nn/layer_scope.h"
#include "colossal/nn/token_table.h"
#include "tests/support/run_ranks.h"
#include "tests/support/temporary_directory.h"

namespace colossal::checkpoint {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

const nlohmann::json kConfig{{"model_type", "test"}, {"n_embd", 8}};

Description description(const nlohmann::json& config = kConfig) {
  return {.model_config = config,
          .model_fields = config,
          .slice_in_files = [](const std::string& name) { return TensorSlice{"model." + name}; },
          .files = {{"tokenizer.json", "{}"}},
          .state = {{"step", 3}}};
}

// Under tensor parallelism: the rows of the table and the columns of "up", in three segments, are
// divided. The rest is whole.
nn::Placement placement_of(const std::string& name, const ParallelContext& context) {
  const int tp = context.strategy().tp, here = context.coordinate(Axis::tp);
  if (tp == 1) return {};
  const std::vector<Segment> rows{{13}}, columns{{9, 3}, {6, 3}, {6, 3}};
  if (name == "table") return {.held = {indices_of_part(rows, tp, here), {{0, 8}}}};
  if (name == "up") return {.held = {{{0, 8}}, indices_of_part(columns, tp, here)}};
  return {.num_replicas = tp, .replica = here};
}

// table_rows: most rows of the table in a parameter; 0: all.
nn::ParameterList make_parameters(const ParallelContext& context, int64_t table_rows) {
  nn::ParameterList parameters;
  for (const auto& [name, shape] : std::vector<std::pair<std::string, std::vector<int64_t>>>{
           {"table", {13, 8}}, {"bias", {8}}, {"up", {8, 21}}, {"one", {1}}}) {
    const nn::Parameter whole{.name = name,
                              .shape = shape,
                              .initializer = nn::Initializer::normal(0.5),
                              .placement = placement_of(name, context)};
    if (table_rows == 0 || name != "table") {
      parameters.emplace_back(std::make_shared<nn::Parameter>(whole));
      continue;
    }
    const Partition parts(shape[0], context.strategy().tp);
    const Range here = nn::rows_here(whole);
    const std::vector<Range> blocks = nn::cut_rows(here, parts.range(0).size(), table_rows);
    for (const Range& rows : blocks) {
      nn::Parameter block = whole;
      block.block = {.index = static_cast<int>(parameters.size()),
                     .numel = whole.numel() / std::ssize(blocks)};
      block.placement.held = {{rows}, {{0, shape[1]}}};
      parameters.emplace_back(std::make_shared<nn::Parameter>(block));
    }
  }
  return parameters;
}

struct Layout {
  int dp;
  int zero;
  int tp = 1;
  at::ScalarType working = at::kBFloat16;
  at::ScalarType master = at::kFloat;
  int64_t table_rows = 0;
};

// All values of a model, by name: weights, masters, moments.
using Contents = std::map<std::string, at::Tensor>;

void collect(Contents& contents, const memory::ChunkEngine& engine) {
  engine.for_each_checkpoint_shard([&](const memory::OwnedShard& piece) {
    const auto put = [&](const std::string& kind, const at::Tensor& values) {
      at::Tensor& whole = contents[kind + "." + piece.parameter->name];
      if (!whole.defined()) whole = at::zeros({piece.parameter->numel()}, values.scalar_type());
      whole.narrow(0, piece.elements.begin, piece.elements.size()).copy_(values);
    };
    put("working", piece.working());
    put("master", piece.master());
    put("first", piece.state(0));
    put("second", piece.state(1));
  });
}

// Runs `use` on each rank with an engine in this layout. Returns what the engines hold afterwards.
Contents with_engine(const Layout& layout,
                     const std::function<void(memory::ChunkEngine&, const ParallelContext&)>& use) {
  Contents contents;
  std::mutex mutex;
  const auto optimizer = std::make_shared<optim::ParameterGroups>(optim::OptimizerConfig());
  test::run_ranks(layout.dp * layout.tp, [&](comm::World& world) {
    const ParallelContext context(world,
                                  Strategy{.dp = layout.dp, .tp = layout.tp, .zero = layout.zero});
    memory::ChunkEngine engine(make_parameters(context, layout.table_rows), context, optimizer,
                               {.working = layout.working,
                                .master = layout.master,
                                .gradient = layout.working,
                                .chunk_bytes = 256});
    use(engine, context);
    engine.synchronize();
    const std::lock_guard lock(mutex);
    collect(contents, engine);
  });
  return contents;
}

void train_and_save(memory::ChunkEngine& engine, const ParallelContext& context,
                    const fs::path& directory) {
  engine.initialise(4);
  for (int step = 0; step < 3; ++step) {
    engine.begin_step();
    engine.begin_micro_batch();
    engine.begin_backward(true);
    for (const auto& parameter : engine.parameters()) {
      nn::LayerScope scope("layer");
      torch::autograd::backward({(parameter.use(scope) * (step + 1.5)).sum()}, {});
    }
    engine.end_backward();
    engine.finish_reduction();
    engine.update({.learning_rate = 0.01}, std::vector<bool>(engine.parameters().size(), true));
  }
  RunFolder folder(directory, 2, "auto", context);
  save(folder, 3, engine, context, description());
}

fs::path newest(const fs::path& directory, const ParallelContext& context) {
  return RunFolder(directory, 2, "must", context).start().value();
}

void expect_equal(const Contents& found, const Contents& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (const auto& [name, tensor] : expected)
    EXPECT_TRUE(at::equal(found.at(name), tensor)) << name;
}

// Any layout loads what any other has saved, to the bit.
TEST(Checkpoint, LoadsAtEveryLayout) {
  const std::vector<Layout> layouts{{1, 0},
                                    {2, 0},
                                    {2, 1},
                                    {3, 1},
                                    {5, 1},
                                    {1, 0, 2},
                                    {2, 1, 2},
                                    {2, 0, 3},
                                    {1, 1, 3},
                                    {.dp = 1, .zero = 0, .table_rows = 4},
                                    {.dp = 2, .zero = 1, .tp = 2, .table_rows = 3}};
  for (const Layout& saved : layouts) {
    test::TemporaryDirectory directory;
    const Contents expected = with_engine(saved, [&](auto& engine, const auto& context) {
      train_and_save(engine, context, directory.path());
    });
    for (const Layout& loaded : layouts) {
      TRACED_CASE(fmt::format("saved at dp {} stage {} tp {}, loaded at dp {} stage {} tp {}",
                              saved.dp, saved.zero, saved.tp, loaded.dp, loaded.zero, loaded.tp));
      const Contents found = with_engine(loaded, [&](auto& engine, const auto& context) {
        const fs::path found = newest(directory.path(), context);
        EXPECT_EQ(load(found, engine, description()).at("step"), 3);
        EXPECT_EQ(engine.update_counts(), (std::vector<int64_t>{3, 3, 3, 3}));
      });
      expect_equal(found, expected);
    }
  }
}

Buffers some_buffers(double first) {
  return {{"norm.mean", at::arange(5, at::kDouble).add(first)},
          {"norm.count", at::tensor(int64_t{7}).add(static_cast<int64_t>(first))},
          {"mask", at::arange(6).view({2, 3}).remainder(2).eq(first > 0 ? 1 : 0)},
          {"scale", at::full({3}, first, at::kBFloat16)}};
}

TEST(Checkpoint, HoldsBuffersWithTheWeights) {
  for (const int64_t file_bytes : {int64_t{1} << 30, int64_t{64}}) {
    TRACED_CASE(fmt::format("files of {} bytes", file_bytes));
    test::TemporaryDirectory directory;
    Description saved = description();
    saved.weight_files.max_file_bytes = file_bytes;
    saved.buffers = some_buffers(3);
    with_engine({2, 1}, [&](auto& engine, const auto& context) {
      engine.initialise(4);
      RunFolder folder(directory.path(), 2, "auto", context);
      save(folder, 3, engine, context, saved);
    });
    with_engine({1, 0}, [&](auto& engine, const auto& context) {
      const fs::path checkpoint = newest(directory.path(), context);
      const io::TensorDirectory files(checkpoint);
      EXPECT_TRUE(files.contains("norm.mean")) << "where transformers looks for it";
      Description loaded = description();
      loaded.buffers = some_buffers(0);
      load(checkpoint, engine, loaded);
      const Buffers wanted = some_buffers(3);
      for (size_t i = 0; i < wanted.size(); ++i) {
        EXPECT_TRUE(at::equal(loaded.buffers[i].second, wanted[i].second)) << wanted[i].first;
      }
      const auto error_with = [&](const std::string& name, const at::Tensor& buffer) {
        Description other = description();
        other.buffers = some_buffers(0);
        other.buffers[0] = {name, buffer};
        try {
          load(checkpoint, engine, other);
        } catch (const ConfigError& error) {
          return std::string(error.what());
        }
        return std::string("none");
      };
      EXPECT_THAT(error_with("norm.mean", at::zeros({4}, at::kDouble)),
                  HasSubstr("has shape [5] and type F64, and in this model shape [4]"));
      EXPECT_THAT(error_with("norm.mean", at::zeros({5})), HasSubstr("type F32"));
    });
  }
}

// Returns how many bytes this thread has read, by the kernel's count, without those of this
// function.
int64_t bytes_read() {
  static thread_local int64_t own = 0;
  std::ifstream file("/proc/thread-self/io");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const int64_t read = std::stoll(text.substr(text.find("rchar: ") + 7)) - own;
  own += static_cast<int64_t>(text.size());
  return read;
}

// Of a bf16 run's checkpoint, a rank reads masters and two moments, of four bytes per element. It
// also reads headers and small files, as many bytes as a single rank does.
TEST(Checkpoint, ARankReadsOnlyTheBytesThatItKeeps) {
  test::TemporaryDirectory directory;
  with_engine({2, 1}, [&](auto& engine, const auto& context) {
    train_and_save(engine, context, directory.path());
  });
  const fs::path checkpoint = directory.path() / "step-000003";
  constexpr int64_t kElements = 13 * 8 + 8 + 8 * 21 + 1;
  int64_t beside_tensors = 0;
  const auto load_counted = [&](memory::ChunkEngine& engine) {
    const int64_t before = bytes_read();
    load(checkpoint, engine, description());
    return bytes_read() - before;
  };
  with_engine({1, 0}, [&](auto& engine, const auto&) {
    beside_tensors = load_counted(engine) - 3 * 4 * kElements;
  });
  int64_t in_files = -(3 * 4 + 2) * kElements;  // without masters, moments and weights in bf16
  for (const char* name :
       {"config.json", "training_state/state.json", "model.safetensors.index.json",
        "model-00001-of-00001.safetensors", "training_state/optimizer.safetensors"}) {
    in_files += static_cast<int64_t>(fs::file_size(checkpoint / name));
  }
  EXPECT_EQ(beside_tensors, in_files);
  for (const Layout& layout : std::vector<Layout>{
           {2, 0}, {3, 1}, {3, 2}, {3, 3}, {1, 0, 2}, {1, 1, 3}, {2, 1, 2}, {2, 3, 3}}) {
    TRACED_CASE(fmt::format("dp {} stage {} tp {}", layout.dp, layout.zero, layout.tp));
    std::atomic<int64_t> all_read = 0;
    with_engine(layout, [&](auto& engine, const auto& context) {
      int64_t kept = 0;
      for (const nn::ParameterHandle& parameter : engine.parameters()) {
        kept +=
            4 * (engine.kept_weights(*parameter).size() + 2 * engine.kept_state(*parameter).size());
      }
      const int64_t read = load_counted(engine) - beside_tensors;
      EXPECT_EQ(read, kept) << "rank " << context.rank();
      all_read += read;
    });
    // Two parameters, of 8 elements and of one, are whole on every rank of tp.
    const int64_t elements = kElements + (layout.tp - 1) * (8 + 1);
    const int64_t weights = layout.zero < 3 ? layout.dp : 1,
                  states = layout.zero < 1 ? layout.dp : 1;
    EXPECT_EQ(all_read, 4 * elements * (weights + 2 * states));
  }
}

std::string content_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(Checkpoint, OfATableInBlocksHasTheBytesOfTheWholeOnes) {
  test::TemporaryDirectory whole, in_blocks;
  const auto save_to = [](const fs::path& directory) {
    return [&directory](auto& engine, const auto& context) {
      train_and_save(engine, context, directory);
    };
  };
  with_engine({2, 1, 2}, save_to(whole.path()));
  with_engine({.dp = 2, .zero = 1, .tp = 2, .table_rows = 3}, save_to(in_blocks.path()));
  for (const char* file : {"model-00001-of-00001.safetensors", "model.safetensors.index.json",
                           "training_state/optimizer.safetensors"}) {
    const std::string expected = content_of(whole.path() / "step-000003" / file);
    EXPECT_FALSE(expected.empty()) << file;
    EXPECT_EQ(content_of(in_blocks.path() / "step-000003" / file), expected) << file;
  }
  nlohmann::json expected = read_state(whole.path() / "step-000003");
  nlohmann::json found = read_state(in_blocks.path() / "step-000003");
  EXPECT_NE(found.at("run"), expected.at("run"));
  found["run"] = expected["run"];
  EXPECT_EQ(found, expected);
}

// Even if shards are strided, each rank writes a tensor in one range at most.
TEST(Checkpoint, WritesLongRanges) {
  test::TemporaryDirectory directory;
  with_engine({1, 1, 3}, [&](auto& engine, const auto& context) {
    train_and_save(engine, context, directory.path());
  });
  std::ifstream file(directory.path() / "step-000003" / "manifest.json");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const io::Manifest manifest = io::Manifest::parse(text, "manifest");
  size_t ranges = 0;
  for (const io::ManifestFile& found : manifest.files) {
    if (found.name.ends_with(".safetensors")) ranges += found.ranges.size();
  }
  EXPECT_LE(ranges, 2 + 4 * 4 * 3U);  // headers + kinds x tensors x ranks
}

TEST(Checkpoint, MastersBecomeTheWeightsOfARunInFp32) {
  test::TemporaryDirectory directory;
  const Contents bf16 = with_engine({2, 1}, [&](auto& engine, const auto& context) {
    train_and_save(engine, context, directory.path());
  });
  const Contents fp32 =
      with_engine({1, 0, 1, at::kFloat, at::kFloat}, [&](auto& engine, const auto& context) {
        load(newest(directory.path(), context), engine, description());
      });
  for (const auto& [name, tensor] : fp32) {
    if (name.starts_with("working")) {
      EXPECT_TRUE(at::equal(tensor, bf16.at("master" + name.substr(7)))) << name;
    }
  }
}

TEST(Checkpoint, ADamagedOneIsPassedOver) {
  test::TemporaryDirectory directory;
  with_engine({2, 1}, [&](auto& engine, const auto& context) {
    train_and_save(engine, context, directory.path());
    RunFolder folder(directory.path(), 2, "auto", context);
    save(folder, 4, engine, context, description());
    comm::barrier(context.world_group());
    if (context.rank() == 0) {
      std::fstream file(directory.path() / "step-000004" / "training_state/optimizer.safetensors",
                        std::ios::in | std::ios::out | std::ios::binary);
      file.seekp(-1, std::ios::end);
      file.put('\x7f');
    }
    comm::barrier(context.world_group());
    EXPECT_EQ(newest(directory.path(), context).filename(), "step-000003");
  });
}

TEST(Checkpoint, KeepsTheNewest) {
  test::TemporaryDirectory directory;
  with_engine({1, 0}, [&](auto& engine, const auto& context) {
    engine.initialise(1);
    RunFolder folder(directory.path(), 2, "auto", context);
    for (int64_t step : {1, 2, 3, 4}) save(folder, step, engine, context, description());
  });
  EXPECT_FALSE(fs::exists(directory.path() / "step-000002"));
  EXPECT_TRUE(fs::exists(directory.path() / "step-000003"));
  EXPECT_TRUE(fs::exists(directory.path() / "step-000004"));
}

TEST(Checkpoint, AnotherModelIsRefusedByItsFields) {
  test::TemporaryDirectory directory;
  with_engine({1, 0}, [&](auto& engine, const auto& context) {
    train_and_save(engine, context, directory.path());
    nlohmann::json other = kConfig;
    other["n_embd"] = 16;
    try {
      load(newest(directory.path(), context), engine, description(other));
      FAIL() << "accepted";
    } catch (const ConfigError& error) {
      EXPECT_THAT(error.what(), HasSubstr("n_embd = 16 here, 8 there"));
    }
  });
}

// If one rank fails, all fail with the same message, and nothing is left behind.
TEST(Checkpoint, AFailedSaveFailsOnAllRanksAndLeavesOlderOnes) {
  test::TemporaryDirectory directory;
  with_engine({3, 1}, [&](auto& engine, const auto& context) {
    train_and_save(engine, context, directory.path());
    comm::barrier(context.world_group());
    const fs::path obstacle = directory.path() / "step-000007";
    if (context.rank() == 0) std::ofstream(obstacle) << "a file where the folder should be";
    comm::barrier(context.world_group());
    try {
      RunFolder folder(directory.path(), 2, "auto", context);
      save(folder, 7, engine, context, description());
      ADD_FAILURE() << "saved over " << obstacle;
    } catch (const IoError& error) {
      EXPECT_THAT(error.what(), HasSubstr("rank 0"));
      EXPECT_THAT(error.what(), HasSubstr("step-000007"));
    }
    EXPECT_EQ(newest(directory.path(), context).filename(), "step-000003");
  });
}

// Sets an element of weights to NaN, on rank 0 only.
void spoil(memory::ChunkEngine& engine, const ParallelContext& context) {
  engine.initialise(4);
  if (context.rank() == 0) engine.load(*engine.parameters().front(), 5, at::full({1}, NAN));
}

TEST(Checkpoint, WeightsThatAreNotFiniteAreNotSaved) {
  for (const Layout& layout : std::vector<Layout>{{1, 0}, {2, 1}, {2, 3}, {1, 0, 2}}) {
    test::TemporaryDirectory directory;
    with_engine(layout, [&](auto& engine, const auto& context) {
      train_and_save(engine, context, directory.path());
      spoil(engine, context);
      RunFolder folder(directory.path(), 2, "auto", context);
      try {
        save(folder, 4, engine, context, description());
        ADD_FAILURE() << "saved";
      } catch (const IoError& error) {
        EXPECT_THAT(error.what(), HasSubstr("table\" holds numbers that are not finite"));
      }
      EXPECT_EQ(newest(directory.path(), context).filename(), "step-000003");
    });
  }
}

TEST(Checkpoint, WeightsThatAreNotFiniteAreNotLoaded) {
  test::TemporaryDirectory directory;
  with_engine({.dp = 1, .zero = 0, .working = at::kFloat}, [&](auto& engine, const auto& context) {
    train_and_save(engine, context, directory.path());
    const fs::path checkpoint = directory.path() / "step-000003";
    std::fstream file(checkpoint / "model-00001-of-00001.safetensors",
                      std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(-4, std::ios::end);
    file.write("\xff\xff\xff\x7f", 4);
    file.close();
    try {
      load(checkpoint, engine, description());
      ADD_FAILURE() << "loaded";
    } catch (const IoError& error) {
      EXPECT_THAT(error.what(), HasSubstr("safetensors: the weights \"model."));
      EXPECT_THAT(error.what(), HasSubstr("not finite"));
    }
  });
}

}  // namespace
}  // namespace colossal::checkpoint
