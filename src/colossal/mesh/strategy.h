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

// From the outermost to the innermost: neighbours in rank are neighbours along tp.
enum class Axis { pp, dp, sp, tp };
inline constexpr Axis kAxes[] = {Axis::pp, Axis::dp, Axis::sp, Axis::tp};
const char* axis_name(Axis axis);

// How attention sees a sequence that several ranks share. ring (H. Liu et al. 2023): each rank its
// queries, to whom the keys and values of all come round; ulysses (S. A. Jacobs et al. 2023): the
// tokens of all for some of the heads.
enum class SequenceMode { ring, ulysses };

// How the ranks of tp hold a tensor. one_d: a weight is cut along one of its dims (M. Shoeybi et
// al. 2019). two_d: weights and activations are cut into q x q blocks (Q. Xu and Y. You 2021, by R.
// van de Geijn and J. Watts' SUMMA 1997). two_and_half_d: depth of such layers, which share weights
// and divide sequences (B. Wang et al. 2021, "Tesseract"). three_d: q x q x q (Z. Bian et al.
// 2021).
enum class TensorMode { one_d, two_d, two_and_half_d, three_d };
const char* tensor_mode_name(TensorMode mode);  // "1d", "2d", "2.5d", "3d"

// Settings that do not go together on so many ranks. what() says which and why; what would go
// together depends on the model and the batch as well (booster/nearest_layout.h).
class LayoutError : public ConfigError {
 public:
  using ConfigError::ConfigError;
};

struct Strategy {
  int pp = 1;  // ranks of a pipeline
  int dp = 1;  // replicas
  int sp = 1;  // parts of a sequence
  int tp = 1;  // parts of a tensor
  int ep = 1;  // parts of the experts: divides dp * sp * tp, does not multiply

  // Stages of the pipeline that each of its ranks holds, and the rank of each stage, along pp;
  // empty: stage s is on rank s.
  int pp_chunks = 1;
  std::vector<int> stage_ranks;
  // In which order a rank works on its stages: as parallel/pipeline/schedule_file.h takes it.
  std::string pp_schedule = "1f1b";
  // The model's blocks of each stage, in model order; empty: one stage has all. The first stage has
  // the embedding too, the last one the head.
  std::vector<int64_t> stage_blocks;

  // ZeRO (Rajbhandari et al. 2020): what is sharded over the ranks that hold the same parameters.
  // 0: nothing; 1: the optimizer's state; 2: gradients too; 3: weights too.
  int zero = 0;
  // How many neighbours of those ranks, counted over dp x sp, share it out: the groups of so many
  // hold the same ("hybrid sharding", Y. Zhao et al. 2023). 0: all of them, one group.
  int zero_group = 0;

  TensorMode tensor_mode = TensorMode::one_d;
  int tp_depth = 1;  // of two_and_half_d: tp is side^2 times it

  // Between the blocks of a one-dimensional tp group each rank holds its share of the tokens, not
  // all of them (V. Korthikanti et al. 2022, "sequence parallelism").
  bool tp_sequence = true;

  // Neighbours among the head_ranks() that hold the same keys and values, where those do not divide
  // the model's heads of them (layout/heads.h). Follows from the model.
  int key_value_replicas = 1;

  SequenceMode sequence_mode = SequenceMode::ring;

  // Of a vocabulary's tables, most rows of this rank's that are one parameter, so that no more of a
  // table need be here at once. 0: all of them.
  int64_t table_rows = 0;

  int size(Axis axis) const;
  int world_size() const { return pp * dp * sp * tp; }

  int num_stages() const { return pp * pp_chunks; }
  int stage_rank(int stage) const;  // along pp
  // The stage that has this block of the model.
  int stage_of_block(int64_t block) const;
  // The blocks of a stage, in a model of so many.
  Range blocks_of_stage(int stage, int64_t blocks) const;

  // Ranks along each dim of the square or cube of a tensor mode: q; of one_d, tp. tp must fit.
  int tensor_side() const;
  // tp with such a side.
  int tp_of_side(int side) const;
  // The ranks of tp that share out attention heads are as many as tensor_side(). They are
  // neighbours.
  int head_ranks() const { return tensor_side(); }
  // tp as a product of axes, outermost first: "tp"; "tp.depth", "tp.row", "tp.column"; "tp.i",
  // "tp.j", "tp.l". With key_value_replicas the last of them in two factors, ".kv" and ".query".
  std::vector<std::pair<std::string, int>> tensor_axes() const;
  // dp and sp as products of axes, outermost first: "dp", "sp"; with a zero_group one of them is
  // "dp.replica", "dp.shard", or "sp.replica", "sp.shard".
  std::vector<std::pair<std::string, int>> data_axes() const;
  // Of data_axes(), those whose ranks have the same share in different groups; none without a
  // zero_group.
  std::vector<std::string_view> replica_axes() const;
};

// Completes and checks the sizes for `ranks` ranks; dp_given: false infers dp from the rest. Throws
// LayoutError.
Strategy resolve_strategy(Strategy strategy, bool dp_given, int ranks);

}  // namespace colossal
