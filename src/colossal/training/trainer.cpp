#include "colossal/training/trainer.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "colossal/adapters/peft_names.h"
#include "colossal/base/error.h"
#include "colossal/base/log.h"
#include "colossal/base/units.h"
#include "colossal/checkpoint/all_or_none.h"
#include "colossal/checkpoint/checkpoint.h"
#include "colossal/checkpoint/model_weights.h"
#include "colossal/engine/control.h"
#include "colossal/engine/engine.h"
#include "colossal/engine/order_recording.h"
#include "colossal/engine/state_shapes.h"
#include "colossal/io/checkpoint_directory.h"
#include "colossal/io/folder_digest.h"
#include "colossal/models/assembly.h"
#include "colossal/models/families.h"
#include "colossal/nn/layer_scope.h"
#include "colossal/training/adapter_start.h"
#include "colossal/training/contrastive_task.h"
#include "colossal/training/evaluation_history.h"
#include "colossal/training/log_folder.h"
#include "colossal/training/masked_images.h"
#include "colossal/training/run_decisions.h"
#include "colossal/training/run_folders.h"
#include "colossal/training/run_monitor.h"
#include "colossal/training/saved_model.h"
#include "colossal/training/saving_checks.h"
#include "colossal/training/training_data.h"
#include "colossal/training/used_settings.h"

namespace colossal {
namespace {

// What the names of metrics of an evaluation begin with.
const std::string kOfValidation = "validation_";

constexpr int kStateVersion = 1;

class Trainer {
 public:
  Trainer(const Job& job, const ParallelContext& context, const TrainingHooks& hooks,
          const MakeTask& make_task, RunFolders& folders)
      : job_(job),
        hooks_(hooks),
        context_(context),
        checkpoints_(folders.checkpoints()),
        memory_checkpoints_(folders.memory_checkpoints()),
        task_(make_task(job, context_, hooks.during_set_up)),
        base_digest_(job.model.adapter ? io::folder_digest(job.model.weights).model : ""),
        saved_model_(task_->saved_model()),
        memory_(context_),
        assembly_(models::assemble(job.model, context_)),
        engine_(assembly_.parameters(),
                pipelined(*assembly_.model, model_source_of(job), context_, task_->loss()),
                context_, config_of_engine()),
        monitor_(job, context_, engine_, task_->shown_metrics(), memory_),
        history_(job.config),
        prompts_(tokenize_prompts()) {
    const auto start = folders.start();
    if (checkpoints_) check_saving(start);
    // checkpoints of adapters do not contain the frozen weights
    if (!start || job_.model.adapter) make_weights(start);
    if (start) resume(*start);
    task_->begin(*assembly_.model, engine_);
  }

  TrainingSummary run() {
    engine_.before_abort([this] { finish_save_before_failure(); });
    try {
      return run_to_the_end();
    } catch (const NonFiniteError&) {  // on all ranks alike
      monitor_.finish(/*failed=*/true);
      throw;
    } catch (const std::exception& error) {
      // Now, while the groups exist: their destructors would wait for messages that no peer sends.
      monitor_.abandon();
      finish_save_before_failure();
      context_.world().abort(error.what());
      throw;
    }
  }

 private:
  TrainingSummary run_to_the_end() {
    const bool is_over = history_.ends_run();
    hooks_.set_up_done();  // who reads that the run begins can stop it after a step
    monitor_.start(is_over ? job_.config.train.steps : engine_.steps_done());
    if (engine_.steps_done() >= job_.config.train.steps) tell_done();
    if (is_over) tell_ended_early();
    data::BatchLoader loader = task_->training_loader(engine_.steps_done());
    while (engine_.steps_done() < job_.config.train.steps && !summary_.stopped &&
           !history_.ends_run()) {
      step(loader);
    }
    if (summary_.steps > 0 && history_.ends_run()) tell_ended_early();
    finish();
    return summary_;
  }

  EngineConfig config_of_engine() const {
    EngineConfig config = ordered_engine_config(job_, context_.rank(), task_->loss_to_record());
    config.metrics = task_->metrics();
    return config;
  }

