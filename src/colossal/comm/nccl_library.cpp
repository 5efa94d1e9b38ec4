#include "colossal/comm/nccl_library.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>

#include "colossal/base/error.h"

namespace colossal::comm {
namespace {

constexpr const char* kLibrary = "libnccl.so.2";
constexpr int kOldestVersion = 21800;

nccl::Functions load() {
  // Kernels start in the order in which the host has launched them, on whatever streams (NCCL from
  // 2.26 on): all ranks launch them in one order, so none waits for one that has no room to start.
  setenv("NCCL_LAUNCH_ORDER_IMPLICIT", "1", /*overwrite=*/0);
  // A group's ranks are connected when it is made and not in its first calls (from 2.22 on).
  setenv("NCCL_RUNTIME_CONNECT", "0", /*overwrite=*/0);
  void* const library = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    throw ConfigError(fmt::format(
        "backend \"nccl\": {} ({}); install NCCL 2 or use backend \"gloo\"", kLibrary, dlerror()));
  }
  nccl::Functions functions{};
  const auto find = [&]<typename Function>(Function*& function, const char* name) {
    function = reinterpret_cast<Function*>(dlsym(library, name));
    if (!function) {
      throw ConfigError(fmt::format(
          "backend \"nccl\": {} has no {}; use a version of NCCL from 2.18 on", kLibrary, name));
    }
  };
  find(functions.get_version, "ncclGetVersion");
  find(functions.get_unique_id, "ncclGetUniqueId");
  find(functions.init_rank, "ncclCommInitRankConfig");
  find(functions.finalize, "ncclCommFinalize");
  find(functions.destroy, "ncclCommDestroy");
  find(functions.abort, "ncclCommAbort");
  find(functions.get_async_error, "ncclCommGetAsyncError");
  find(functions.get_error_string, "ncclGetErrorString");
  find(functions.get_last_error, "ncclGetLastError");
  find(functions.group_start, "ncclGroupStart");
  find(functions.group_end, "ncclGroupEnd");
  find(functions.all_reduce, "ncclAllReduce");
  find(functions.reduce_scatter, "ncclReduceScatter");
  find(functions.all_gather, "ncclAllGather");
  find(functions.broadcast, "ncclBroadcast");
  find(functions.send, "ncclSend");
  find(functions.receive, "ncclRecv");
  int version = 0;
  if (functions.get_version(&version) != nccl::Result::success || version < kOldestVersion) {
    throw ConfigError(fmt::format("backend \"nccl\": {} is version {}; use {} or later", kLibrary,
                                  version, kOldestVersion));
  }
  return functions;
}

}  // namespace

const nccl::Functions& nccl_functions() {
  static const nccl::Functions functions = load();
  return functions;
}

std::string describe(nccl::Result result, nccl::Communicator communicator) {
  const nccl::Functions& functions = nccl_functions();
  std::string text = functions.get_error_string(result);
  const char* const last = functions.get_last_error(communicator);
  if (last && *last) text += fmt::format(" ({})", last);
  return text;
}

}  // namespace colossal::comm
