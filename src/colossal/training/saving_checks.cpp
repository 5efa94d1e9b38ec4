#include "colossal/training/saving_checks.h"

#include <functional>
#include <memory>
#include <system_error>
#include <utility>
#include <vector>

#include "colossal/base/error.h"
#include "colossal/base/log.h"
#include "colossal/base/machine.h"
#include "colossal/base/units.h"
#include "colossal/checkpoint/all_or_none.h"
#include "colossal/comm/world.h"
#include "colossal/engine/engine.h"
#include "colossal/engine/state_shapes.h"
#include "colossal/io/checkpoint_directory.h"
#include "colossal/models/assembly.h"
#include "colossal/ops/fallback/meta_kernels.h"
#include "colossal/training/saved_model.h"

namespace colossal {
namespace {

checkpoint::SliceOf slice_of(const Job& job) {
  return
      [&job](const std::string& parameter) { return models::slice_in_files(job.model, parameter); };
}

// A rank of the job in a dry run, which holds its shards as meta tensors.
class DryRank {
 public:
  DryRank(const Job& job, int rank)
      : world_(comm::dry_world(rank, job.strategy.world_size())),
        context_(*world_, job.strategy, at::kMeta),
        assembly_(models::assemble(job.model, context_)),
        engine_(assembly_.parameters(), pipelined(*assembly_.model, model_source_of(job), context_),
                context_, engine_config(job)) {}

  const memory::ChunkEngine& chunks() const { return engine_.chunks(); }

 private:
  std::unique_ptr<comm::World> world_;
  ParallelContext context_;
  models::Assembly assembly_;
  Engine engine_;
};

// Other settings, of which one might be savable, those that change least first.
std::vector<std::pair<std::string, std::function<void(RunConfig&)>>> alternatives(const Job& job) {
  std::vector<std::pair<std::string, std::function<void(RunConfig&)>>> found;
  const auto add = [&](bool differs, const char* text, const std::function<void(RunConfig&)>& set) {
    if (differs) found.emplace_back(text, set);
  };
  const Strategy& layout = job.strategy;
  add(layout.table_rows > 0, "memory.table_rows = 0", [](auto& c) { c.memory.table_rows = 0; });
  add(layout.tensor_mode != TensorMode::one_d, "parallel.tp_mode = \"1d\"", [](auto& c) {
    c.parallel.tp_mode = "1d";
    c.parallel.tp_depth.reset();
  });
  add(layout.zero > 0, "parallel.zero = 0", [](auto& c) {
    c.parallel.zero = 0;
    c.parallel.zero_group = "all";
  });
  add(layout.ep > 1, "parallel.ep = 1", [](auto& c) { c.parallel.ep = 1; });
  add(layout.tp > 1, "parallel.tp = 1", [](auto& c) {
    c.parallel.tp = 1;
    c.parallel.tp_mode = "1d";
    c.parallel.tp_depth.reset();
    c.parallel.dp.reset();
  });
  add(layout.pp > 1, "parallel.pp = 1", [](auto& c) {
    c.parallel.pp = 1;
    c.parallel.dp.reset();
  });
  return found;
}

// Returns "; nearest: SETTING" if another setting can be saved.
std::string nearest_savable(const Job& job) {
  const int ranks = job.strategy.world_size();
  for (const auto& [text, change] : alternatives(job)) {
    RunConfig config = job.config;
    config.precision = {type_name(job.precision.compute), type_name(job.precision.gradient)};
    change(config);
    try {
      if (saving_error(
              resolve_job_as_given(config, {.ranks = ranks, .local_ranks = ranks}, job.given_keys))
              .empty()) {
        return fmt::format("; nearest: {}", text);
      }
    } catch (const ConfigError&) {  // these settings do not work for another reason
    }
  }
  return "";
}

}  // namespace

void require_savable(const Job& job, const memory::ChunkEngine& chunks,
                     const ParallelContext& context) {
  const checkpoint::WeightFiles files = weight_files_of(job);
  const checkpoint::FilePlan plan(chunks, slice_of(job), files);
  checkpoint::SaveProof proof(plan);
  proof.add(chunks, slice_of(job), files);
  proof.add_other_ranks(context.background_group());
  const std::string error = proof.error();  // the same on all ranks
  if (error.empty()) return;
  const std::string nearest =
      checkpoint::on_first_rank(context.background_group(), [&] { return nearest_savable(job); });
  throw ConfigError(fmt::format("this layout of the model cannot be saved: {}{}", error, nearest));
}

void require_space(const ExpectedSaves& saves) {
  std::error_code failed;
  const std::filesystem::space_info space = std::filesystem::space(saves.folder, failed);
  if (failed || space.capacity == 0 || saves.count == 0) return;
  const auto free = static_cast<int64_t>(
      std::min<uintmax_t>(space.available, std::numeric_limits<int64_t>::max()));
  const std::string found =
      fmt::format("checkpoint.directory = \"{}\" has {} of free space on host {}",
                  saves.folder.string(), format_bytes(free), machine::host_name());
  if (free < saves.bytes) {
    throw IoError(
        fmt::format("{}, and a checkpoint takes {}; free space there, or use another "
                    "checkpoint.directory",
                    found, format_bytes(saves.bytes)));
  }
  const auto there = std::ssize(io::list_checkpoints(saves.folder));
  const int64_t in_all = there + saves.count;
  const int64_t most = saves.keep == 0 ? in_all : saves.keep + saves.keep_best + 1;
  const int64_t more = std::min(most, in_all) - there;
  if (more > 1 && free / more < saves.bytes) {
    log::warn(
        "{}, but the run will need {}: a checkpoint takes {}, and {} of them are there at once "
        "(checkpoint.keep = {}, and the next one is saved before the oldest is removed)",
        found, format_bytes(more * saves.bytes), format_bytes(saves.bytes), there + more,
        saves.keep);
  }
}

int64_t checkpoint_bytes(const Job& job) {
  ops::register_meta_kernels();
  const DryRank rank(job, 0);
  return checkpoint::FilePlan(rank.chunks(), slice_of(job), weight_files_of(job)).bytes();
}

std::string saving_error(const Job& job) {
  ops::register_meta_kernels();
  const DryRank first(job, 0);
  const checkpoint::WeightFiles files = weight_files_of(job);
  const checkpoint::FilePlan plan(first.chunks(), slice_of(job), files);
  checkpoint::SaveProof proof(plan);
  proof.add(first.chunks(), slice_of(job), files);
  for (int rank = 1; rank < job.strategy.world_size(); ++rank) {
    proof.add(DryRank(job, rank).chunks(), slice_of(job), files);
  }
  return proof.error();
}

}  // namespace colossal