  // Before anything that takes long.
  void check_saving(const std::optional<std::filesystem::path>& start) const {
    require_savable(job_, engine_.chunks(), context_);
    const CheckpointConfig& config = job_.config.checkpoint;
    const int64_t done =
        start ? checkpoint::read_state(*start).at("step").get<int64_t>() : int64_t{0};
    const int64_t left = std::max<int64_t>(0, job_.config.train.steps - done);
    const int64_t every = config.every > 0 ? config.every : std::max<int64_t>(1, left);
    checkpoint::on_first_rank(context_.background_group(), [&] {
      require_space({.folder = checkpoints_->directory(),
                     .bytes = checkpoint::bytes_of(engine_.chunks(), description()),
                     .count = (left + every - 1) / every,
                     .keep = config.keep,
                     .keep_best = config.keep_best});
      return "";
    });
  }

  void make_weights(const std::optional<std::filesystem::path>& start) {
    memory::ChunkEngine& chunks = engine_.chunks();
    std::optional<AdapterStart> begin;
    if (job_.model.adapter && job_.model.adapter->settings.pissa) {
      begin = start ? AdapterStart::of_checkpoint(job_.model, *start)
                    : AdapterStart::of_weights(job_.model, job_.precision.compute, context_);
    }
    if (job_.model.weights.empty()) {
      const std::string& folder = job_.config.model.path;
      if (!folder.empty()) log::info("random initial weights: {} contains no weights", folder);
      chunks.initialise(engine_.config().seed);
      return;
    }
    if (!job_.model.newly_initialized.empty()) {
      chunks.initialise(engine_.config().seed);
      log::info("random initial weights of {}, which {} does not have",
                fmt::join(job_.model.newly_initialized, ", "), job_.model.weights.string());
    }
    if (job_.model.adapter) chunks.initialise(engine_.config().seed, /*also_frozen=*/false);
    checkpoint::read_model(job_.model, chunks, {}, {},
                           begin ? begin->weight_residual() : checkpoint::ChangedWeights());
    log::info("weights from {}", job_.model.weights.string());
    if (job_.model.adapter) tell_adapter();
    if (job_.model.adapter && job_.model.adapter->weights.empty()) {
      set_magnitudes();
      if (begin) begin->load(chunks);
    }
  }

  // Sets the magnitudes of a new adapter with DoRA, so that it does not change the outputs at
  // first.
  void set_magnitudes() {
    memory::ChunkEngine& chunks = engine_.chunks();
    const at::NoGradGuard no_grad;
    for (int stage = 0; stage < context_.strategy().num_stages(); ++stage) {
      if (assembly_.build->magnitudes().empty() || !context_.holds_stage(stage)) continue;
      chunks.begin_evaluation(stage);
      for (const nn::Magnitudes& magnitudes : assembly_.build->magnitudes()) {
        if (magnitudes.parameter->placement.stage != stage) continue;
        nn::LayerScope scope("magnitudes");
        chunks.store_weights(*magnitudes.parameter, 0, magnitudes.initial(scope));
      }
      chunks.end_evaluation();
    }
    chunks.synchronize();
  }

  void tell_adapter() const {
    const auto [of_model, of_adapter] = adapters::split_parameters(engine_.chunks().parameters());
    int64_t trained = 0;
    for (const nn::ParameterHandle& parameter : of_adapter) {
      if (parameter->trainable) trained += parameter->numel();
    }
    const models::ModelAdapter& adapter = *job_.model.adapter;
    const std::string kind =
        adapter.prefix
            ? fmt::format("training a prefix of {} virtual tokens:", adapter.prefix->virtual_tokens)
            : fmt::format("training adapters of rank {} for {} linear layers:",
                          adapter.settings.rank, adapter.products.size());
    log::info(
        "{} {} parameters; the model's {} are frozen{}{}", kind, format_count(trained),
        format_count(job_.model.facts.parameters),
        adapter.base ? fmt::format(", weights of linear layers in {}", job_.config.adapter.base)
                     : "",
        adapter.weights.empty() ? ""
                                : fmt::format("; they start from {}", adapter.weights.string()));
  }

