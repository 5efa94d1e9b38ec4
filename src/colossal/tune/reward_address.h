// Rewards by a service on the network.
#pragma once

#include <memory>
#include <string>

#include "colossal/tune/rewards.h"

namespace colossal::tune {

// Posts {"completions": [...]}, each what a reward's program gets as a line, to an address
// "http://HOST[:PORT][/PATH]", which answers {"rewards": [number or null, ...]}. timeout: in
// seconds, for the whole of it. score() throws Error where nobody answers, or not so. Throws
// ConfigError for what is no such address.
std::unique_ptr<Reward> make_reward_address(const std::string& address, double timeout);

}  // namespace colossal::tune
