// What a forward pass keeps for its backward pass: the formulas of docs/activations.md, to the
// byte.
#include <gtest/gtest.h>

#include <set>
#include <sstream>

#include "colossal/layout/partition.h"
#include "colossal/models/assembly.h"
#include "colossal/parallel/sequence/positions.h"
#include "colossal/plan/recorded_step.h"
#include "tests/plan/layouts.h"

namespace colossal::test {
namespace {

// The letters of docs/activations.md.
struct Sizes {
  int64_t tokens = 0;       // T: of a micro-batch on this rank of sp
  int64_t between = 0;      // T_b: of them, those that this rank of tp has between products
  int64_t hidden = 0;       // H
  int64_t hidden_here = 0;  // H_b: of them, those that this rank has between products
  int64_t looked_up = 0;    // T_e: tokens whose rows of the table this rank looks for
  int64_t queries = 0;      // Q: columns of queries here
  int64_t keys = 0;         // K: columns of keys here, as many of values
  int64_t heads = 0;        // query heads here
  int64_t head_size = 0;
  int64_t inner = 0;       // F: columns of the inner layer here
  int64_t vocabulary = 0;  // V: rows of the head here
  int64_t positions = 0;   // S: of a sequence here
  int64_t width = 0;       // w
  int64_t wide = 0;        // a
  int64_t statistics = 0;  // of a layer norm, a token: mean and spread
};

std::map<std::string, std::vector<int64_t>> local_shapes(const Job& job, int rank) {
  const auto world = comm::dry_world(rank, job.strategy.world_size());
  const ParallelContext context(*world, job.strategy, at::kMeta);
  const models::Assembly assembly = models::assemble(job.model, context);
  std::map<std::string, std::vector<int64_t>> shapes;
  for (const nn::ParameterHandle& parameter : assembly.parameters()) {
    shapes[parameter->name] = parameter->local_shape();
  }
  return shapes;
}

// Squares and cubes: how many of a micro-batch's sequences are here, cut over axes in turn.
int64_t sequences_here(const Job& job, int rank, const std::vector<std::string_view>& axes) {
  const RankGrid mesh(job.strategy);
  int64_t sequences = job.micro_batch;
  for (const std::string_view name : axes) {
    const AxisSet axis = mesh.axes_of({name});
    const int parts = static_cast<int>(mesh.ranks_along(rank, axis).size());
    sequences = Partition(sequences, parts).range(mesh.coordinate(rank, axis)).size();
  }
  return sequences;
}

// Replaces what squares and cubes have otherwise.
void set_blocks(Sizes& sizes, const Job& job, int rank) {
  const RankGrid mesh(job.strategy);
  const bool cube = job.strategy.tensor_mode == TensorMode::three_d;
  const int side = job.strategy.tensor_side();
  const auto place = [&](std::string_view axis) {
    return mesh.coordinate(rank, mesh.axes_of({axis}));
  };
  const int between = place(cube ? "tp.j" : "tp.column"),
            within = place(cube ? "tp.l" : "tp.column");
  using Axes = std::vector<std::string_view>;
  const int64_t per_sequence = sizes.positions;
  sizes.tokens =
      per_sequence *
      sequences_here(job, rank, cube ? Axes{"tp.i", "tp.j"} : Axes{"tp.depth", "tp.row"});
  sizes.between = cube ? per_sequence * sequences_here(job, rank, {"tp.i", "tp.l"}) : sizes.tokens;
  sizes.looked_up =
      per_sequence * (cube ? job.micro_batch : sequences_here(job, rank, {"tp.depth"}));
  sizes.hidden_here = Partition(sizes.hidden, side).range(between).size();
  const nn::LocalHeads heads = models::shardings(job.model).front().heads_of(side, within);
  sizes.heads = heads.queries.size();
  sizes.queries = sizes.heads * sizes.head_size;
  sizes.keys = heads.keys.size() * sizes.head_size;
  sizes.inner = Partition(job.model.config.value("n_inner", 0) > 0
                              ? job.model.config["n_inner"].get<int64_t>()
                              : job.model.config.value("intermediate_size", int64_t{0}),
                          side)
                    .range(within)
                    .size();
  sizes.vocabulary = Partition(job.model.facts.vocabulary, side).range(within).size();
}

Sizes sizes_of(const Job& job, const PlannedRun& layout, int rank) {
  const RankGrid mesh(job.strategy);
  const auto shapes = local_shapes(job, rank);
  const bool gpt2 = layout.family == "gpt2";
  Sizes sizes;
  for (const Range& run :
       parallel::positions_of_rank(job.strategy.sequence_mode, job.sequence_length, layout.sp,
                                   mesh.coordinate(rank, mesh.axes_of({"sp"})))) {
    sizes.positions += run.size();
  }
  sizes.tokens = job.micro_batch * sizes.positions;
  sizes.between = layout.tp_sequence ? Partition(sizes.tokens, layout.tp)
                                           .range(mesh.coordinate(rank, mesh.axes_of({"tp"})))
                                           .size()
                                     : sizes.tokens;
  sizes.hidden = job.model.facts.hidden;
  sizes.head_size = job.model.facts.head_size;
  sizes.queries = shapes.at("blocks.0.attention_output.weight")[gpt2 ? 0 : 1];
  sizes.keys = gpt2 ? sizes.queries : shapes.at("blocks.0.key.weight")[0];
  sizes.heads = sizes.queries / sizes.head_size;
  sizes.inner = shapes.at("blocks.0.mlp_down.weight")[gpt2 ? 0 : 1];
  const auto head = shapes.find("head.weight");
  sizes.vocabulary =
      (head != shapes.end() ? head : shapes.find("token_embedding.weight"))->second[0];
  sizes.width = static_cast<int64_t>(c10::elementSize(job.precision.compute));
  sizes.wide = std::max<int64_t>(4, sizes.width);
  sizes.statistics = 2 * sizes.width;
  sizes.hidden_here = sizes.hidden;
  sizes.looked_up = sizes.tokens;
  if (layout.tp_mode != "1d") {
    sizes.statistics = 2 * sizes.wide;
    set_blocks(sizes, job, rank);
  }
  return sizes;
}

int64_t attention_bytes(const Sizes& s) {
  return s.tokens * (2 * s.queries + 2 * s.keys) * s.width + s.tokens * s.heads * s.wide;
}

int64_t gpt2_layer(const Sizes& s) {
  const int64_t norms = 2 * s.between * (2 * s.hidden_here * s.width + s.statistics);
  return norms + attention_bytes(s) + 2 * s.tokens * s.inner * s.width;
}

int64_t llama_layer(const Sizes& s) {
  const int64_t norms = 2 * s.between * (2 * s.hidden_here * s.width + s.wide);
  const int64_t frequencies = s.head_size / 2 * 8;
  return norms + attention_bytes(s) + 3 * s.tokens * s.inner * s.width + frequencies;
}

// All tokens with this rank's share of the heads, which for GPT-2 are as many of queries as of
// keys; and the results once more, for the tokens here with all heads.
int64_t ulysses_bytes(const Sizes& s, const Job& job, int coordinate) {
  const int64_t tokens = job.micro_batch * job.sequence_length;
  const int64_t heads = Partition(s.heads, job.strategy.sp).range(coordinate).size();
  return tokens * 4 * heads * s.head_size * s.width + tokens * heads * s.wide +
         s.tokens * s.queries * s.width;
}

int64_t embedding_bytes(const Sizes& s, const PlannedRun& layout) {
  const int64_t indices = s.looked_up * 8;
  const int64_t elsewhere = layout.tp > 1 ? s.looked_up : 0;  // a byte a token
  const bool own_positions =
      layout.tp > 1 && layout.tp_mode == "1d" && layout.tp_sequence && layout.family == "gpt2";
  // The run's positions, kept for dropout, rotation and the table, or those of the tokens here.
  const bool uses_positions = layout.family == "llama" || !own_positions || layout.dropout > 0;
  return indices + elsewhere + (own_positions ? s.between * 8 : 0) +
         (uses_positions ? s.positions * 8 : 0);
}

int64_t ends(const Sizes& s, const PlannedRun& layout, const Job& job) {
  const int64_t norm = layout.family == "gpt2"
                           ? s.between * (s.hidden_here * s.width + s.statistics)
                           : s.between * (s.hidden_here * s.width + s.wide);
  // In bf16 these few tokens' logits take less than the sum of their gradient in fp32.
  const bool keeps_logits = s.width < s.wide;
  const int64_t of_input = s.tokens * s.hidden * s.width;
  const int64_t head = keeps_logits ? 2 * of_input + s.tokens * s.vocabulary * s.width
                                    : of_input + s.vocabulary * s.hidden * s.wide;
  const int64_t documents =
      layout.separate_documents ? job.micro_batch * job.sequence_length * 8 : 0;
  return embedding_bytes(s, layout) + norm + head + documents;
}

Job with_layers(const PlannedRun& layout, int64_t layers) {
  Job job = job_of(layout);
  job.config.model.overrides[layout.family == "gpt2" ? "n_layer" : "num_hidden_layers"] = layers;
  return resolve_job(job.config, {.ranks = layout.ranks()});
}

void expect_formulas(const PlannedRun& layout) {
  for (const int rank : std::set<int>{0, layout.ranks() / 2, layout.ranks() - 1}) {
    const Job job = with_layers(layout, 2);
    const Sizes sizes = sizes_of(job, layout, rank);
    int64_t layer = layout.family == "gpt2" ? gpt2_layer(sizes) : llama_layer(sizes);
    if (layout.sp > 1 && layout.sp_mode == "ulysses") {
      const RankGrid mesh(job.strategy);
      const int coordinate = mesh.coordinate(rank, mesh.axes_of({"sp"}));
      layer += ulysses_bytes(sizes, job, coordinate) - attention_bytes(sizes);
    }
    const int64_t two = plan::record_step(job, rank).activation_bytes[0];
    const int64_t three = plan::record_step(with_layers(layout, 3), rank).activation_bytes[0];
    std::ostringstream name;
    name << layout << ", rank " << rank;
    EXPECT_EQ(three - two, layer) << "a layer: " << name.str();
    EXPECT_EQ(two - 2 * layer, ends(sizes, layout, job)) << "the ends: " << name.str();
    if (testing::Test::HasFailure()) return;
  }
}

void expect_formulas_at_all_layouts(const std::string& compute) {
  for (const char* family : {"gpt2", "llama"}) {
    for (const int tp : {1, 2, 3, 4}) {
      for (const bool shared : {true, false}) {
        for (const int sp : {1, 3}) {
          if (tp == 1 && !shared) continue;
          expect_formulas(
              {.family = family, .sp = sp, .tp = tp, .tp_sequence = shared, .compute = compute});
        }
      }
    }
  }
}

TEST(Activations, AreThoseOfTheTable) {
  expect_formulas_at_all_layouts("bf16");
}

TEST(Activations, OfSquaresAndCubesAreThoseOfTheTable) {
  for (const char* family : {"gpt2", "llama"}) {
    for (const char* compute : {"fp32", "bf16"}) {
      expect_formulas({.family = family, .tp = 4, .tp_mode = "2d", .compute = compute});
      expect_formulas({.family = family, .tp = 8, .tp_mode = "2.5d", .compute = compute});
      expect_formulas({.family = family, .tp = 8, .tp_mode = "3d", .compute = compute});
      expect_formulas({.family = family, .sp = 3, .tp = 4, .tp_mode = "2d", .compute = compute});
    }
  }
}

TEST(Activations, OfDocumentsAreThoseOfTheTable) {
  for (const char* family : {"gpt2", "llama"}) {
    expect_formulas({.family = family, .compute = "bf16", .separate_documents = true});
    expect_formulas({.family = family, .sp = 3, .separate_documents = true});
    expect_formulas({.family = family, .tp = 4, .tp_mode = "2d", .separate_documents = true});
  }
  expect_formulas({.sp = 2, .sp_mode = "ulysses", .separate_documents = true});
}

TEST(SlowActivations, AreThoseOfTheTableInEveryType) {
  for (const char* compute : {"fp32", "fp64"}) expect_formulas_at_all_layouts(compute);
}

TEST(Activations, OfUlyssesAreThoseOfTheTable) {
  for (const char* compute : {"fp32", "bf16"}) {
    for (const int sp : {2, 3, 4})
      expect_formulas({.sp = sp, .sp_mode = "ulysses", .compute = compute});
    expect_formulas({.sp = 2, .tp = 2, .sp_mode = "ulysses", .compute = compute});
  }
}

}  // namespace
}  // namespace colossal::test