  void resume(const std::filesystem::path& path) {
    const nlohmann::json state = checkpoint::load(path, engine_.chunks(), description());
    check_base(path, state);
    if (context_.rank() == 0 && state.value("base_digest", base_digest_) != base_digest_) {
      log::warn(
          "model.path = \"{}\": its files have changed since this checkpoint, and the adapter was "
          "trained for the old ones: the results will differ from those of an uninterrupted run",
          job_.config.model.path);
    }
    engine_.set_steps_done(state.at("step"));
    if (context_.rank() == 0 && state.contains("settings")) {
      for (const std::string& line : changed_settings(state["settings"], job_))
        log::warn("{}", line);
    }
    if (state.contains("evaluations")) history_.restore(state["evaluations"]);
    task_->check_resumed(state.at("data"));
    task_->restore(state.at("data"));
    log::info("resumed from {} at step {}", path.string(), engine_.steps_done());
  }

  // With other frozen weights it would be another run.
  void check_base(const std::filesystem::path& path, const nlohmann::json& state) const {
    const std::string base = state.value("base", AdapterConfig().base);
    if (base == job_.config.adapter.base) return;
    throw ConfigError(fmt::format(
        "{} was trained with adapter.base = \"{}\", but this run has \"{}\"; use that value, or "
        "start another run with adapter.resume_from and another checkpoint.directory",
        path.string(), base, job_.config.adapter.base));
  }

  void tell_done() const {
    log::info("nothing to do: {} has {} steps already, and train.steps = {}",
              checkpoints_->start()->string(), engine_.steps_done(), job_.config.train.steps);
  }

  void tell_ended_early() const {
    log::info(
        "train.early_stopping = {}: the run ends at step {}, as no evaluation since the best one "
        "({}) was better; to go on, raise train.early_stopping or set it to 0",
        job_.config.train.early_stopping, engine_.steps_done(), history_.describe_best());
  }

  void step(data::BatchLoader& loader) {
    if (save_ && save_->done()) finish_save();
    monitor_.begin_step();
    std::vector<data::Batch> micro_batches = loader.next();
    TrainingTask::ConcurrentWork beside = task_->begin_step(engine_);
    StepResult result;
    try {
      std::map<std::string, double> of_batches;
      try {
        of_batches = task_->complete(micro_batches, engine_);
        engine_.forward_backward(micro_batches);
      } catch (const std::exception& error) {
        // This rank can only leave after the concurrent work: abort() informs the other ranks now.
        if (beside.seconds.valid()) {
          context_.world().abort(error.what());
          beside.seconds.wait();  // the work reads the weights
        }
        throw;
      }
      const std::map<std::string, double> told = wait_for(beside);
      result = engine_.update({.stop_requested = hooks_.stop_requested, .before_update = [this] {
                                 if (save_) save_->wait_until_read();
                               }});
      result.metrics.insert(told.begin(), told.end());
      result.metrics.merge(of_batches);
    } catch (const NonFiniteError& error) {
      if (summary_.steps > 0) save_last();
      if (checkpoints_ && context_.rank() == 0) tell_ways_on(error.step);
      throw;
    }
    summary_.steps = result.step;
    summary_.loss = result.loss;
    const bool last = result.step == job_.config.train.steps;
    summary_.stopped = result.stop_requested && !last;
    std::optional<double> validation_loss;
    if (!summary_.stopped && is_evaluated(result.step)) {
      validation_loss = summary_.validation_loss =
          evaluate_and_sample(/*may_stop=*/!last, result.metrics);
    }
    const bool is_best = compare(result, validation_loss);
    monitor_.end_step(result, validation_loss);
    hooks_.stepped(result, validation_loss);
    const int64_t save_every = job_.config.checkpoint.every;
    const bool due = is_best || (save_every > 0 && result.step % save_every == 0);
    if (last || summary_.stopped || history_.ends_run()) return;
    if (checkpoints_ && due) {
      start_save(*checkpoints_);
    } else if (memory_checkpoints_ && result.step % job_.config.checkpoint.memory_every == 0) {
      start_save(*memory_checkpoints_);
    }
  }

