// The layout of a job as a plain value: the number of ranks along each axis, and what these ranks
// shard.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "colossal/base/error.h"
#include "colossal/base/range.h"

namespace colossal {

// Axes (see Strategy) from the outermost to the innermost: ranks r and r + 1 are neighbours along
// tp.
enum class Axis { pp, dp, sp, tp };
inline constexpr Axis kAxes[] = {Axis::pp, Axis::dp, Axis::sp, Axis::tp};
const char* axis_name(Axis axis);

// How attention is computed for a sequence that several ranks share. ring (H. Liu et al. 2023):
// each rank keeps its queries, and the keys and values of all ranks are passed around. ulysses (S.
// A. Jacobs et al. 2023): within attention, each rank has the tokens of all ranks for some of the
// heads.
enum class SequenceMode { ring, ulysses };

// How the ranks of tp shard tensors. one_d: a weight is sharded along one dimension (M. Shoeybi et
// al. 2019). two_d: weights and activations are divided into q x q blocks, where tp = q^2 (Q. Xu
// and Y. You 2021, after SUMMA, R. van de Geijn and J. Watts 1997). two_and_half_d: there are
// tp_depth squares of q x q ranks, which hold the same weights and divide the sequences among them
// (B. Wang et al. 2021, "Tesseract"). three_d: weights and activations are divided among a cube of
// q x q x q = tp ranks (Z. Bian et al. 2021).
enum class TensorMode { one_d, two_d, two_and_half_d, three_d };
const char* tensor_mode_name(TensorMode mode);  // "1d", "2d", "2.5d", "3d"

// Thrown if settings do not fit each other on the given number of ranks. The message names the
// settings and the reason. Layouts that would work are found by booster/nearest_layout.h, because
// they also depend on the model and the batch.
class LayoutError : public ConfigError {
 public:
  using ConfigError::ConfigError;
};

struct Strategy {
  int pp = 1;  // ranks of a pipeline
  int dp = 1;  // replicas
  int sp = 1;  // ranks that share a sequence
  int tp = 1;  // ranks that share a tensor
  // ep: ranks among which the experts of a layer are divided. expert_tp: ranks that each hold a
  // part of the same expert. ep * expert_tp must divide dp * sp * tp: for experts, these same ranks
  // are grouped anew.
  int ep = 1;
  int expert_tp = 1;
  // expert_copies: largest number of experts of a layer that are copied to all ranks of ep for a
  // micro-batch. expert_copy_rows: number of rows by which each copy must relieve the busiest rank
  // (parallel/expert/expert_copies.h).
  int64_t expert_copies = 0;
  int64_t expert_copy_rows = 1;
  // Number of rows (routed tokens) of each expert in an earlier run, [blocks][experts]. Used to
  // place experts on ranks, and in dry runs. Empty: unknown.
  std::vector<std::vector<int64_t>> expert_rows;

  // pp_chunks: stages per rank of the pipeline. stage_ranks: rank of each stage along pp; empty:
  // stage s is on rank s.
  int pp_chunks = 1;
  std::vector<int> stage_ranks;
  // Order in which a rank runs its stages: the name of a schedule, or the path of a schedule file
  // (parallel/pipeline/schedule_file.h).
  std::string pp_schedule = "1f1b";
  // Number of the model's blocks in each stage, in model order; empty: the only stage has all
  // blocks. The first stage also has the embedding, the last stage also the head.
  std::vector<int64_t> stage_blocks;

  // ZeRO stage (Rajbhandari et al. 2020): what is sharded over the ranks that otherwise hold the
  // same parameters. 0: nothing; 1: optimizer state; 2: also gradients; 3: also weights.
  int zero = 0;
  // Size of a shard group: what `zero` shards is sharded over this many neighbouring ranks of dp x
  // sp, and replicated across the groups ("hybrid sharding", Y. Zhao et al. 2023). 0: one group of
  // all ranks.
  int zero_group = 0;

  TensorMode tensor_mode = TensorMode::one_d;
  int tp_depth = 1;  // for two_and_half_d: tp = side^2 * tp_depth

  // For one_d. true: between tensor-parallel linear layers, each rank of tp holds its share of the
  // tokens instead of all tokens ("sequence parallelism", V. Korthikanti et al. 2022).
  bool tp_sequence = true;

  // Number of neighbouring ranks, of the head_ranks(), that hold the same keys and values. More
  // than 1 only with grouped-query attention, if head_ranks() does not divide the number of K/V
  // heads. Set from the model by key_value_replicas() (layout/heads.h).
  int key_value_replicas = 1;

  SequenceMode sequence_mode = SequenceMode::ring;

  // Splits this rank's shard of a vocabulary table into parameters of at most this many rows, so
  // that no more of the table needs to be on the device at once. 0: one parameter.
  int64_t table_rows = 0;

  int size(Axis axis) const;
  int world_size() const { return pp * dp * sp * tp; }

  int num_stages() const { return pp * pp_chunks; }
  int stage_rank(int stage) const;  // along pp
  // Returns the stage of a block of the model.
  int stage_of_block(int64_t block) const;
  // Returns the blocks of a stage. blocks: number of blocks in the model.
  Range blocks_of_stage(int stage, int64_t blocks) const;

  // Returns q, the number of ranks along a side of the tensor mode's square or cube; with one_d,
  // tp. Rounded down if tp does not fit the mode.
  int tensor_side() const;
  // Returns the value of tp for a side of q ranks.
  int tp_of_side(int side) const;
  // Number of ranks of tp that divide attention heads: tensor_side(). They are neighbours.
  int head_ranks() const { return tensor_side(); }
  // Returns the axes whose product is tp, outermost first: "tp" (1d); "tp.depth", "tp.row",
  // "tp.column" (2d, 2.5d); "tp.i", "tp.j", "tp.l" (3d). With key_value_replicas > 1, the last axis
  // is replaced by two factors of the same name with a suffix: ".kv", along which ranks hold
  // different keys and values, and ".query", along which they hold the same keys and values for
  // different queries.
  std::vector<std::pair<std::string, int>> tensor_axes() const;
  // Returns the axes whose product is dp x sp, outermost first: "dp", "sp". With a zero_group, "dp"
  // is replaced by "dp.replica", "dp.shard", or "sp" by "sp.replica", "sp.shard".
  std::vector<std::pair<std::string, int>> data_axes() const;
  // Returns the names in data_axes() along which ranks hold the same shard in different
  // zero_groups; empty without a zero_group.
  std::vector<std::string_view> replica_axes() const;

  // Number of ranks that together hold all experts of a layer once.
  int expert_ranks() const { return ep * expert_tp; }
  // Returns the axes into which experts regroup the ranks of dp x sp x tp, outermost first:
  // "expert_dp", along which ranks hold the same elements of experts, "ep" and "expert_tp". With a
  // zero_group, "expert_dp" is replaced by "expert_dp.replica" and "expert_dp.shard". ZeRO shards
  // the state of experts along "expert_dp.shard". A zero_group with the tp groups of its ranks is
  // zero_group * tp ranks; "expert_dp.shard" runs over those of them that hold the same experts:
  // zero_group * tp / expert_ranks(), at least 1.
  std::vector<std::pair<std::string, int>> expert_axes() const;
};

// Checks the settings for a job of `ranks` ranks and returns them complete. dp_given: if false, dp
// is computed from the other sizes. Throws LayoutError.
Strategy resolve_strategy(Strategy strategy, bool dp_given, int ranks);

}  // namespace colossal
