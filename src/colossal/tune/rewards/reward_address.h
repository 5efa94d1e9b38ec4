// The reward "http://..." of an on-policy run: an HTTP service computes the rewards. Used by
// make_reward_function() (rewards.h).
#pragma once

#include <memory>
#include <string>

#include "colossal/tune/rewards/rewards.h"

namespace colossal::tune {

// Returns a reward whose score() posts {"completions": [...]} to an address
// "http://HOST[:PORT][/PATH]" (by default port 80 and path "/"). Each completion is the JSON object
// that describe() returns (reward_program.h). The service must answer with status 200 and
// {"rewards": [...]}: for each completion, in order, a number, null (no reward) or {"reward": a
// number or null}. timeout: most seconds from connecting to the end of the answer. score() throws
// Error if it gets no such answer in time. Throws ConfigError for an invalid address.
std::unique_ptr<Reward> make_reward_address(const std::string& address, double timeout);

}  // namespace colossal::tune
