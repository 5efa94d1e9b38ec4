#include "colossal/training/run_decisions.h"

#include "colossal/base/log.h"
#include "colossal/checkpoint/all_or_none.h"
#include "colossal/checkpoint/checkpoint.h"
#include "colossal/checkpoint/run_folder.h"
#include "colossal/comm/group.h"
#include "colossal/training/log_folder.h"
#include "colossal/training/used_settings.h"

namespace colossal {

nlohmann::json describe(const Precision& precision) {
  return {{"compute", type_name(precision.compute)}, {"gradients", type_name(precision.gradient)}};
}

Job decide_precision(Job job, const ParallelContext& context,
                     const std::optional<std::filesystem::path>& start) {
  const std::string mine = describe(job.precision).dump();
  const std::string first =
      comm::gather_bytes(mine, context.world_group(), comm::Reason::control).front();
  const nlohmann::json before =
      start ? checkpoint::read_state(*start).at("precision") : nlohmann::json::parse(first);
  PrecisionConfig precision = job.config.precision;
  if (precision.compute == "auto") precision.compute = before.at("compute");
  job.precision =
      resolve_precision(precision, /*bf16_instructions=*/false, job.num_micro_batches());
  const nlohmann::json now = describe(job.precision);
  for (const char* key : {"compute", "gradients"}) {
    if (!start || context.rank() != 0 || now.at(key) == before.at(key)) continue;
    log::info("precision.{} is {} from here on; until {} it was {}", key,
              now.at(key).get<std::string>(), start->filename().string(),
              before.at(key).get<std::string>());
  }
  return job;
}

Job decide_log_folder(Job job, const ParallelContext& context, RunFolders& folders) {
  const auto start = folders.start();
  const std::string answer = checkpoint::on_first_rank(context.world_group(), [&] {
    job.run = folders.checkpoints() ? folders.checkpoints()->run() : checkpoint::draw_run_id();
    const bool is_done =
        start && checkpoint::read_state(*start).at("step").get<int64_t>() >= job.config.train.steps;
    std::filesystem::path folder = job.config.log.directory;
    if (!folder.empty() && !is_done) {
      folder = find_log_folder(folder, job.run, start.has_value(), run_file(job, job.run));
    }
    return nlohmann::json::array(
               {job.run, folder.lexically_relative(job.config.log.directory).string()})
        .dump();
  });
  const nlohmann::json found = nlohmann::json::parse(answer);
  job.run = found.at(0);
  std::string& directory = job.config.log.directory;  // which may differ between hosts
  const std::string subfolder = found.at(1);
  if (directory.empty() || subfolder.empty() || subfolder == ".") return job;
  directory = (std::filesystem::path(directory) / subfolder).string();
  std::error_code ignored;  // who writes there reports it
  std::filesystem::create_directories(directory, ignored);
  return job;
}

}  // namespace colossal
