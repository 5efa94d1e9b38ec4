#include "tests/support/run_process.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <stdexcept>
#include <system_error>

namespace colossal::test {
namespace {

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (std::string& text : texts) result.push_back(text.data());
  result.push_back(nullptr);
  return result;
}

std::vector<std::string> merged(const std::map<std::string, std::string>& added) {
  std::vector<std::string> environment;
  for (char** variable = environ; *variable; ++variable) {
    const std::string text = *variable;
    if (!added.contains(text.substr(0, text.find('=')))) environment.push_back(text);
  }
  for (const auto& [name, value] : added) environment.push_back(name + "=" + value);
  return environment;
}

}  // namespace

ProcessResult run_process(const std::vector<std::string>& command,
                          const std::map<std::string, std::string>& environment) {
  std::array<int, 2> pipe;
  if (::pipe2(pipe.data(), O_CLOEXEC) != 0) throw std::system_error(errno, std::generic_category());
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, pipe[1], STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, pipe[1], STDERR_FILENO);
  std::vector<std::string> arguments = command;
  std::vector<std::string> variables = merged(environment);
  pid_t child = 0;
  const int error = ::posix_spawnp(&child, command.front().c_str(), &actions, nullptr,
                                   pointers(arguments).data(), pointers(variables).data());
  posix_spawn_file_actions_destroy(&actions);
  ::close(pipe[1]);
  ProcessResult result;
  std::array<char, 4096> block;
  for (ssize_t read = 1; error == 0 && read > 0;) {
    read = ::read(pipe[0], block.data(), block.size());
    if (read > 0) result.output.append(block.data(), static_cast<size_t>(read));
  }
  ::close(pipe[0]);
  if (error != 0) throw std::system_error(error, std::generic_category(), command.front());
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status)) result.exit_code = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) result.signal = WTERMSIG(status);
  return result;
}

std::map<std::string, std::string> fault_environment(const std::string& path_text,
                                                     const std::string& faults) {
  return {{"LD_PRELOAD", COLOSSAL_TEST_BINARY_DIR "/libcrash_shim.so"},
          {"ASAN_OPTIONS", "verify_asan_link_order=0"},
          {"COLOSSAL_FAULT_PATH", path_text},
          {"COLOSSAL_FAULTS", faults}};
}

}  // namespace colossal::test
