// Proves before a run's first step that its ranks can save a checkpoint: that their shards together
// have each byte of the planned files exactly once, in the dtypes of the plan. A failure is found
// in set-up, not when a save has nothing left to save.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "colossal/checkpoint/file_plan.h"
#include "colossal/comm/group.h"
#include "colossal/memory/chunk_engine.h"

namespace colossal::checkpoint {

// Collects what the ranks will write, without reading any value: the chunks may be those of a dry
// run. Each rank adds what it will write; the sums over all ranks then show whether that is each
// byte exactly once. For this, a range [begin, end) of a tensor's bytes adds h(begin) - h(end),
// where h is a hash. If the ranges of all ranks meet without gap or overlap, only h(0) - h(size) is
// left.
class SaveProof {
 public:
  // `plan` must outlive this.
  explicit SaveProof(const FilePlan& plan);

  // Adds what a rank will write: the values of its shards in `chunks`. slice_of, files: those of
  // the plan.
  void add(const memory::ChunkEngine& chunks, const SliceOf& slice_of, const WeightFiles& files);
  // Adds what the other ranks of the group have added. Law: an all-reduce of 16 B for each tensor
  // of the plan, and an all-gather of the texts of errors. Collective.
  void add_other_ranks(const comm::Group& group);

  // Returns what is wrong if what was added is all that is written; "" if each byte is written
  // exactly once.
  std::string error() const;

 private:
  void add_range(const std::string& tensor, Range bytes);

  const FilePlan& plan_;
  std::vector<int64_t> bytes_, marks_;  // by the numbers of tensors
  std::string error_;                   // found on this rank alone
};

}  // namespace colossal::checkpoint
