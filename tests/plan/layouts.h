// Small jobs at any layout, and their real step: ranks as threads.
#pragma once

#include <string>
#include <vector>

#include "colossal/data/batch.h"
#include "colossal/job/job.h"
#include "colossal/plan/recorded_step.h"

namespace colossal::test {

struct PlannedRun {
  std::string family = "gpt2";  // or "llama", "mixtral", "t5", "bart", "vit"
  bool reconstructs = false;    // of "vit": masked patches
  int pp = 1, dp = 1, sp = 1, tp = 1;
  std::string pp_schedule = "1f1b";
  std::string tp_mode = "1d";
  std::string sp_mode = "ring";
  bool tp_sequence = true;
  int zero = 0;
  std::string accumulate = "sharded", recompute = "none";
  int64_t num_micro_batches = 1;
  double dropout = 0;  // GPT-2's
  std::string compute = "fp32", gradients = "auto";
  memory::Tiers tiers = {};
  int64_t table_rows = 0;
  bool separate_documents = false;
  int64_t ep = 1, expert_tp = 1, expert_copies = 0;  // of a family with experts
  int64_t experts_chosen = 2;                        // by a token
  std::vector<int64_t> expert_rows = {};             // of each block; empty: unknown
  int64_t hidden = 0;                                // of GPT-2; 0: as `large` says
  bool large = false;  // several MiB of activations; else sizes that divide by nothing convenient

  int ranks() const { return pp * dp * sp * tp; }
};

std::ostream& operator<<(std::ostream& out, const PlannedRun& layout);

Job job_of(const PlannedRun& layout);

// A replica's micro-batches of random tokens, on the CPU.
std::vector<data::Batch> real_batches(const Job& job);

// A real step on the CPU, by rank.
std::vector<plan::RecordedStep> real_steps(const Job& job);

}  // namespace colossal::test
