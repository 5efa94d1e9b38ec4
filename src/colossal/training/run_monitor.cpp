#include "colossal/training/run_monitor.h"

#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "colossal/base/error.h"
#include "colossal/base/log.h"
#include "colossal/base/machine.h"
#include "colossal/base/units.h"
#include "colossal/io/file.h"
#include "colossal/ops/fallback/fallbacks.h"
#include "colossal/ops/product/gemm_rate.h"
#include "colossal/training/run_summary.h"
#include "colossal/training/used_settings.h"

namespace colossal {
namespace {

constexpr std::chrono::milliseconds kGemmMeasurement{100};
constexpr std::chrono::seconds kFirstReport{2}, kBetweenReports{60};

// Peak resident memory, peak of the device, fallbacks, resident memory before the model, and
// tensors by kind.
constexpr int64_t kRankFigures = 4 + static_cast<int64_t>(memory::kNumMemoryKinds);

// For each tier: bytes stored, and for each kind of memory the bytes moved to and from the tier.
constexpr int64_t kTierFigures = 1 + 2 * static_cast<int64_t>(std::size(memory::kTieredKinds));

// Keeps the figures of the rank whose tensors take the most memory.
void note_tensors(const memory::BytesByKind& kinds, double base, report::StepMetrics& metrics) {
  const auto counted = static_cast<double>(kinds.total());
  if (counted <= metrics.memory_at_peak) return;  // false for the initial NaN
  metrics.memory_at_peak = counted;
  metrics.memory_base_bytes = base;
  for (size_t kind = 0; kind < memory::kNumMemoryKinds; ++kind) {
    const char* const name = memory_kind_name(static_cast<memory::MemoryKind>(kind));
    metrics.memory_by_kind[name] = static_cast<double>(kinds.bytes[kind]);
  }
}

}  // namespace

int64_t num_rank_figures(const ParallelContext& context) {
  const auto tiers = static_cast<int64_t>(std::size(memory::kTiersOffDevice));
  return kRankFigures + tiers * kTierFigures + static_cast<int64_t>(context.ledger_axes().size());
}

RunMonitor::RunMonitor(const Job& job, const ParallelContext& context, Engine& engine,
                       std::vector<std::string> shown_metrics, StepMemory& memory)
    : job_(job),
      context_(context),
      engine_(engine),
      shown_metrics_(std::move(shown_metrics)),
      memory_(memory),
      writes_(context.rank() == 0),
      sent_before_(sent_so_far()) {
  const comm::Group& all = context.world_group();
  figures_group_ =
      context.device().is_cuda() ? context.world().host_group(all.axis(), all.ranks()) : all;
}

// Measures on all ranks at once, as they compute in training: cores may share a clock or a cache.
void RunMonitor::measure_gemm_rate() {
  const at::Tensor rate = at::full(
      {1}, ops::measure_gemm_rate(job_.precision.compute, kGemmMeasurement, context_.device()),
      at::TensorOptions(at::kDouble).device(context_.world_group().device()));
  comm::all_reduce(rate, context_.world_group(), comm::Reason::metrics);
  gemm_flops_ = comm::on_host(rate, context_.world_group()).item<double>();
}

void RunMonitor::start(int64_t steps_done) {
  measure_gemm_rate();
  start_ = Clock::now();
  next_report_ = start_ + kFirstReport;
  sent_before_ = sent_so_far();
  moved_before_ = engine_.chunks().tier_traffic();
  if (!writes_) return;
  log::info("{}", describe_run(job_, context_, engine_, gemm_flops_));
  const int64_t steps = job_.config.train.steps, profiled = job_.config.log.profile;
  if (steps_done >= steps) return;
  open_logs();
  if (profiled > 0 && steps - steps_done < profiled + kStepsBeforeProfile) {
    log::warn("log.profile = {}: only {} steps are left, of which the first {} are not profiled",
              profiled, steps - steps_done, kStepsBeforeProfile);
  }
  progress_ = std::make_unique<ProgressLine>("training", steps_done, steps, "steps",
                                             standard_progress_output(), job_.config.log.every);
}

void RunMonitor::open_logs() {
  const LogConfig& config = job_.config.log;
  log_ = std::make_unique<MetricsLog>(job_);
  if (config.directory.empty()) return;
  try {
    io::write_file_atomically(std::filesystem::path(config.directory) / kRunFile,
                              run_file(job_, job_.run));
  } catch (const IoError& error) {
    log::warn("training continues, without {}: {}", kRunFile, error.what());
  }
}

void RunMonitor::profile() {
  const int64_t steps = job_.config.log.profile;
  const int64_t done = steps_begun_++ - kStepsBeforeProfile;
  if (steps == 0) return;
  if (done == 0) {
    profiler_ =
        std::make_unique<Profiler>(job_.config.log.directory, context_.rank(), context_.device());
    timeline_ = std::make_unique<RunTimeline>(engine_);
  }
  if (done == steps) end_profile(steps);
}

// Traffic of the timeline itself is not counted as a step's.
std::vector<RankTimes> RunMonitor::gather_timeline() {
  const std::map<std::string, int64_t> before = sent_so_far();
  std::vector<RankTimes> ranks = timeline_->finish();
  for (const auto& [axis, bytes] : sent_so_far()) sent_before_[axis] += bytes - before.at(axis);
  return ranks;
}

void RunMonitor::end_profile(int64_t steps) {
  if (!profiler_) return;
  try {
    const std::string tables = profiler_->stop(steps);
    if (writes_) log::info("profile of {}", tables);
  } catch (const IoError& error) {
    log::warn("training continues, but its profile is lost: {}", error.what());
  }
  profiler_.reset();
  std::vector<RankTimes> ranks = gather_timeline();
  if (!writes_) return;
  try {
    log::info("{}", write_timeline(std::move(ranks), engine_, job_.config.log.directory));
  } catch (const IoError& error) {
    log::warn("training continues, but its timeline is lost: {}", error.what());
  }
}

void RunMonitor::begin_step() {
  profile();
  memory_.begin_step();
  step_seconds_.reset();
  evaluation_seconds_.reset();
  step_start_ = Clock::now();
}

void RunMonitor::end_clock() {
  if (step_seconds_) return;
  memory_.end_step();
  flush();
  step_seconds_ = std::chrono::duration<double>(Clock::now() - step_start_).count();
}

void RunMonitor::begin_evaluation(int64_t total) {
  end_clock();
  evaluation_start_ = Clock::now();
  if (!writes_ || total == 0) return;
  evaluation_progress_ =
      std::make_unique<ProgressLine>("evaluating", 0, total, name_of_samples(job_));
}

void RunMonitor::evaluated(int64_t done) {
  if (evaluation_progress_) evaluation_progress_->update(done);
}

void RunMonitor::end_evaluation() {
  evaluation_progress_.reset();
  const Clock::duration pause = Clock::now() - evaluation_start_;
  evaluation_seconds_ = std::chrono::duration<double>(pause).count();
  if (progress_) progress_->exclude(pause);
}

void RunMonitor::add_samples(int64_t step, const std::vector<report::TextSample>& samples) {
  samples_ = samples;
  samples_step_ = step;
  for (const report::TextSample& sample : samples) {
    log::info("step {}: {}{}", step, sample.prompt, sample.completion);
  }
  if (job_.config.log.directory.empty()) return;
  try {
    report::OutputFile file(std::filesystem::path(job_.config.log.directory) / "samples.jsonl",
                            report::OutputFile::Mode::append);
    for (const report::TextSample& sample : samples) {
      const nlohmann::ordered_json line{
          {"step", step}, {"prompt", sample.prompt}, {"completion", sample.completion}};
      file.write(line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + '\n');
    }
  } catch (const IoError& error) {
    log::warn("training continues, but samples are lost: {}", error.what());
  }
}

std::map<std::string, int64_t> RunMonitor::sent_so_far() const {
  std::map<std::string, int64_t> sent;  // the same axes on all ranks, used or not
  for (const std::string& axis : context_.ledger_axes()) sent[axis] = 0;
  for (const auto& [axis, traffic] : context_.world().ledger().by_axis()) {
    if (axis == kSetUpAxis) continue;
    const auto found = sent.find(axis);
    COLOSSAL_CHECK(found != sent.end(), "traffic on {}, which is no axis of the mesh", axis);
    found->second = traffic.law_bytes;
  }
  return sent;
}

void RunMonitor::end_step(const StepResult& result, std::optional<double> validation_loss) {
  end_clock();
  const double seconds = *step_seconds_;
  const auto units = static_cast<double>(result.units);
  const double tokens = reads_images() ? units * static_cast<double>(job_.sequence_length) : units;
  const double flops = tokens * job_.model.facts.flops_per_token(job_.sequence_length);
  pending_.emplace();
  pending_->step = result.step;
  pending_->loss = result.loss;
  pending_->grad_norm = result.grad_norm;
  pending_->learning_rate = result.learning_rate;
  pending_->tokens = tokens;
  pending_->tokens_per_second = pending_->tokens / seconds;
  pending_->step_seconds = seconds;
  pending_->model_flops_utilization = flops / seconds / gemm_flops_;
  pending_->memory_peak_bytes = 0;
  pending_->skipped = result.skipped;
  pending_->task_metrics = result.metrics;
  if (reads_images()) {
    pending_->images = units;
    pending_->images_per_second = units / seconds;
  }
  count_rows(result.expert_rows);
  if (validation_loss) pending_->validation_loss = *validation_loss;
  if (evaluation_seconds_) pending_->evaluation_seconds = *evaluation_seconds_;
  exchange();
  if (!writes_) return;
  show(*pending_);
  keep_report();
}

int64_t* RunMonitor::pack_tier_metrics(int64_t* figure) {
  const memory::ChunkEngine& chunks = engine_.chunks();
  memory::TierPools::Traffic moved = chunks.tier_traffic();
  for (const memory::Tier tier : memory::kTiersOffDevice) {
    *figure++ = chunks.at_rest(tier).total();
    for (const memory::MemoryKind kind : memory::kTieredKinds) {
      const memory::TierTraffic now = moved[{tier, kind}], before = moved_before_[{tier, kind}];
      *figure++ = now.to - before.to;
      *figure++ = now.from - before.from;
    }
  }
  moved_before_ = std::move(moved);
  return figure;
}

// Each figure is the maximum over the ranks.
const int64_t* RunMonitor::unpack_tier_metrics(const int64_t* figure) {
  const auto raise = [](double& most, int64_t bytes) {
    most = std::max(most, static_cast<double>(bytes));
  };
  for (const memory::Tier tier : memory::kTiersOffDevice) {
    report::TierMetrics& metrics = pending_->tiers[tier_name(tier)];
    raise(metrics.at_rest, *figure++);
    for (const memory::MemoryKind kind : memory::kTieredKinds) {
      const int64_t to = *figure++, from = *figure++;
      if (to == 0 && from == 0) continue;
      report::TierMetrics::Moved& moved = metrics.moved[memory_kind_name(kind)];
      raise(moved.to, to);
      raise(moved.from, from);
    }
  }
  return figure;
}

// Gathers memory and traffic of all ranks while the next step runs. The step's line is written when
// they have arrived, so no step waits for them.
void RunMonitor::exchange() {
  const std::map<std::string, int64_t> sent = sent_so_far();
  const comm::Group& group = figures_group_;
  const int64_t figures = num_rank_figures(context_);
  figures_ = at::zeros({group.size() * figures}, at::kLong);
  int64_t* mine = figures_.mutable_data_ptr<int64_t>() + group.rank() * figures;
  *mine++ = machine::peak_resident_bytes();
  *mine++ = memory_.device_peak_bytes();
  const int64_t fallbacks = ops::num_fallbacks();
  *mine++ = fallbacks - std::exchange(fallbacks_before_, fallbacks);
  *mine++ = memory_.base_bytes();
  mine = std::ranges::copy(memory_.peak().value_or(memory::BytesByKind{}).bytes, mine).out;
  mine = pack_tier_metrics(mine);
  for (const auto& [axis, bytes] : sent) {
    *mine++ = bytes - sent_before_[axis];
    pending_->bytes_sent[axis] = 0;
  }
  sent_before_ = sent;
  const std::vector<int64_t> counts(group.size(), figures);
  figures_gathered_ = comm::all_gather_async(figures_, counts, group, comm::Reason::metrics);
}

void RunMonitor::flush() {
  if (!pending_) return;
  figures_gathered_.wait();
  const int64_t* figure = figures_.const_data_ptr<int64_t>();
  for (int rank = 0; rank < context_.world_group().size(); ++rank) {
    pending_->memory_peak_bytes =
        std::max(pending_->memory_peak_bytes, static_cast<double>(*figure++));
    const auto device_peak = static_cast<double>(*figure++);
    const auto fallbacks = static_cast<double>(*figure++);
    if (!context_.device().is_cpu()) {
      pending_->device_peak_bytes = std::fmax(pending_->device_peak_bytes, device_peak);
      pending_->fallbacks = std::fmax(pending_->fallbacks, fallbacks);
    }
    const auto base = static_cast<double>(*figure++);
    memory::BytesByKind kinds;
    std::copy_n(figure, kinds.bytes.size(), kinds.bytes.begin());
    figure += kinds.bytes.size();
    if (memory_.peak()) note_tensors(kinds, base, *pending_);
    figure = unpack_tier_metrics(figure);
    for (auto& [axis, bytes] : pending_->bytes_sent) {
      bytes = std::max(bytes, static_cast<double>(*figure++));
    }
  }
  std::erase_if(pending_->bytes_sent, [](const auto& sent) { return sent.second == 0; });
  std::erase_if(pending_->tiers, [](const auto& tier) {
    return tier.second.at_rest == 0 && tier.second.moved.empty();
  });
  if (log_) log_->write(*pending_);
  pending_.reset();
}

// Tokens and FLOPs per second follow from the steps per second, because all steps are alike.
void RunMonitor::show(const report::StepMetrics& metrics) {
  const std::string validation = std::isnan(metrics.validation_loss)
                                     ? ""
                                     : fmt::format(" (validation {:.4f})", metrics.validation_loss);
  std::string task_metrics;
  for (const std::string& name : shown_metrics_) {
    const auto found = metrics.task_metrics.find(name);
    if (found == metrics.task_metrics.end()) continue;
    task_metrics += fmt::format(" | {} {:.4g}", name, found->second);
  }
  const double tokens = metrics.tokens;
  const bool images = reads_images();
  const double units = images ? metrics.images : tokens;
  const double gemm_share =
      tokens * job_.model.facts.flops_per_token(job_.sequence_length) / gemm_flops_;
  progress_->update(metrics.step, [=, loss = metrics.loss](double steps_per_second) {
    return fmt::format(
        "loss {:.4f}{}{} | {} | {:.0f} % of GEMM | {}", loss, validation, task_metrics,
        format_rate(steps_per_second * units, images ? "images" : "tokens"),
        100 * steps_per_second * gemm_share, format_bytes(machine::peak_resident_bytes()));
  });
}

// Writes the report from time to time, so that a run that is killed leaves one. The pause grows
// with the run, up to a minute; it is at least 50 times as long as the writing.
void RunMonitor::keep_report() {
  if (!job_.config.log.report || job_.config.log.directory.empty()) return;
  const Clock::time_point begin = Clock::now();
  if (begin < next_report_) return;
  write_report();
  const Clock::time_point end = Clock::now();
  const Clock::duration pause =
      std::clamp<Clock::duration>((end - start_) / 4, kFirstReport, kBetweenReports);
  next_report_ = end + std::max(pause, 50 * (end - begin));
}

void RunMonitor::write_report() {
  if (!log_ || !job_.config.log.report || job_.config.log.directory.empty()) return;
  try {
    colossal::write_report({.job = job_,
                            .context = context_,
                            .gemm_flops = gemm_flops_,
                            .step_memory = memory_.second_step(),
                            .expert_rows = expert_rows_,
                            .samples = samples_,
                            .pictures = pictures_,
                            .samples_step = samples_step_});
  } catch (const IoError& error) {
    if (!report_failed_) log::warn("the run goes on, without a report: {}", error.what());
    report_failed_ = true;
  }
}

void RunMonitor::count_rows(const RowsOfExperts& of_step) {
  if (of_step.empty()) return;
  ++steps_of_expert_rows_;
  expert_rows_.resize(of_step.size());
  for (size_t block = 0; block < of_step.size(); ++block) {
    expert_rows_[block].resize(std::max(expert_rows_[block].size(), of_step[block].size()));
    for (size_t expert = 0; expert < of_step[block].size(); ++expert) {
      expert_rows_[block][expert] += of_step[block][expert];
    }
  }
}

void RunMonitor::keep_routing() {
  if (!writes_ || expert_rows_.empty() || job_.config.log.directory.empty()) return;
  try {
    write_routing(std::filesystem::path(job_.config.log.directory) / "routing.json", expert_rows_,
                  steps_of_expert_rows_);
  } catch (const IoError& error) {
    if (!routing_failed_) log::warn("training continues, without routing.json: {}", error.what());
    routing_failed_ = true;
  }
}

void RunMonitor::prepare_checkpoint() {
  flush();
  keep_routing();
}

void RunMonitor::finish(bool failed) {
  flush();
  keep_routing();
  end_profile(steps_begun_ - kStepsBeforeProfile);
  if (progress_) progress_->finish();
  if (log_) log_->end(failed);
  write_report();
}

void RunMonitor::abandon() {
  if (!log_) return;
  if (pending_) {
    pending_->bytes_sent.clear();  // those of other ranks have not arrived
    pending_->tiers.clear();
    pending_->memory_peak_bytes = static_cast<double>(machine::peak_resident_bytes());
    log_->write(*pending_);
    pending_.reset();
  }
  progress_.reset();
  log_->end(/*failed=*/true);
  write_report();
}

}  // namespace colossal
