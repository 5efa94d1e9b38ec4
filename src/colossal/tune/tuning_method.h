// TuningMethod: one of the methods of `colossal tune`, with everything that is its own: its keys
// and their defaults, the checks of their values, what it needs of data and memory, and its
// training task. Each method is defined in a source file of its own in methods/; no other code
// knows one by name.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "colossal/base/config_schema.h"
#include "colossal/job/job.h"
#include "colossal/mesh/parallel_context.h"
#include "colossal/training/training_task.h"
#include "colossal/tune/tune_config.h"

namespace colossal::tune {

class TuningMethod;

// The tuning method and its settings; equal on all ranks.
struct Tuning {
  const TuningMethod* method = nullptr;  // set in every use
  TuneConfig config;
};

// A function, not null, that is called regularly while samples are read. It may throw to end the
// run.
using Reading = std::function<void()>;

class TuningMethod {
 public:
  virtual ~TuningMethod() = default;

  virtual std::string name() const = 0;         // on the command line
  virtual std::string description() const = 0;  // one line, for --help

  // Names of the losses of tune.loss_type; empty: the method has one loss.
  virtual std::vector<std::string> loss_types() const { return {}; }
  // Whether the loss may be the weighted sum of several losses.
  virtual bool sums_losses() const { return false; }

  // The following three are called by the functions below of the same names, which do what is the
  // same for all methods.
  virtual void set_defaults(RunConfig& run, TuneConfig& config) const = 0;
  virtual void describe(ConfigSchema& schema, TuneConfig& config) const = 0;
  virtual void validate(const RunConfig& /*run*/, const TuneConfig& /*config*/) const {}
  // Sets keys of `run` that depend on the model and the data, such as labels.
  virtual void resolve(const models::ModelSpecification& /*model*/, const TuneConfig& /*config*/,
                       RunConfig& /*run*/) const {}

  // Whether a sample has two rows, a better and a worse completion.
  virtual bool has_pairs() const { return false; }
  // Whether the method trains encoders too; whether it trains encoder-decoders.
  virtual bool takes_encoders() const { return false; }
  virtual bool takes_encoder_decoders() const { return false; }
  // Whether the method is on-policy, i.e. trains on rewards of completions that are sampled from
  // the model in training.
  virtual bool is_online() const { return false; }
  // Whether the lines of data.train are prompts only, because the model samples all completions.
  virtual bool has_prompts_alone(const TuneConfig& /*config*/) const { return is_online(); }
  // Whether a sample must have a prompt.
  virtual bool needs_prompts(const TuneConfig& /*config*/) const { return false; }
  // Whether a run uses a reference model (reference.h).
  virtual bool has_reference(const TuneConfig& /*config*/) const { return false; }
  // The setting that names the folder of a teacher, whose logits a step needs, such as
  // "tune.teacher", and the folder; two empty texts: there is no teacher.
  struct Teacher {
    std::string setting, folder;
  };
  virtual Teacher teacher(const RunConfig& /*run*/, const TuneConfig& /*config*/) const {
    return {};
  }

  // Makes the method's training task. `job` and `context` must outlive the task; `tuning` is
  // copied, and `reading` is called only during the call. Collective. Throws as the constructor of
  // SampleTask.
  virtual std::unique_ptr<TrainingTask> make_task(const Job& job, const ParallelContext& context,
                                                  const Tuning& tuning,
                                                  const Reading& reading) const = 0;
};

// All methods, in the order of --help.
std::span<const TuningMethod* const> all_methods();

// Sets the method's defaults in `config`, and in `run` for keys of other sections ([optimizer],
// [train], ...). Call it first, before describe() and before configuration files are read.
void set_defaults(const TuningMethod& method, RunConfig& run, TuneConfig& config);
// Declares the method's keys in `schema`, with their descriptions and ranges. The schema then reads
// their values into `config`, which must outlive it.
void describe(ConfigSchema& schema, const TuningMethod& method, TuneConfig& config);
// Throws ConfigError if values are inconsistent. Reads no files of data or models.
void validate(const TuningMethod& method, const RunConfig& run, const TuneConfig& config);
// Returns a function for the trainer that makes the method's task. The returned function has a copy
// of `tuning`.
MakeTask make_task(const Tuning& tuning);

}  // namespace colossal::tune