  // Says how to go on after a step that was not finite.
  void tell_ways_on(int64_t step) const {
    std::vector<io::Checkpoint> found = io::list_checkpoints(checkpoints_->directory());
    if (found.empty()) return;
    const std::filesystem::path newest = found.back().path;
    if (found.back().step != step - 1) {  // the last save has failed
      log::warn("the same command goes on from {}", newest.string());
      return;
    }
    found.pop_back();
    const std::string from_newest = fmt::format(
        "the newest checkpoint, {}, is from just before step {}: the same command fails there "
        "again. Other settings may pass it, such as a lower optimizer.learning_rate or "
        "train.gradient_clip",
        newest.string(), step);
    if (found.empty()) {
      log::warn("{}; there is no older checkpoint", from_newest);
      return;
    }
    log::warn(
        "{}. To go on from the older checkpoint {}, move the newest away (mv {} {}.aside) and use "
        "the command again with other settings",
        from_newest, found.back().path.string(), newest.string(), newest.string());
  }

  bool is_evaluated(int64_t step) const {
    const int64_t every = job_.config.train.evaluate_every;
    const bool due = step == job_.config.train.steps || (every > 0 && step % every == 0);
    return due && (task_->has_validation() || !job_.config.train.sample_prompts.empty());
  }

  // Compares the step with the best ones, if it is a step of which the metric is looked at: for
  // validation_loss and other metrics of an evaluation, one with an evaluation; for a metric of
  // training, one with a checkpoint.
  // Returns whether its checkpoint is to be kept as one of the best.
  bool compare(const StepResult& result, const std::optional<double>& validation_loss) {
    const CheckpointConfig& config = job_.config.checkpoint;
    if (config.keep_best == 0 && job_.config.train.early_stopping == 0) return false;
    std::optional<double> value = validation_loss;
    const std::string& metric = config.best_metric;
    if (metric.starts_with(kOfValidation)) {
      if (!validation_loss) return false;
      if (metric != "validation_loss") value = find_metric(result, metric);
    } else {
      value = find_metric(result, metric);
      const bool looked_at = config.every > 0 && result.step % config.every == 0;
      if (!looked_at && result.step != job_.config.train.steps) return false;
    }
    if (!value) return false;
    const bool is_best = history_.add(result.step, *value);
    return is_best && checkpoints_ != nullptr;
  }

  static double find_metric(const StepResult& result, const std::string& name) {
    if (name == "loss") return result.loss;
    if (name == "grad_norm") return result.grad_norm;
    const auto found = result.metrics.find(name);
    if (found != result.metrics.end()) return found->second;
    std::string known = "validation_loss, loss, grad_norm";
    for (const auto& [metric, value] : result.metrics) known += ", " + metric;
    throw ConfigError(fmt::format(
        "checkpoint.best_metric = \"{}\": the steps of this run have no such metric; they have {}",
        name, known));
  }

  // Returns this rank's metrics of the concurrent work: its seconds, and how many of them
  // overlapped the step's passes.
  static std::map<std::string, double> wait_for(TrainingTask::ConcurrentWork& work) {
    if (!work.seconds.valid()) return {};
    const auto begin = std::chrono::steady_clock::now();
    const double took = work.seconds.get();
    const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - begin;
    return {{work.name + "/seconds", took},
            {work.name + "/overlapped_seconds", std::max(0.0, took - waited.count())}};
  }

  void finish() {
    const bool moved = summary_.steps > 0;
    if (moved) save_last();
    if (moved && job_.config.checkpoint.keep_best > 0 && !history_.describe_best().empty()) {
      log::info("best checkpoint: {}", history_.describe_best());
    }
    if (!moved) summary_.steps = engine_.steps_done();
    monitor_.finish();
    // torchrun and mpirun take the exit code of a stopped rank for a failure and end the other
    // ranks, so no rank exits before all have finished.
    if (summary_.stopped) comm::barrier(context_.world_group());
  }

