#include "tests/support/emulated_gpu/host_waits.h"

#include <cxxabi.h>
#include <dlfcn.h>
#include <execinfo.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>

#include "tests/support/emulated_gpu/settings.h"

namespace colossal::emulated_gpu {
namespace {

constexpr int kFunctions = 3;  // of a place

struct Waits {
  std::mutex mutex;
  std::map<std::string, int64_t> counts;  // by place
};
Waits& waits() {
  static auto* const made = new Waits;
  return *made;
}

// Returns the name of a function without its parameters.
std::string short_name(const char* symbol) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> demangled(
      abi::__cxa_demangle(symbol, nullptr, nullptr, &status), &std::free);
  std::string name = status == 0 ? demangled.get() : symbol;
  int depth = 0;  // of template arguments
  for (size_t i = 0; i < name.size(); ++i) {
    if (name[i] == '<') ++depth;
    if (name[i] == '>') --depth;
    if (depth == 0 && name[i] == '(' && name.compare(i, 11, "(anonymous ") != 0) {
      name.resize(i);
    }
  }
  return name;
}

// Returns the innermost functions of the library that wait.
std::string place_of(const std::string& kind) {
  std::array<void*, 64> frames{};
  const int count = backtrace(frames.data(), frames.size());
  std::string place = kind;
  int named = 0;
  for (int i = 0; i < count && named < kFunctions; ++i) {
    Dl_info info;
    if (!dladdr(frames[i], &info) || !info.dli_fname || !info.dli_sname) continue;
    if (!std::strstr(info.dli_fname, "libcolossal")) continue;
    const std::string function = short_name(info.dli_sname);
    if (function.starts_with("c10::") || function.starts_with("at::")) continue;  // inlined calls
    if (function.starts_with("colossal::comm::on_host")) continue;  // what they are there for
    place += (named++ == 0 ? " " : " < ") + function;
  }
  return place;
}

// Waits are few and programs may end without exit handlers: each wait writes the report anew.
void write_report() {
  const std::string path = settings().report + "." + std::to_string(getpid());
  std::FILE* const file = std::fopen(path.c_str(), "w");
  if (!file) return;
  for (const auto& [place, count] : waits().counts) {
    std::fprintf(file, "%ld %s\n", static_cast<long>(count), place.c_str());
  }
  std::fclose(file);
}

thread_local int depth = 0;

}  // namespace

HostWait::HostWait(const std::string& kind) {
  if (depth++ > 0 || settings().report.empty()) return;
  const std::string place = place_of(kind);
  const std::lock_guard lock(waits().mutex);
  ++waits().counts[place];
  write_report();
}

HostWait::~HostWait() {
  --depth;
}

}  // namespace colossal::emulated_gpu
