// Writes the values that the ranks hold to the files of a checkpoint.
#pragma once

#include "colossal/checkpoint/file_plan.h"
#include "colossal/comm/group.h"
#include "colossal/io/checkpoint_directory.h"
#include "colossal/memory/chunk_engine.h"

namespace colossal::checkpoint {

// Writes the values of this rank's shards to the files of `plan`, which rank 0 has created. If
// shards consist of short ranges on any rank, the ranks exchange them first (strided_shards.h).
// slice_of, files: those of the plan. A rank whose disk fails still takes part in the exchanges,
// and throws at the end: IoError, also if a weight or master is not finite. Collective.
void write_shards(io::DirectoryWriter& writer, const FilePlan& plan,
                  const memory::ChunkEngine& chunks, const SliceOf& slice_of,
                  const WeightFiles& files, const comm::Group& group);

}  // namespace colossal::checkpoint
