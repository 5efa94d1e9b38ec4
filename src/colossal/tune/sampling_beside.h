// Sampling while updates run (online_task.h): whether a run does this, and how much memory the
// sampler needs in addition to training. Used by OnlineTask and by the planning of memory
// (resolve.h).
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <string>

#include "colossal/booster/job.h"
#include "colossal/tune/tune_config.h"

namespace colossal::tune {

// Returns the reason, for a message, why sampling and updates of this job cannot run at the same
// time; "" if they can. device: on which the job computes.
std::string reason_not_to_overlap(const Job& job, c10::Device device);

// Whether a run samples while its updates run: the method is_online(), max_staleness is above 0,
// overlap_sampling is true, and reason_not_to_overlap() is "".
bool samples_during_updates(Method method, const TuneConfig& config, const Job& job,
                            c10::Device device);

// Returns the most bytes of tensors that a rank's sampler holds at once: its KV cache, and the
// tensors of its largest forward pass, with scratch memory for at::get_num_threads() threads.
// Computed with a dry run of that pass. job: the run's job, whose sequence_length is the most
// tokens of a prompt and its completion together.
int64_t sampler_bytes(const TuneConfig& config, const Job& job);

}  // namespace colossal::tune
