// The longest sequence that trains within a budget of memory, by ranks that share it: a Llama of 8
// layers, hidden size 512, no recompute, 512 MiB a rank beside parameters, gradients and optimizer
// state. Found by dry runs: no memory of that size is needed. longest_sequence.py trains what this
// finds.
//
//   build/longest_sequence [MiB [bf16|fp32]]
#include <fmt/format.h>

#include <cstdlib>
#include <string>

#include "colossal/plan/plan.h"

namespace colossal {
namespace {

// What is asked.
struct Search {
  int64_t budget;  // bytes
  std::string type;
};

Job job_of(const Search& search, int64_t sequence, int ranks, const char* mode) {
  RunConfig config;
  config.model.preset = "llama-tiny";
  config.model.overrides = {
      {"hidden_size", 512},       {"intermediate_size", 1408},
      {"num_hidden_layers", 8},   {"num_attention_heads", 8},
      {"num_key_value_heads", 8}, {"head_dim", 64},
      {"vocab_size", 32000},      {"max_position_embeddings", int64_t{1} << 24}};
  config.data.sequence_length = sequence;
  config.parallel.sp = ranks;
  config.parallel.sp_mode = mode;
  config.train.global_batch = 1;
  config.precision.compute = search.type;
  return resolve_job(config, {.ranks = ranks});
}

// The largest of all ranks.
int64_t bytes_beside_states(const Search& search, int64_t sequence, int ranks, const char* mode) {
  int64_t most = 0;
  for (const plan::RankPlan& rank : plan::make_plan(job_of(search, sequence, ranks, mode)).ranks) {
    using memory::MemoryKind;
    const memory::BytesByKind& peak = rank.memory_at_peak;
    most = std::max(most, peak.total() - peak[MemoryKind::parameters] -
                              peak[MemoryKind::gradients] - peak[MemoryKind::optimizer]);
  }
  return most;
}

// In steps of `ranks`, so that shares stay near even.
int64_t longest_sequence(const Search& search, int ranks, const char* mode) {
  const auto is_within = [&](int64_t tokens_of_a_rank) {
    return bytes_beside_states(search, tokens_of_a_rank * ranks, ranks, mode) <= search.budget;
  };
  int64_t fits = 1, too_long = 2;
  while (is_within(too_long)) {
    fits = too_long;
    too_long *= 2;
  }
  while (too_long - fits > 1) {
    const int64_t middle = (fits + too_long) / 2;
    (is_within(middle) ? fits : too_long) = middle;
  }
  return fits * ranks;
}

void print_longest(const Search& search, int ranks, const char* mode, int64_t longest,
                   int64_t alone) {
  fmt::print("{:>4} {:>9} {:>16} {:>25.1f}% {:>11.1f}\n", ranks, mode, longest,
             100.0 * static_cast<double>(longest) / static_cast<double>(ranks * alone),
             static_cast<double>(bytes_beside_states(search, longest, ranks, mode)) / (1 << 20));
}

}  // namespace
}  // namespace colossal

int main(int argc, char** argv) {
  const colossal::Search search{.budget = (argc > 1 ? std::atoll(argv[1]) : 512) << 20,
                                .type = argc > 2 ? argv[2] : "bf16"};
  fmt::print("{:>4} {:>9} {:>16} {:>26} {:>11}\n", "sp", "mode", "longest sequence",
             "of sp times that alone", "MiB a rank");
  const int64_t alone = colossal::longest_sequence(search, 1, "ring");
  colossal::print_longest(search, 1, "ring", alone, alone);
  for (const char* mode : {"ring", "ulysses"}) {
    for (const int ranks : {2, 4, 8}) {
      const int64_t longest = colossal::longest_sequence(search, ranks, mode);
      colossal::print_longest(search, ranks, mode, longest, alone);
    }
  }
}
