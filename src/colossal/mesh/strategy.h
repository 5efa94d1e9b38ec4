// The layout of a job as a plain value: how many ranks along each axis, and what they share.
#pragma once

#include <cstdint>
#include <string>

namespace colossal {

// From the outermost to the innermost: neighbours in rank are neighbours along tp.
enum class Axis { pp, dp, sp, tp };
inline constexpr Axis kAxes[] = {Axis::pp, Axis::dp, Axis::sp, Axis::tp};
const char* axis_name(Axis axis);

// How attention sees a sequence that several ranks share. ring (H. Liu et al. 2023): each rank its
// queries, to whom the keys and values of all come round; ulysses (S. A. Jacobs et al. 2023): the
// tokens of all for some of the heads.
enum class SequenceMode { ring, ulysses };

struct Strategy {
  int pp = 1;  // pipeline stages
  int dp = 1;  // replicas
  int sp = 1;  // parts of a sequence
  int tp = 1;  // parts of a tensor
  int ep = 1;  // parts of the experts: divides dp * sp * tp, does not multiply

  // ZeRO (Rajbhandari et al. 2020): what is sharded over the ranks that hold the same parameters.
  // 0: nothing; 1: the optimizer's state.
  int zero = 0;

  // Between the blocks of a one-dimensional tp group each rank holds its share of the tokens, not
  // all of them (V. Korthikanti et al. 2022, "sequence parallelism").
  bool tp_sequence = true;

  // Neighbours along tp that hold the same keys and values, where tp does not divide the model's
  // heads of those (layout/heads.h). Follows from the model.
  int key_value_replicas = 1;

  SequenceMode sequence_mode = SequenceMode::ring;

  int size(Axis axis) const;
  int world_size() const { return pp * dp * sp * tp; }
};

// Completes and checks the sizes for `ranks` ranks; dp_given: false infers dp from the rest. Throws
// ConfigError naming the settings, what they come to and the nearest sizes that fit.
Strategy resolve_strategy(Strategy strategy, bool dp_given, int ranks);

}  // namespace colossal
