// The layout of a job as a plain value: how many ranks along each axis, and what they share.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "colossal/base/error.h"
#include "colossal/base/range.h"

namespace colossal {

// Axes from the outermost to the innermost: neighbours in rank are neighbours along tp.
enum class Axis { pp, dp, sp, tp };
inline constexpr Axis kAxes[] = {Axis::pp, Axis::dp, Axis::sp, Axis::tp};
const char* axis_name(Axis axis);

// How attention works on a sequence that several ranks share. ring (H. Liu et al. 2023): each rank
// keeps its queries, and the keys and values of all ranks pass by. ulysses (S. A. Jacobs et al.
// 2023): each rank has the tokens of all ranks for some of the heads.
enum class SequenceMode { ring, ulysses };

// How the ranks of tp hold a tensor. one_d: a weight is cut along one of its dims (M. Shoeybi et
// al. 2019). two_d: weights and activations are cut into q x q blocks (Q. Xu and Y. You 2021, by R.
// van de Geijn and J. Watts' SUMMA 1997). two_and_half_d: tp_depth squares of q x q ranks have the
// same weights and divide the sequences (B. Wang et al. 2021, "Tesseract"). three_d: q x q x q (Z.
// Bian et al. 2021).
enum class TensorMode { one_d, two_d, two_and_half_d, three_d };
const char* tensor_mode_name(TensorMode mode);  // "1d", "2d", "2.5d", "3d"

// Settings that do not go together on the given number of ranks; what() says which and why. What
// would work depends on the model and the batch as well (booster/nearest_layout.h).
class LayoutError : public ConfigError {
 public:
  using ConfigError::ConfigError;
};

struct Strategy {
  int pp = 1;  // ranks of a pipeline
  int dp = 1;  // replicas
  int sp = 1;  // parts of a sequence
  int tp = 1;  // parts of a tensor
  // How many ranks share out the experts of a layer, and how many have a part each of the same
  // expert. Together they divide dp * sp * tp, and do not multiply it: experts regroup these ranks.
  int ep = 1;
  int expert_tp = 1;
  // How many experts of a layer may be copied to all ranks of ep for a micro-batch, and how many
  // rows each copy must take from the busiest rank.
  int64_t expert_copies = 0;
  int64_t expert_copy_rows = 1;
  // How many rows each expert of each block of the model had in an earlier run. Experts are placed
  // by it, and dry runs count with it. Empty: unknown.
  std::vector<std::vector<int64_t>> expert_rows;

  // How many stages each rank of the pipeline holds, and the rank of each stage along pp. Empty:
  // stage s is on rank s.
  int pp_chunks = 1;
  std::vector<int> stage_ranks;
  // The order in which a rank works on its stages, as parallel/pipeline/schedule_file.h takes it.
  std::string pp_schedule = "1f1b";
  // How many of the model's blocks each stage has, in model order; empty: one stage has all. The
  // first stage also has the embedding, the last one the head.
  std::vector<int64_t> stage_blocks;

  // ZeRO (Rajbhandari et al. 2020): what is sharded over the ranks that hold the same parameters.
  // 0: nothing; 1: the optimizer's state; 2: gradients too; 3: weights too.
  int zero = 0;
  // The size of a shard group: state is sharded over this many neighbouring ranks of dp x sp, and
  // replicated across groups ("hybrid sharding", Y. Zhao et al. 2023). 0: all ranks are one group.
  int zero_group = 0;

  TensorMode tensor_mode = TensorMode::one_d;
  int tp_depth = 1;  // of two_and_half_d: tp is side^2 times it

  // Between products each rank of a one-dimensional tp group holds its share of the tokens instead
  // of all (V. Korthikanti et al. 2022, "sequence parallelism").
  bool tp_sequence = true;

  // How many neighbours among the head_ranks() hold the same keys and values, if their number does
  // not divide the model's K/V heads (layout/heads.h). Follows from the model.
  int key_value_replicas = 1;

  SequenceMode sequence_mode = SequenceMode::ring;

  // The most rows of a vocabulary's table, of those on this rank, that are one parameter, so that
  // no more of the table need be on the device at once. 0: all rows are one parameter.
  int64_t table_rows = 0;

  int size(Axis axis) const;
  int world_size() const { return pp * dp * sp * tp; }

  int num_stages() const { return pp * pp_chunks; }
  int stage_rank(int stage) const;  // along pp
  // The stage that has this block of the model.
  int stage_of_block(int64_t block) const;
  // The blocks of a stage, in a model of so many.
  Range blocks_of_stage(int stage, int64_t blocks) const;

  // Returns q, the ranks along each dim of the square or cube of the tensor mode; with one_d, tp.
  // tp must fit the mode.
  int tensor_side() const;
  // Returns tp for a given side.
  int tp_of_side(int side) const;
  // How many ranks of tp share out attention heads: tensor_side(). They are neighbours.
  int head_ranks() const { return tensor_side(); }
  // Returns tp as a product of axes, outermost first: "tp"; "tp.depth", "tp.row", "tp.column";
  // "tp.i", "tp.j", "tp.l". With key_value_replicas the last of them in two factors, ".kv" and
  // ".query".
  std::vector<std::pair<std::string, int>> tensor_axes() const;
  // Returns dp and sp as products of axes, outermost first: "dp", "sp"; with a zero_group one of
  // them is "dp.replica", "dp.shard", or "sp.replica", "sp.shard".
  std::vector<std::pair<std::string, int>> data_axes() const;
  // Returns those of data_axes() along which ranks hold the same shard in different groups; none
  // without a zero_group.
  std::vector<std::string_view> replica_axes() const;

  // How many ranks hold all experts of a layer once.
  int expert_ranks() const { return ep * expert_tp; }
  // Returns dp x sp x tp once more, as experts regroup it, outermost first: "expert_dp", along
  // which ranks hold the same, "ep" and "expert_tp". With a zero_group the first is
  // "expert_dp.replica" and "expert_dp.shard": the ranks of a zero_group, with all of their tp,
  // that hold the same experts share out their state; where experts reach over several such groups,
  // that is each rank by itself.
  std::vector<std::pair<std::string, int>> expert_axes() const;
};

// Completes and checks the sizes for `ranks` ranks; dp_given: false infers dp from the rest. Throws
// LayoutError.
Strategy resolve_strategy(Strategy strategy, bool dp_given, int ranks);

}  // namespace colossal
