// Sampling beside the passes of updates: whether a run does so, and what it takes of a rank.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <string>

#include "colossal/booster/job.h"
#include "colossal/tune/tune_config.h"

namespace colossal::tune {

// Returns why sampling waits for updates on this device although a staleness lets it go on beside
// them; empty where nothing forbids it.
std::string reason_to_take_turns(const Job& job, c10::Device device);

// Returns whether a run samples beside the passes of its updates.
bool samples_beside_updates(Method method, const TuneConfig& config, const Job& job,
                            c10::Device device);

// Returns the most bytes of tensors that a rank's sampler holds, by a dry run of its fullest
// forward pass: pages of keys and values, and what the pass makes, with scratch for
// at::get_num_threads() threads. job: of the run, with the longest rows.
int64_t sampler_bytes(const TuneConfig& config, const Job& job);

}  // namespace colossal::tune