  // Evaluates, adds the metrics of the evaluation to `metrics`, and shows samples. Returns the mean
  // loss, as evaluate().
  std::optional<double> evaluate_and_sample(bool may_stop, std::map<std::string, double>& metrics) {
    const int64_t batch = job_.config.train.global_batch;
    const int64_t steps = task_->has_validation() ? num_evaluation_steps() : 0;
    monitor_.begin_evaluation(steps * batch);
    std::optional<double> loss;
    if (steps > 0) loss = evaluate(steps, may_stop, metrics);
    if (!summary_.stopped) {
      sample();
      const std::vector<report::Picture> pictures = task_->pictures(engine_);
      if (!pictures.empty()) monitor_.add_pictures(engine_.steps_done(), pictures);
    }
    monitor_.end_evaluation();
    return loss;
  }

  int64_t num_evaluation_steps() const {
    const int64_t batch = job_.config.train.global_batch;
    const int64_t most = job_.config.train.evaluate_sequences;
    const int64_t all = task_->num_validation_steps();
    return most == 0 ? all : std::min(all, (most + batch - 1) / batch);
  }

  // Returns the tokens of train.sample_prompts.
  std::vector<std::vector<int32_t>> tokenize_prompts() const {
    std::vector<std::vector<int32_t>> prompts;
    for (const std::string& text : job_.config.train.sample_prompts) {
      prompts.push_back(task_->prompt_tokens(text));
      const int64_t tokens = std::ssize(prompts.back()), most = job_.model.facts.positions;
      if (tokens > 0 && tokens < most) continue;
      throw ConfigError(
          fmt::format("train.sample_prompts: \"{}\" has {} tokens; a prompt needs 1 at least and "
                      "must be shorter "
                      "than the model's {} positions",
                      text, tokens, most));
    }
    return prompts;
  }

  // Shows what the model writes after train.sample_prompts.
  void sample() {
    const std::vector<std::string>& texts = job_.config.train.sample_prompts;
    if (texts.empty()) return;
    const std::vector<std::string> completions =
        hooks_.complete_prompts(job_, *assembly_.model, engine_, *task_, prompts_);
    std::vector<report::TextSample> samples;
    for (size_t i = 0; i < texts.size(); ++i) samples.push_back({texts[i], completions[i]});
    if (context_.rank() == 0) monitor_.add_samples(engine_.steps_done(), samples);
  }

  // Returns the mean loss; nothing if a request to stop ended the evaluation, so that the save need
  // not wait. Adds the means of the task's metrics over all labels to `metrics`; their names begin
  // with kOfValidation.
  std::optional<double> evaluate(int64_t steps, bool may_stop,
                                 std::map<std::string, double>& metrics) {
    Engine::Evaluation sum;
    data::BatchLoader loader = task_->validation_loader();
    for (int64_t step = 0; step < steps; ++step) {
      std::vector<data::Batch> micro_batches = loader.next();
      task_->complete(micro_batches, engine_);
      const Engine::Evaluation part = engine_.evaluate(micro_batches, hooks_.stop_requested);
      if (part.stop_requested && may_stop) {
        log::info("evaluation of step {} broken off", engine_.steps_done());
        summary_.stopped = true;
        return std::nullopt;
      }
      sum.loss_sum += part.loss_sum;
      sum.count += part.count;
      for (const auto& [name, value] : part.metrics) {
        if (!is_maximum(name)) sum.metrics[name] += value * part.count;
      }
      monitor_.evaluated((step + 1) * job_.config.train.global_batch);
    }
    for (const auto& [name, total] : sum.metrics) {
      if (sum.count > 0) metrics[kOfValidation + name] = total / sum.count;
    }
    return sum.mean();
  }

  void start_save(checkpoint::RunFolder& folder) {
    finish_save();
    const bool in_memory = &folder == memory_checkpoints_;
    if (in_memory && memory_failed_) {
      memory_checkpoints_ = nullptr;
      return;
    }
    monitor_.prepare_checkpoint();
    if (!in_memory) folder.keep_also(history_.best_steps());
    save_is_in_memory_ = in_memory;
    if (!save_is_in_memory_) saved_step_ = engine_.steps_done();
    save_.emplace(folder, engine_.steps_done(), engine_.chunks(), context_, description());
  }

  // A save that is under way ends as well as it can: the other ranks still take part in it.
  void finish_save_before_failure() {
    try {
      finish_save();
    } catch (const std::exception& error) {
      log::error("checkpoint of step {} failed, older ones are intact: {}", saved_step_,
                 error.what());
      save_.reset();
    }
  }

