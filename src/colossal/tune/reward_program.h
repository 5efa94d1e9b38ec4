// A reward computed by a user's program.
#pragma once

#include <memory>
#include <string>

#include "colossal/tune/rewards.h"

namespace colossal::tune {

// Returns a reward that runs `command` in the shell once per score() call. The program reads one
// line of JSON per completion from standard input: the fields of the prompt's line, with
// "completion" (text) and "tokens" (their number) added. It writes one line per completion to
// standard output, in the order of its input: a number, null for no reward, or {"reward": ...}. It
// shares the run's standard error. timeout: seconds until the program is killed. score() throws
// Error for a nonzero exit code, a signal, a timeout, an invalid line or a wrong number of lines.
// Throws ConfigError if `command` is blank.
std::unique_ptr<Reward> make_reward_program(const std::string& command, double timeout);

// describe() returns the line of JSON, without end of line, that a program reads for a completion.
// read_reward() returns the reward in the program's answer to it; NaN for null.
std::string describe(const ScoredText& text);
double read_reward(const nlohmann::json& answer);  // throws Error if the answer is invalid

}  // namespace colossal::tune
