#include "colossal/base/error.h"
#include "colossal/comm/nccl.h"

namespace colossal::comm {

std::unique_ptr<World> nccl_world(const Rendezvous&, StorePointer, int, std::chrono::milliseconds) {
  throw ConfigError(
      "backend \"nccl\" is not in this build; configure with -DCOLOSSAL_CUDA=ON and a CUDA build "
      "of "
      "LibTorch (COLOSSAL_LIBTORCH), or use backend \"gloo\"");
}

}  // namespace colossal::comm
