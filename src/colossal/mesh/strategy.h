// Strategy: the layout of a job as a plain value: the number of ranks along each axis of
// parallelism (dp, pp, sp, tp, ep), and what these ranks shard. resolve_strategy() checks a
// Strategy.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "colossal/base/error.h"
#include "colossal/base/range.h"

namespace colossal {

// The axes of the grid of ranks, from the outermost to the innermost: ranks r and r + 1 are
// neighbours along tp. pp: pipeline parallelism; dp: data parallelism; sp: sequence (context)
// parallelism; tp: tensor parallelism.
enum class Axis { pp, dp, sp, tp };
inline constexpr Axis kAxes[] = {Axis::pp, Axis::dp, Axis::sp, Axis::tp};
const char* axis_name(Axis axis);  // "pp", "dp", "sp", "tp"

// How attention is computed for a sequence that several ranks of sp share.
enum class SequenceMode {
  // Each rank keeps its queries, and the keys and values of all ranks are passed around (H. Liu et
  // al. 2023, "Ring Attention").
  ring,
  // Within attention, each rank has the tokens of all ranks for some of the heads (S. A. Jacobs et
  // al. 2023, "DeepSpeed Ulysses").
  ulysses
};

// How the ranks of tp shard tensors.
enum class TensorMode {
  // A weight is sharded along one dimension (M. Shoeybi et al. 2019, "Megatron-LM").
  one_d,
  // Weights and activations are divided into q x q blocks, where tp = q^2 (Q. Xu and Y. You 2021,
  // after SUMMA, R. van de Geijn and J. Watts 1997).
  two_d,
  // There are tp_depth squares of q x q ranks. The squares hold the same weights, and divide the
  // sequences among them (B. Wang et al. 2021, "Tesseract").
  two_and_half_d,
  // Weights and activations are divided among a cube of q x q x q = tp ranks (Z. Bian et al. 2021).
  three_d
};
const char* tensor_mode_name(TensorMode mode);  // "1d", "2d", "2.5d", "3d"

// Thrown if settings do not fit each other on the given number of ranks. The message has the
// settings and the reason, but no layouts that would work: these also depend on the model and the
// batch, so job/nearest_layout.h finds them.
class LayoutError : public ConfigError {
 public:
  using ConfigError::ConfigError;
};

struct Strategy {
  int pp = 1;  // number of ranks of a pipeline
  int dp = 1;  // number of replicas of the model
  int sp = 1;  // number of ranks that share a sequence: each has some of its tokens
  int tp = 1;  // number of ranks that share a tensor: each has a shard of it
  // ep: number of ranks among which the experts of a layer are divided. expert_tp: number of ranks
  // that each hold a part of the same expert. These add no ranks: in the layers with experts, the
  // ranks of a stage, dp * sp * tp in number, form groups of ep * expert_tp ranks. So ep *
  // expert_tp must divide dp * sp * tp.
  int ep = 1;
  int expert_tp = 1;
  // expert_copies: largest number of experts of a layer that are copied to all ranks of ep for a
  // micro-batch, to balance their work; 0: none. expert_copy_rows: the cost of a copy, in rows: n
  // experts are copied only if this reduces the rows of the busiest rank by more than n *
  // expert_copy_rows (parallel/expert/expert_copies.h).
  int64_t expert_copies = 0;
  int64_t expert_copy_rows = 1;
  // Number of rows (routed tokens) of each expert in an earlier run, [blocks][experts]; a block
  // without experts has an empty element. Used to place experts on ranks, and in dry runs. Empty:
  // unknown.
  std::vector<std::vector<int64_t>> expert_rows;

  int pp_chunks = 1;  // number of stages on each rank of the pipeline
  // Coordinate along pp of the rank that holds each stage. Empty, which needs pp_chunks = 1: stage
  // s is on coordinate s.
  std::vector<int> stage_ranks;
  // The pipeline schedule, i.e. the order in which ranks run their stages: the name of a built-in
  // schedule, or the path of a schedule file (parallel/pipeline/schedule_file.h).
  std::string pp_schedule = "1f1b";
  // Number of the model's blocks in each stage, in model order; empty: the only stage has all
  // blocks. The first stage also has the embedding, the last stage also the head.
  std::vector<int64_t> stage_blocks;

  // ZeRO stage (Rajbhandari et al. 2020): what is sharded over the ranks that would otherwise hold
  // equal copies: those along dp and sp, and in some tensor modes also some ranks of tp. 0:
  // nothing; 1: optimizer state; 2: also gradients; 3: also weights.
  int zero = 0;
  // Divides the dp x sp positions, each of which has tp ranks, into shard groups of this many
  // neighbouring positions, i.e. of zero_group * tp ranks. The ranks of a group hold all shards:
  // `zero` shards only over ranks with equal copies that are in one group ("hybrid sharding", Y.
  // Zhao et al. 2023). 0: no groups; `zero` shards over all ranks with equal copies. For experts,
  // see expert_axes().
  int zero_group = 0;

