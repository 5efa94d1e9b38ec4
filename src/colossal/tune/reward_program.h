// A reward given by a program of the user.
#pragma once

#include <memory>
#include <string>

#include "colossal/tune/rewards.h"

namespace colossal::tune {

// Runs `command` in the shell for each batch. On its standard input it gets a line of JSON for each
// completion: the prompt's line with "completion" and "tokens" added. It writes as many lines in
// the same order, each a number, null for no reward, or {"reward": ...}. Its standard error is the
// run's. timeout: seconds, after which it is killed. score() throws Error for a nonzero exit code,
// a signal, a timeout or an invalid line.
std::unique_ptr<Reward> make_reward_program(const std::string& command, double timeout);

// describe() returns the line that a program gets for a completion. read_reward() reads the reward
// in an answer.
std::string describe(const ScoredText& text);
double read_reward(const nlohmann::json& answer);  // throws Error

}  // namespace colossal::tune
