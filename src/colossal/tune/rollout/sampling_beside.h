// Sampling while updates run (online_task.h): whether a run does this, and how much memory the
// sampler needs in addition to training. Used by OnlineTask and by the planning of memory
// (resolve.h).
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <string>

#include "colossal/job/job.h"
#include "colossal/tune/tuning_method.h"

namespace colossal::tune {

// Returns the reason, for a message, why sampling and updates of this job cannot run at the same
// time; "" if they can. device: on which the job computes.
std::string reason_not_to_overlap(const Job& job, c10::Device device);

// Returns whether a run samples while its updates run. True if TuningMethod::is_online(),
// config.max_staleness is above 0, config.overlap_sampling is true, and reason_not_to_overlap() is
// "".
bool samples_during_updates(const Tuning& tuning, const Job& job, c10::Device device);

// Returns the bytes of a rank's KV cache plus the peak of the other tensors in the sampler's
// largest forward pass, found by a dry run of that pass. The peak includes the scratch memory of
// kernels on at::get_num_threads() threads; with pp > 1, it is that of a pass through all blocks.
// Weights are not counted: the sampler reads those of the model in training. job: the run's job,
// whose sequence_length is the most tokens of a prompt and its completion together.
int64_t sampler_bytes(const TuneConfig& config, const Job& job);

}  // namespace colossal::tune
