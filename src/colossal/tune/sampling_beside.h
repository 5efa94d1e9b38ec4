// Sampling while updates run (online_task.h): whether a run does so, and how much memory it takes.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <string>

#include "colossal/booster/job.h"
#include "colossal/tune/tune_config.h"

namespace colossal::tune {

// Returns why sampling and updates cannot run at the same time on this device, for a message; "" if
// they can.
std::string reason_not_to_overlap(const Job& job, c10::Device device);

// Returns whether a run samples while its updates run: the method is online, max_staleness and
// overlap_sampling demand it, and there is no reason_not_to_overlap().
bool samples_during_updates(Method method, const TuneConfig& config, const Job& job,
                            c10::Device device);

// Returns the most bytes of tensors that a rank's sampler holds at once: pages of keys and values,
// and the tensors of its largest forward pass, with scratch for at::get_num_threads() threads. They
// are counted in a dry run of that pass. job: the run's job; its sequence_length is the most tokens
// of a prompt and its completion together.
int64_t sampler_bytes(const TuneConfig& config, const Job& job);

}  // namespace colossal::tune
