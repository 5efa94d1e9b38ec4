#include "colossal/cluster/launch_environment.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <map>

#include "colossal/base/error.h"
#include "colossal/base/pipe.h"
#include "colossal/cluster/socket.h"

namespace colossal::cluster {
namespace {

using testing::HasSubstr;
using Variables = std::map<std::string, std::string>;

std::optional<LaunchEnvironment> read_from(const Variables& variables) {
  return read_launch_environment([&](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

const Variables kTorchrun{{"RANK", "3"},
                          {"WORLD_SIZE", "4"},
                          {"LOCAL_RANK", "1"},
                          {"LOCAL_WORLD_SIZE", "2"},
                          {"GROUP_RANK", "1"},
                          {"GROUP_WORLD_SIZE", "2"},
                          {"MASTER_ADDR", "10.0.0.1"},
                          {"MASTER_PORT", "29500"},
                          {"TORCHELASTIC_USE_AGENT_STORE", "True"},
                          {"TORCHELASTIC_RUN_ID", "job"},
                          {"TORCHELASTIC_RESTART_COUNT", "2"},
                          {"COLOSSAL_INTERFACE_ADDRESS", "10.0.0.2"}};

const Variables kSlurm{{"SLURM_PROCID", "5"},
                       {"SLURM_LOCALID", "1"},
                       {"SLURM_NODEID", "1"},
                       {"SLURM_JOB_ID", "4711"},
                       {"SLURM_STEP_ID", "0"},
                       {"SLURM_STEP_NUM_TASKS", "7"},
                       {"SLURM_STEP_NUM_NODES", "2"},
                       {"SLURM_STEP_TASKS_PER_NODE", "4,3"},
                       {"SLURM_STEP_NODELIST", "node[07-08]"},
                       {"SLURM_NTASKS", "7"},
                       {"COLOSSAL_INTERFACE_ADDRESS", "10.0.0.2"}};

const Variables kOpenMpi{{"OMPI_COMM_WORLD_RANK", "1"},
                         {"OMPI_COMM_WORLD_SIZE", "2"},
                         {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                         {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                         {"OMPI_MCA_ess_base_jobid", "99"}};

const Variables kMpich{
    {"PMI_RANK", "0"}, {"PMI_SIZE", "2"}, {"MPI_LOCALRANKID", "0"}, {"MPI_LOCALNRANKS", "2"}};

Variables with(Variables base, const Variables& changes) {
  for (const auto& [name, value] : changes) base[name] = value;
  return base;
}

// The variables that a launcher sets, and how they are read.
struct Case {
  const char* name;
  Variables variables;
  std::string meaning;
};

const Case kCases[] = {
    {"torchrun", kTorchrun,
     "torchrun: rank 3 of 4, local 1 of 2, 2 hosts, at 10.0.0.1:29500 (served), data at 10.0.0.2, "
     "prefix 'job/2'"},
    {"torchrun_on_one_host",
     with(kTorchrun, {{"LOCAL_RANK", "3"},
                      {"LOCAL_WORLD_SIZE", "4"},
                      {"GROUP_WORLD_SIZE", "1"},
                      {"MASTER_ADDR", "myhost"},
                      {"TORCHELASTIC_USE_AGENT_STORE", "False"},
                      {"COLOSSAL_INTERFACE_ADDRESS", ""}}),
     "torchrun: rank 3 of 4, local 3 of 4, 1 hosts, at myhost:29500, data at 127.0.0.1, prefix "
     "'job/2'"},
    {"our_own_launcher",
     {{"RANK", "1"},
      {"WORLD_SIZE", "2"},
      {"LOCAL_RANK", "1"},
      {"LOCAL_WORLD_SIZE", "2"},
      {"GROUP_WORLD_SIZE", "1"},
      {"MASTER_ADDR", "127.0.0.1"},
      {"MASTER_PORT", "4000"},
      {"TORCHELASTIC_USE_AGENT_STORE", "False"},
      {"COLOSSAL_STORE_FD", ""},
      {"COLOSSAL_JOB", "abc"}},
     "colossal run: rank 1 of 2, local 1 of 2, 1 hosts, at 127.0.0.1:4000, data at 127.0.0.1, "
     "prefix 'abc'"},
    {"by_hand_on_loopback",
     {{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "localhost"}, {"MASTER_PORT", "4000"}},
     "a launcher that sets RANK and WORLD_SIZE: rank 1 of 2, local 1 of 2, 1 hosts, at "
     "localhost:4000, data at "
     "127.0.0.1, prefix ''"},
    {"a_pod_for_each_rank",
     {{"RANK", "1"},
      {"WORLD_SIZE", "2"},
      {"MASTER_ADDR", "job-0"},
      {"MASTER_PORT", "4000"},
      {"COLOSSAL_INTERFACE_ADDRESS", "10.0.0.7"}},
     "a launcher that sets RANK and WORLD_SIZE: rank 1 of 2, local 0 of 1, 2 hosts, at job-0:4000, "
     "data at 10.0.0.7, "
     "prefix ''"},
    {"slurm", kSlurm,
     "Slurm: rank 5 of 7, local 1 of 3, 2 hosts, at node07:derived, data at 10.0.0.2, prefix "
     "'slurm/4711.0/'"},
    {"slurm_with_address", with(kSlurm, {{"MASTER_ADDR", "10.0.0.1"}, {"MASTER_PORT", "5000"}}),
     "Slurm: rank 5 of 7, local 1 of 3, 2 hosts, at 10.0.0.1:5000, data at 10.0.0.2, prefix "
     "'slurm/4711.0/'"},
    {"slurm_on_one_host",
     with(kSlurm, {{"SLURM_NODEID", "0"},
                   {"SLURM_LOCALID", "5"},
                   {"SLURM_STEP_NUM_NODES", "1"},
                   {"SLURM_STEP_TASKS_PER_NODE", "7"},
                   {"SLURM_STEP_NODELIST", "node07"},
                   {"SLURM_RESTART_COUNT", "1"},
                   {"COLOSSAL_INTERFACE_ADDRESS", ""}}),
     "Slurm: rank 5 of 7, local 5 of 7, 1 hosts, at 127.0.0.1:derived, data at 127.0.0.1, prefix "
     "'slurm/4711.0/1'"},
    {"open_mpi", kOpenMpi,
     "Open MPI: rank 1 of 2, local 1 of 2, 1 hosts, at 127.0.0.1:derived, data at 127.0.0.1, "
     "prefix 'mpirun/99'"},
    {"mpirun_in_a_slurm_job", with(kSlurm, kOpenMpi),
     "Open MPI: rank 1 of 2, local 1 of 2, 1 hosts, at 127.0.0.1:derived, data at 10.0.0.2, prefix "
     "'mpirun/99'"},
    {"mpich", kMpich,
     fmt::format("MPICH: rank 0 of 2, local 0 of 2, 1 hosts, at 127.0.0.1:derived, data at "
                 "127.0.0.1, prefix 'mpiexec/{}'",
                 getppid())},
};

std::string describe(const LaunchEnvironment& launch, bool derived_port) {
  const comm::Rendezvous& meeting = launch.rendezvous;
  const bool in_range = meeting.port >= 20000 && meeting.port < 32768;
  const std::string port = derived_port && in_range ? "derived" : std::to_string(meeting.port);
  return fmt::format(
      "{}: rank {} of {}, local {} of {}, {} hosts, at {}:{}{}, data at {}, prefix '{}'",
      launch.launcher, meeting.rank, meeting.size, launch.local_rank, launch.local_size,
      launch.num_hosts, meeting.address, port, meeting.store_is_served ? " (served)" : "",
      meeting.interface_address, meeting.prefix);
}

class LaunchEnvironmentCases : public testing::TestWithParam<Case> {};

TEST_P(LaunchEnvironmentCases, is_understood) {
  const auto launch = read_from(GetParam().variables);
  ASSERT_TRUE(launch);
  EXPECT_EQ(describe(*launch, !GetParam().variables.contains("MASTER_PORT")), GetParam().meaning);
  EXPECT_EQ(launch->rendezvous.listen_fd, -1);
  EXPECT_EQ(launch->error_fd, -1);
}

INSTANTIATE_TEST_SUITE_P(All, LaunchEnvironmentCases, testing::ValuesIn(kCases),
                         [](const auto& info) { return info.param.name; });

TEST(LaunchEnvironment, is_none_where_nobody_launched) {
  EXPECT_FALSE(read_from({}));
  EXPECT_FALSE(read_from({{"MASTER_ADDR", "a"}, {"MASTER_PORT", "1"}, {"WORLD_SIZE", "2"}}));
  // A batch script is not a rank, although Slurm gives it a number.
  EXPECT_FALSE(read_from({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}, {"SLURM_JOB_ID", "1"}}));
}

TEST(LaunchEnvironment, jobs_meet_at_ports_of_their_own) {
  const int port = read_from(kOpenMpi)->rendezvous.port;
  EXPECT_EQ(read_from(with(kOpenMpi, {{"OMPI_COMM_WORLD_RANK", "0"}}))->rendezvous.port, port);
  EXPECT_NE(read_from(with(kOpenMpi, {{"OMPI_MCA_ess_base_jobid", "100"}}))->rendezvous.port, port);
}

struct Mistake {
  Variables variables;
  std::vector<const char*> named;
};

TEST(LaunchEnvironment, names_the_variable_and_value_that_cannot_be) {
  const Mistake mistakes[] = {
      {with(kTorchrun, {{"RANK", "4"}}), {"RANK is 4", "WORLD_SIZE is 4"}},
      {with(kTorchrun, {{"RANK", "three"}}), {"RANK", "'three'"}},
      {with(kTorchrun, {{"RANK", "-1"}}), {"RANK", "'-1'"}},
      {with(kTorchrun, {{"RANK", "1 "}}), {"RANK", "'1 '"}},
      {with(kTorchrun, {{"WORLD_SIZE", ""}}), {"WORLD_SIZE is not set"}},
      {with(kTorchrun, {{"WORLD_SIZE", "0"}}), {"WORLD_SIZE", "'0'"}},
      {with(kTorchrun, {{"WORLD_SIZE", "99999999999"}}), {"WORLD_SIZE", "'99999999999'"}},
      {with(kTorchrun, {{"LOCAL_RANK", "2"}}), {"LOCAL_RANK is 2", "LOCAL_WORLD_SIZE is 2"}},
      {with(kTorchrun, {{"MASTER_ADDR", ""}}), {"MASTER_ADDR is not set"}},
      {with(kTorchrun, {{"MASTER_PORT", "65536"}}), {"MASTER_PORT", "'65536'"}},
      {with(kSlurm, {{"SLURM_LOCALID", "3"}}), {"SLURM_LOCALID", "'3'"}},
      {with(kSlurm, {{"SLURM_STEP_NODELIST", "node["}}), {"host list 'node['"}},
      {with(kSlurm, {{"SLURM_STEP_TASKS_PER_NODE", "7"}}), {"'7'", "SLURM_STEP_NUM_NODES is 2"}},
      {with(kOpenMpi, {{"OMPI_COMM_WORLD_LOCAL_SIZE", "1"}, {"OMPI_COMM_WORLD_LOCAL_RANK", "0"}}),
       {"Open MPI started 2 ranks on 2 hosts", "set MASTER_ADDR", "MASTER_PORT"}},
      {with(kMpich, {{"PMI_SIZE", "x"}}), {"PMI_SIZE", "'x'"}},
      {with(kMpich, {{"PMI_SIZE", "4"}}), {"4 ranks on 2 hosts", "MASTER_ADDR", "MASTER_PORT"}},
      {with(kMpich, {{"PMI_SIZE", "4"}, {"MASTER_ADDR", "127.0.0.1"}}), {"MASTER_PORT"}},
      {{{"RANK", "0"},
        {"WORLD_SIZE", "1"},
        {"COLOSSAL_JOB", "a"},
        {"MASTER_ADDR", "127.0.0.1"},
        {"MASTER_PORT", "1"},
        {"COLOSSAL_STORE_FD", "1000"}},
       {"COLOSSAL_STORE_FD is 1000"}},
  };
  for (const Mistake& mistake : mistakes) {
    try {
      read_from(mistake.variables);
      ADD_FAILURE() << "took what should be refused with: " << mistake.named.front();
    } catch (const ConfigError& error) {
      for (const char* name : mistake.named) EXPECT_THAT(error.what(), HasSubstr(name));
    }
  }
}

TEST(LaunchEnvironment, takes_over_the_stores_socket) {
  FileDescriptor socket = bind_socket("127.0.0.1", 0);
  const int port = bound_port(socket);
  fcntl(socket.get(), F_SETFD, 0);
  const Variables variables{{"RANK", "0"},
                            {"WORLD_SIZE", "2"},
                            {"COLOSSAL_JOB", "a"},
                            {"MASTER_ADDR", "127.0.0.1"},
                            {"MASTER_PORT", std::to_string(port)},
                            {"COLOSSAL_STORE_FD", std::to_string(socket.get())}};
  EXPECT_FALSE(try_connect("127.0.0.1", "127.0.0.1", port)) << "it listens before it should";
  const auto launch = read_from(variables);
  ASSERT_TRUE(launch);
  EXPECT_EQ(launch->rendezvous.listen_fd, socket.get());
  EXPECT_TRUE(try_connect("127.0.0.1", "127.0.0.1", port));
  EXPECT_EQ(fcntl(socket.get(), F_GETFD), FD_CLOEXEC) << "programs that we start would hold it";
}

TEST(LaunchEnvironment, hands_the_last_message_to_the_launcher) {
  const Pipe pipe;
  LaunchEnvironment launch;
  EXPECT_FALSE(send_error(launch, "nobody reads this"));
  launch.error_fd = pipe.write_end.get();
  EXPECT_TRUE(send_error(launch, "the disk is full"));
  char text[100] = {};
  EXPECT_EQ(::read(pipe.read_end.get(), text, sizeof text), 16);
  EXPECT_STREQ(text, "the disk is full");
}

TEST(Socket, knows_its_own_addresses) {
  EXPECT_THAT(own_addresses(), testing::Contains("127.0.0.1"));
  EXPECT_EQ(address_towards("127.0.0.1"), "127.0.0.1");
  EXPECT_THAT(resolve("127.0.0.1"), testing::ElementsAre("127.0.0.1"));
  EXPECT_TRUE(is_loopback("127.0.1.1"));
  EXPECT_FALSE(is_loopback("10.127.0.1"));
}

TEST(Socket, says_which_host_has_no_address) {
  try {
    resolve("no-such-host.invalid");
    ADD_FAILURE() << "resolved it";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("host 'no-such-host.invalid' has no address"));
  }
}

TEST(LaunchEnvironment, slurms_host_that_does_not_resolve_is_named_with_what_would_work) {
  Variables variables = kSlurm;
  variables.erase("COLOSSAL_INTERFACE_ADDRESS");
  variables["SLURM_STEP_NODELIST"] = "no-such-host[1-2].invalid";
  try {
    read_from(variables);
    FAIL() << "it was found";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("Slurm started 7 ranks on 2 hosts"));
    EXPECT_THAT(error.what(), HasSubstr("'no-such-host1.invalid'"));
    EXPECT_THAT(error.what(), HasSubstr("set MASTER_ADDR to an address of rank 0's host"));
  }
}

TEST(LaunchEnvironment, slurms_hosts_that_are_all_this_one_meet_on_loopback_where_told) {
  Variables variables = kSlurm;
  variables.erase("COLOSSAL_INTERFACE_ADDRESS");
  variables["SLURM_STEP_NODELIST"] = "no-such-host[1-2].invalid";
  variables["MASTER_ADDR"] = "127.0.0.1";
  EXPECT_EQ(read_from(variables)->rendezvous.interface_address, "127.0.0.1");
}

std::optional<int> openmp_threads_of(Variables variables) {
  return openmp_threads([&](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

TEST(OpenMpThreads, are_those_of_the_outermost_level) {
  EXPECT_EQ(openmp_threads_of({}), std::nullopt);
  EXPECT_EQ(openmp_threads_of({{"OMP_NUM_THREADS", "3"}}), 3);
  EXPECT_EQ(openmp_threads_of({{"OMP_NUM_THREADS", "4,2"}}), 4);
  EXPECT_EQ(openmp_threads_of({{"OMP_NUM_THREADS", "many"}}), std::nullopt);
  EXPECT_EQ(openmp_threads_of({{"OMP_NUM_THREADS", "0"}}), std::nullopt);
}

TEST(OpenMpThreads, torchruns_own_choice_is_nobodys_wish) {
  const auto under_torchrun = [](const char* threads) {
    return openmp_threads_of({{"OMP_NUM_THREADS", threads}, {"TORCHELASTIC_RUN_ID", "job"}});
  };
  EXPECT_EQ(under_torchrun("1"), std::nullopt);
  EXPECT_EQ(under_torchrun("2"), 2);
}

}  // namespace
}  // namespace colossal::cluster
