#include "colossal/cluster/launch_environment.h"

#include <fcntl.h>
#include <gmock/gmock.h>

#include <map>

#include "colossal/base/error.h"
#include "colossal/cluster/pipe.h"
#include "colossal/cluster/socket.h"

namespace colossal::cluster {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using Variables = std::map<std::string, std::string>;

std::optional<LaunchEnvironment> read(const Variables& variables) {
  return read_launch_environment([&](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

// What a launcher sets, and what becomes of it.
struct Case {
  const char* name;
  Variables variables;
  const char* launcher;
  int rank, size, local_rank, local_size, hosts;
  std::string address;
  int port;  // 0: a derived one
  std::string interface;
  bool served;
  std::string prefix;
};

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

const Case kCases[] = {
    {"torchrun", kTorchrun, "torchrun", 3, 4, 1, 2, 2, "10.0.0.1", 29500, "10.0.0.2", true,
     "job/2"},
    {"torchrun_on_one_host",
     with(kTorchrun, {{"LOCAL_RANK", "3"},
                      {"LOCAL_WORLD_SIZE", "4"},
                      {"GROUP_WORLD_SIZE", "1"},
                      {"MASTER_ADDR", "myhost"},
                      {"TORCHELASTIC_USE_AGENT_STORE", "False"},
                      {"COLOSSAL_INTERFACE_ADDRESS", ""}}),
     "torchrun", 3, 4, 3, 4, 1, "myhost", 29500, "127.0.0.1", false, "job/2"},
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
     "colossal run",
     1,
     2,
     1,
     2,
     1,
     "127.0.0.1",
     4000,
     "127.0.0.1",
     false,
     "abc"},
    {"by_hand_on_loopback",
     {{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "localhost"}, {"MASTER_PORT", "4000"}},
     "RANK and WORLD_SIZE",
     1,
     2,
     1,
     2,
     1,
     "localhost",
     4000,
     "127.0.0.1",
     false,
     ""},
    {"a_pod_for_each_rank",
     {{"RANK", "1"},
      {"WORLD_SIZE", "2"},
      {"MASTER_ADDR", "job-0"},
      {"MASTER_PORT", "4000"},
      {"COLOSSAL_INTERFACE_ADDRESS", "10.0.0.7"}},
     "RANK and WORLD_SIZE",
     1,
     2,
     0,
     1,
     2,
     "job-0",
     4000,
     "10.0.0.7",
     false,
     ""},
    {"slurm", kSlurm, "Slurm", 5, 7, 1, 3, 2, "node07", 0, "10.0.0.2", false, "slurm/4711.0/"},
    {"slurm_with_address", with(kSlurm, {{"MASTER_ADDR", "10.0.0.1"}, {"MASTER_PORT", "5000"}}),
     "Slurm", 5, 7, 1, 3, 2, "10.0.0.1", 5000, "10.0.0.2", false, "slurm/4711.0/"},
    {"slurm_on_one_host",
     with(kSlurm, {{"SLURM_NODEID", "0"},
                   {"SLURM_LOCALID", "5"},
                   {"SLURM_STEP_NUM_NODES", "1"},
                   {"SLURM_STEP_TASKS_PER_NODE", "7"},
                   {"SLURM_STEP_NODELIST", "node07"},
                   {"COLOSSAL_INTERFACE_ADDRESS", ""}}),
     "Slurm", 5, 7, 5, 7, 1, "127.0.0.1", 0, "127.0.0.1", false, "slurm/4711.0/"},
    {"open_mpi", kOpenMpi, "Open MPI", 1, 2, 1, 2, 1, "127.0.0.1", 0, "127.0.0.1", false,
     "mpirun/99"},
    {"mpirun_in_a_slurm_job", with(kSlurm, kOpenMpi), "Open MPI", 1, 2, 1, 2, 1, "127.0.0.1", 0,
     "10.0.0.2", false, "mpirun/99"},
    {"mpich", kMpich, "MPICH", 0, 2, 0, 2, 1, "127.0.0.1", 0, "127.0.0.1", false, "mpiexec/"},
};

class LaunchEnvironmentCases : public testing::TestWithParam<Case> {};

TEST_P(LaunchEnvironmentCases, is_understood) {
  const Case& want = GetParam();
  const auto launch = read(want.variables);
  ASSERT_TRUE(launch);
  const comm::Rendezvous& meeting = launch->rendezvous;
  EXPECT_EQ(launch->launcher, want.launcher);
  EXPECT_EQ(meeting.rank, want.rank);
  EXPECT_EQ(meeting.size, want.size);
  EXPECT_EQ(launch->local_rank, want.local_rank);
  EXPECT_EQ(launch->local_size, want.local_size);
  EXPECT_EQ(launch->num_hosts, want.hosts);
  EXPECT_EQ(meeting.address, want.address);
  if (want.port == 0) {
    EXPECT_GE(meeting.port, 20000);
    EXPECT_LT(meeting.port, 32768);
  } else {
    EXPECT_EQ(meeting.port, want.port);
  }
  EXPECT_EQ(meeting.interface_address, want.interface);
  EXPECT_EQ(meeting.store_is_served, want.served);
  EXPECT_EQ(meeting.listen_fd, -1);
  EXPECT_TRUE(meeting.prefix.starts_with(want.prefix)) << meeting.prefix;
}

INSTANTIATE_TEST_SUITE_P(All, LaunchEnvironmentCases, testing::ValuesIn(kCases),
                         [](const auto& info) { return info.param.name; });

TEST(LaunchEnvironment, is_none_where_nobody_launched) {
  EXPECT_FALSE(read({}));
  EXPECT_FALSE(read({{"MASTER_ADDR", "a"}, {"MASTER_PORT", "1"}, {"WORLD_SIZE", "2"}}));
  // A batch script is not a rank, though Slurm numbers it.
  EXPECT_FALSE(read({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}, {"SLURM_JOB_ID", "1"}}));
}

TEST(LaunchEnvironment, jobs_meet_at_ports_of_their_own) {
  const int port = read(kOpenMpi)->rendezvous.port;
  EXPECT_EQ(read(with(kOpenMpi, {{"OMPI_COMM_WORLD_RANK", "0"}}))->rendezvous.port, port);
  EXPECT_NE(read(with(kOpenMpi, {{"OMPI_MCA_ess_base_jobid", "100"}}))->rendezvous.port, port);
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
      read(mistake.variables);
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
  const auto launch = read(variables);
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

}  // namespace
}  // namespace colossal::cluster