  // Reports a failed save; training continues.
  void finish_save() {
    if (!save_) return;
    if (save_is_in_memory_) return finish_save_in_memory();
    try {
      log::info("saved {}", save_->finish().string());
      if (context_.rank() == 0) hooks_.saved();
      summary_.saved = true;
    } catch (const IoError& error) {
      if (context_.rank() == 0) {
        log::error("checkpoint of step {} failed, older ones are intact: {}", saved_step_,
                   error.what());
      }
      summary_.saved = false;
      saved_step_ = 0;
    }
    save_.reset();
  }

  // Reports a failed save, after which the run saves to disk only. All ranks get the same result,
  // but not in the same step: so start_save() acts on it.
  void finish_save_in_memory() {
    try {
      save_->finish();
    } catch (const IoError& error) {
      if (context_.rank() == 0) {
        log::warn("no more checkpoints are saved in memory: {}", error.what());
      }
      memory_failed_ = true;
    }
    save_.reset();
  }

  // Saves the current state if it is not saved yet.
  void save_last() {
    if (!checkpoints_) return;
    if (saved_step_ != engine_.steps_done()) start_save(*checkpoints_);
    finish_save();
  }

  checkpoint::Description description() const {
    checkpoint::Description description;
    description.model_config = saved_model_.config;
    description.model_fields = saved_model_.shaping_fields;
    description.weight_files = saved_model_.weight_files;
    description.slice_in_files = [this](const std::string& parameter) {
      return models::slice_in_files(job_.model, parameter);
    };
    description.files = saved_model_.files;
    description.files.emplace_back(fmt::format("training_state/{}", kRunFile),
                                   run_file(job_, job_.run));
    description.state = {{"version", kStateVersion},
                         {"seed", engine_.config().seed},
                         {"data", task_->state()},
                         {"settings", settings_to_save(job_)},
                         {"evaluations", history_.to_json()},
                         {"precision", describe(job_.precision)},
                         {"base", job_.config.adapter.base},
                         {"base_digest", base_digest_},
                         {"threads", job_.threads},
                         {"ranks", context_.world().size()}};
    return description;
  }

  const Job& job_;
  const TrainingHooks& hooks_;
  const ParallelContext& context_;
  checkpoint::RunFolder* checkpoints_;         // null: the run has no checkpoints
  checkpoint::RunFolder* memory_checkpoints_;  // null: the run saves none in memory
  std::unique_ptr<TrainingTask> task_;
  const std::string base_digest_;  // of the folder of frozen weights; empty: no frozen weights
  const SavedModel saved_model_;
  StepMemory memory_;  // before the model, whose memory it counts
  models::Assembly assembly_;
  Engine engine_;
  RunMonitor monitor_;
  EvaluationHistory history_;
  const std::vector<std::vector<int32_t>> prompts_;  // of train.sample_prompts
  TrainingSummary summary_;
  std::optional<checkpoint::Save> save_;  // in progress
  bool save_is_in_memory_ = false;        // whether save_ saves in memory
  bool memory_failed_ = false;            // whether a save in memory has failed
  int64_t saved_step_ = 0;                // step of the last save to disk, or 0
};

}  // namespace

std::unique_ptr<TrainingTask> make_pretraining(const Job& job, const ParallelContext& context,
                                               const std::function<void()>& preparing) {
  if (job.model.text_tower) return make_contrastive_task(job, context);
  if (job.model.transformer.patches) return make_masked_images(job, context);
  return std::make_unique<TrainingData>(job, context, preparing);
}

TrainingSummary train(const Job& job, const ParallelContext& context, RunFolders& folders,
                      const TrainingHooks& hooks, const MakeTask& make_task) {
  if (!job.config.train.sample_prompts.empty()) {
    COLOSSAL_CHECK(hooks.complete_prompts, "train.sample_prompts without complete_prompts");
  }
  COLOSSAL_CHECK(!job.recompute_undecided && job.undecided_tiers.empty(),
                 "memory.* = \"auto\" is not decided");
  return Trainer(job, context, hooks, make_task, folders).run();
}

}  // namespace colossal
