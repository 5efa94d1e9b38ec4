// A reward computed by a user's program.
#pragma once

#include <memory>
#include <string>

#include "colossal/tune/rewards.h"

namespace colossal::tune {

// Returns a reward that runs `command` in the shell once per batch. The program reads one line of
// JSON per completion from standard input: the fields of the prompt's line, with "completion" and
// "tokens" added. It writes one line per completion in the same order: a number, null for no
// reward, or {"reward": ...}. Its standard error is that of the run. timeout: seconds until the
// program is killed. score() throws Error for a nonzero exit code, a signal, a timeout or an
// invalid line.
std::unique_ptr<Reward> make_reward_program(const std::string& command, double timeout);

// describe() returns the line of JSON that a program reads for a completion. read_reward() returns
// the reward in an answer.
std::string describe(const ScoredText& text);
double read_reward(const nlohmann::json& answer);  // throws Error if the answer is invalid

}  // namespace colossal::tune
