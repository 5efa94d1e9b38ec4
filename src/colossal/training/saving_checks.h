// Checks before the first step that a run can save its checkpoints: that the shards of its ranks
// make whole files, and that the disk has room for them. A run that cannot save would otherwise
// find out only after its steps.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "colossal/checkpoint/save_proof.h"
#include "colossal/job/job.h"
#include "colossal/memory/chunk_engine.h"
#include "colossal/mesh/parallel_context.h"

namespace colossal {

// Throws ConfigError on all ranks if the ranks' shards do not have each byte of a checkpoint
// exactly once (checkpoint::SaveProof). The message names the tensor, and the nearest settings with
// which a dry run of all ranks can save. Reads no values. Collective.
void require_savable(const Job& job, const memory::ChunkEngine& chunks,
                     const ParallelContext& context);

// The checkpoints that a run will save in a folder.
struct ExpectedSaves {
  std::filesystem::path folder;  // checkpoint.directory
  int64_t bytes = 0;             // of a checkpoint
  int64_t count = 0;             // number of checkpoints that the run will still save
  int64_t keep = 1;              // checkpoint.keep; 0: all
  int64_t keep_best = 0;         // checkpoint.keep_best
};
// Checks that the disk has room for a checkpoint. Throws IoError if not. Logs a warning if it has
// room for one, but not for all that the folder will hold at once: checkpoint.keep of them, the
// best ones, and the next one. Does nothing if the file system does not say how much is free.
void require_space(const ExpectedSaves& saves);

// Return what a dry run of the job finds out, on meta tensors: the bytes of the tensors of a
// checkpoint; and what is wrong with the shards of all ranks, "" if they can be saved.
int64_t checkpoint_bytes(const Job& job);
std::string saving_error(const Job& job);

}  // namespace colossal
