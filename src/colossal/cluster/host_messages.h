// Converts the messages between launchers (control_channel.h) to lines of JSON and back.
//
// Below, "the first launcher" is that of the first host. Each other launcher connects to it and
// sends a Hello. The first launcher answers with a refusal or, when enough launchers have
// connected, with a JobStart, which says where the store is, at which the ranks meet
// (comm/store.h). While the ranks run, launchers send each other HostMessages: a rank has failed, a
// host is lost, or all ranks must stop or be killed. The first launcher forwards the HostMessages
// of the others. When all ranks of its own host have ended, a launcher sends a done line: the first
// launcher to all others, each other launcher to the first launcher, which does not forward it. The
// first launcher of an elastic job then sends another JobStart, or an end line with the exit code
// of the job.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "colossal/cluster/control_channel.h"

namespace colossal::cluster {

// The first message of a launcher that joins. `hosts` and `ranks_per_host` must equal those of the
// first launcher.
struct Hello {
  int index = 0;  // of the launcher's host in `hosts`
  std::vector<std::string> hosts;
  int ranks_per_host = 0;
};

// Why the first launcher refuses a launcher. for_now: whether it may ask again.
struct Refusal {
  std::string reason;
  bool for_now = false;
};

// Return a message as one line, without the end of line.
std::string to_line(const Hello& hello);
std::string to_line(const JobStart& start);
std::string to_line(const HostMessage& message);
std::string to_line(const Refusal& refusal);
std::string end_line(int exit_code);
std::string done_line(const std::string& job);  // job: JobStart::job

// Parse a line without the end of line. Return nullopt if it is no message of the kind in the
// function's name.
std::optional<Hello> parse_hello(const std::string& line);
std::optional<JobStart> parse_start(const std::string& line);
std::optional<Refusal> parse_refusal(const std::string& line);
std::optional<int> parse_end(const std::string& line);  // returns the exit code
std::optional<HostMessage> parse_message(const std::string& line);
std::optional<std::string> parse_done(const std::string& line);  // returns JobStart::job

}  // namespace colossal::cluster
