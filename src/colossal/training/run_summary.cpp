#include "colossal/training/run_summary.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "colossal/base/cpu_features.h"
#include "colossal/base/machine.h"
#include "colossal/base/units.h"
#include "colossal/job/mask_config.h"
#include "colossal/report/run_report.h"
#include "colossal/training/used_settings.h"

namespace colossal {
namespace {

std::vector<report::Setting> settings(const Job& job) {
  std::vector<report::Setting> settings;
  for (const UsedSetting& used : used_settings(job)) {
    const size_t dot = used.key.find('.');
    settings.push_back(
        {used.key.substr(0, dot), used.key.substr(dot + 1), used.value, used.source});
  }
  return settings;
}

// Returns "2 + 2 + 3", in model order; "32 x 4" for many equal stages.
std::string describe_stage_layers(const Strategy& strategy, int64_t layers) {
  constexpr int kMostListed = 16;
  std::vector<int64_t> sizes;
  for (int stage = 0; stage < strategy.num_stages(); ++stage) {
    sizes.push_back(strategy.blocks_of_stage(stage, layers).size());
  }
  const bool alike = std::ranges::count(sizes, sizes.front()) == std::ssize(sizes);
  return alike && strategy.num_stages() > kMostListed
             ? fmt::format("{} x {}", sizes.size(), sizes.front())
             : fmt::format("{}", fmt::join(sizes, " + "));
}

std::string describe_pipeline(const Job& job) {
  const Strategy& strategy = job.strategy;
  if (strategy.pp == 1) return "";
  const int64_t micro_batches = job.num_micro_batches();
  return fmt::format("pp {} ({}, layers {}, {} micro-batch{}) x ", strategy.pp,
                     strategy.pp_schedule, describe_stage_layers(strategy, job.model.facts.layers),
                     micro_batches, micro_batches == 1 ? "" : "es");
}

}  // namespace

std::string describe_layout(const Job& job) {
  const Strategy& strategy = job.strategy;
  const std::string sp =
      strategy.sp == 1 ? ""
                       : fmt::format(" x sp {} ({})", strategy.sp, job.config.parallel.sp_mode);
  const std::string mode =
      strategy.tp_sequence ? "tokens shared"
      : strategy.tp_depth > 1
          ? fmt::format("{}, depth {}", job.config.parallel.tp_mode, strategy.tp_depth)
          : job.config.parallel.tp_mode;
  const std::string tp = strategy.tp == 1 ? "" : fmt::format(" x tp {} ({})", strategy.tp, mode);
  const std::string parts =
      strategy.expert_tp == 1 ? "" : fmt::format(" x {} parts", strategy.expert_tp);
  const std::string ep =
      strategy.expert_ranks() == 1 ? "" : fmt::format(" | experts over {}{}", strategy.ep, parts);
  const std::string recompute =
      job.recompute == memory::Recompute{}
          ? ""
          : " | recompute " + describe_recompute(job.recompute, job.model.facts.layers);
  const std::string group =
      strategy.zero_group == 0 ? "" : fmt::format(" in groups of {}", strategy.zero_group);
  return fmt::format("{}dp {}{}{}{} | ZeRO {}{}{} | {} {} of {} tokens a step, {} a forward",
                     describe_pipeline(job), strategy.dp, sp, tp, ep, strategy.zero, group,
                     recompute, job.config.train.global_batch, name_of_samples(job),
                     job.sequence_length, job.micro_batch);
}

const char* name_of_samples(const Job& job) {
  return job.model.transformer.patches ? "images" : "sequences";
}

std::string describe_recompute(const memory::Recompute& recompute, int64_t layers) {
  if (recompute.full_blocks >= layers) return "full";
  const std::string full = recompute.full_blocks == 0
                               ? ""
                               : fmt::format("{} of {} layers", recompute.full_blocks, layers);
  if (!recompute.selective) return full.empty() ? "none" : full;
  return full.empty() ? "selective" : "selective and " + full;
}

std::string describe_precision(const Precision& precision) {
  return fmt::format("compute {}, masters {}, gradients {}", type_name(precision.compute),
                     type_name(precision.master), type_name(precision.gradient));
}

// Describes what a rank holds, by tier.
std::string describe_states(const memory::ChunkEngine& chunks) {
  std::string text;
  for (const memory::Tier tier : {memory::Tier::device, memory::Tier::host, memory::Tier::nvme}) {
    const memory::ChunkEngine::StateBytes bytes = chunks.state_bytes(tier);
    if (tier != memory::Tier::device && bytes.total() == 0) continue;
    text += fmt::format("{}{} of weights, {} of gradients, {} of optimizer state",
                        tier == memory::Tier::device
                            ? ""
                            : fmt::format("\n           on {} ", memory::tier_name(tier)),
                        format_bytes(bytes.parameters), format_bytes(bytes.gradients),
                        format_bytes(bytes.optimizer));
  }
  return text;
}

std::string describe_run(const Job& job, const ParallelContext& context, const Engine& engine,
                         double gemm_flops) {
  return fmt::format(
      "{} parameters, {} layers of {} | {} on {} rank{} of {} thread{} | {}\n"
      "           a rank holds {} | GEMM {:.0f} GFLOP/s in all",
      format_count(job.model.facts.parameters), job.model.facts.layers, job.model.facts.hidden,
      describe_layout(job), context.world().size(), context.world().size() == 1 ? "" : "s",
      job.threads, job.threads == 1 ? "" : "s", describe_precision(job.precision),
      describe_states(engine.chunks()), gemm_flops / 1e9);
}

namespace {

// What the model's head gives.
report::Fact outputs_of(const Job& job) {
  const models::TransformerConfig& model = job.model.transformer;
  if (!model.patches) return {"vocabulary", format_count(job.model.facts.vocabulary)};
  if (const auto& texts = job.model.text_tower) {
    return {"vectors", fmt::format("of {} features", texts->features)};
  }
  if (!model.reconstructs) return {"classes", format_count(job.model.facts.scores)};
  const data::ImageMaskOptions masks = resolve_masks(job.config.data, *model.patches);
  return {"masked",
          fmt::format("{} of {} blocks of {} x {} pixels", masks.num_masked(), masks.num_blocks(),
                      masks.block * model.patches->patch, masks.block * model.patches->patch)};
}

}  // namespace

void write_report(const ReportedRun& run) {
  const Job& job = run.job;
  const std::filesystem::path directory = job.config.log.directory;
  const models::ModelFacts& facts = job.model.facts;
  report::RunReport page;
  page.title = directory.filename().string();
  page.samples = run.samples;
  page.pictures = run.pictures;
  page.samples_step = run.samples_step;
  page.metrics = report::read_metrics(directory / "metrics.jsonl");
  page.step_memory = run.step_memory;
  page.expert_rows = run.expert_rows;
  page.configuration = settings(job);
  page.machine = {{"host", machine::host_name()},
                  {"CPU", machine::cpu_model_name()},
                  {"instructions", name_of(widest_instruction_set())},
                  {"cores", std::to_string(machine::available_cores())},
                  {"ranks", std::to_string(run.context.world().size())},
                  {"backend", run.context.world().backend()},
                  {"GEMM rate, all ranks", fmt::format("{:.0f} GFLOP/s", run.gemm_flops / 1e9)}};
  page.model = {{"family", facts.family},
                {"parameters", format_count(facts.parameters)},
                {"layers", std::to_string(facts.layers)},
                {"hidden size", std::to_string(facts.hidden)},
                {"heads", std::to_string(facts.heads)},
                outputs_of(job),
                {"layout", describe_layout(job)},
                {"precision", describe_precision(job.precision)}};
  if (!job.recompute_reason.empty()) page.model.push_back({"recompute", job.recompute_reason});
  if (!job.tiers_reason.empty()) page.model.push_back({"tiers", job.tiers_reason});
  report::write_run_report(directory / "report.html", page);
}

}  // namespace colossal
