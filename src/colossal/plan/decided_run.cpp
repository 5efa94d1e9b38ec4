#include "colossal/plan/decided_run.h"

#include <array>
#include <nlohmann/json.hpp>
#include <string>

#include "colossal/base/error.h"
#include "colossal/base/log.h"
#include "colossal/comm/group.h"
#include "colossal/training/run_decisions.h"

namespace colossal::plan {
namespace {

Job decide_memory(Job job, const ParallelContext& context,
                  const std::function<Job(const Job&)>& fit) {
  const comm::Group& all = context.world_group();
  const auto tell = [&](const std::string& text) {
    return comm::gather_bytes(text, all, comm::Reason::control);
  };
  const nlohmann::json mine{job.device_budget, job.host_budget, job.memory_budget};
  for (const std::string& text : tell(mine.dump())) {
    const auto budgets = nlohmann::json::parse(text).get<std::array<int64_t, 3>>();
    job.device_budget = stricter_limit(job.device_budget, budgets[0]);
    job.host_budget = stricter_limit(job.host_budget, budgets[1]);
    job.memory_budget = stricter_limit(job.memory_budget, budgets[2]);
  }
  nlohmann::json found;
  if (context.rank() == 0) {
    try {
      job = fit(job);
      found = {{"selective", job.recompute.selective}, {"full", job.recompute.full_blocks}};
      for (const memory::MemoryKind kind : job.undecided_tiers) {
        const memory::TierShares& shares = job.tiers.of(kind);
        found["tiers"].push_back({shares.host, shares.nvme});
      }
    } catch (const ConfigError& error) {
      found = {{"error", error.what()}};
    }
  }
  found = nlohmann::json::parse(tell(found.dump()).front());
  if (found.contains("error")) throw ConfigError(found["error"].get<std::string>());
  job.recompute = {found.at("selective"), found.at("full")};
  for (size_t i = 0; i < job.undecided_tiers.size(); ++i) {
    job.tiers.of(job.undecided_tiers[i]) = {found["tiers"][i][0], found["tiers"][i][1]};
  }
  job.recompute_undecided = false;
  job.undecided_tiers.clear();
  for (const std::string& reason : {job.recompute_reason, job.tiers_reason}) {
    if (!reason.empty()) log::info("{}", reason);
  }
  return job;
}

}  // namespace

DecidedRun decide(const Job& job, const ParallelContext& context,
                  const std::function<Job(const Job&)>& fit, const std::string& memory_folder) {
  DecidedRun run{.folders = RunFolders(job, context, memory_folder), .job = job};
  run.job = decide_precision(run.job, context, run.folders.start());
  run.job = decide_memory(run.job, context, fit);
  check_nvme_folder(run.job, context);
  run.job = decide_log_folder(run.job, context, run.folders);
  return run;
}

}  // namespace colossal::plan