  TensorMode tensor_mode = TensorMode::one_d;
  int tp_depth = 1;  // for two_and_half_d: tp = q * q * tp_depth

  // For one_d. true: between tensor-parallel linear layers, each rank of tp holds its share of the
  // tokens instead of all tokens ("sequence parallelism", V. Korthikanti et al. 2022).
  bool tp_sequence = true;

  // Of the ranks that divide attention heads among them (head_ranks() in number): how many
  // neighbouring ones hold the same keys and values. More than 1 only with grouped-query attention,
  // if head_ranks() does not divide the number of K/V heads. resolve_heads() (parallel_config.h)
  // sets it from the model.
  int key_value_replicas = 1;

  SequenceMode sequence_mode = SequenceMode::ring;

  // A rank's shard of a vocabulary table is split into parameters of at most this many rows, so
  // that no more rows need to be on the device at once. 0: the shard is one parameter.
  int64_t table_rows = 0;

  int size(Axis axis) const;  // number of ranks along the axis
  int world_size() const { return pp * dp * sp * tp; }

  int num_stages() const { return pp * pp_chunks; }  // stages of a pipeline, over all its ranks
  // Returns the coordinate along pp of the rank that holds a stage.
  int stage_rank(int stage) const;
  // Returns the stage of a block of the model.
  int stage_of_block(int64_t block) const;
  // Returns the blocks of a stage, by index. blocks: number of blocks in the model.
  Range blocks_of_stage(int stage, int64_t blocks) const;

  // Returns q, the number of ranks along a side of the square or cube of tensor_mode; with one_d,
  // returns tp. Rounded down if tp does not fit the mode.
  int tensor_side() const;
  // Returns the value of tp with which a side has `side` ranks, for this tensor_mode and tp_depth.
  int tp_of_side(int side) const;
  // Returns the number of neighbouring ranks of tp that divide attention heads among them.
  int head_ranks() const { return tensor_side(); }
  // tensor_axes(), data_axes() and expert_axes() return axes of a RankGrid as pairs of name and
  // size, outermost first.

  // Returns the axes into which tp is divided: "tp" (1d); "tp.depth", "tp.row", "tp.column" (2d,
  // 2.5d); "tp.i", "tp.j", "tp.l" (3d). With key_value_replicas > 1, the last axis is replaced by
  // two factors, its name with the suffix ".kv", then with ".query". Along ".kv", ranks hold
  // different keys and values; along ".query", which has key_value_replicas ranks, they hold the
  // same keys and values for different queries.
  std::vector<std::pair<std::string, int>> tensor_axes() const;
  // Returns the axes "dp" and "sp". If zero_group >= sp, "dp" is replaced by "dp.replica" and
  // "dp.shard"; if 0 < zero_group < sp, "sp" is replaced by "sp.replica" and "sp.shard".
  std::vector<std::pair<std::string, int>> data_axes() const;
  // Returns the names in data_axes() of the axes along which ranks of different shard groups (see
  // zero_group) hold the same shard: "dp.replica" if zero_group >= sp; "dp" and "sp.replica" if
  // 0 < zero_group < sp; none if zero_group is 0.
  std::vector<std::string_view> replica_axes() const;

  // Returns the number of ranks that together hold all experts of a layer once.
  int expert_ranks() const { return ep * expert_tp; }
  // Returns the axes into which experts regroup the dp * sp * tp ranks of a stage, outermost first:
  // "expert_dp", along which ranks hold the same elements of experts; "ep"; and "expert_tp".
  //
  // With a zero_group, "expert_dp" is replaced by "expert_dp.replica" and "expert_dp.shard", and
  // ZeRO shards the state of experts along "expert_dp.shard". A group of zero_group positions in dp
  // x sp has zero_group * tp ranks. Together, these hold all experts zero_group * tp /
  // expert_ranks() times. "expert_dp.shard" has this number of ranks, but at least 1.
  std::vector<std::pair<std::string, int>> expert_axes() const;
};

// Checks that pp, dp, sp, tp, tensor_mode, tp_depth, ep, expert_tp, zero and zero_group fit each
// other and a job of `ranks` ranks; throws LayoutError if they do not. Does not check other fields.
// Returns `strategy`; if dp_given is false, with dp = ranks / (pp * sp * tp).
Strategy resolve_strategy(Strategy strategy, bool dp_given, int ranks);

}  // namespace colossal
