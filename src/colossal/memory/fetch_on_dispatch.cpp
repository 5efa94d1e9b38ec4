#include "colossal/memory/fetch_on_dispatch.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <vector>

namespace colossal::memory {
namespace {

constexpr auto kWrapper = c10::DispatchKey::TESTING_ONLY_GenericWrapper;

thread_local ChunkEngine* chunks_of_thread = nullptr;

class Uses {
 public:
  explicit Uses(ChunkEngine& chunks) : chunks_(chunks) {}
  ~Uses() {
    for (const at::Tensor& weight : used_) chunks_.after_use(weight);
  }
  Uses(const Uses&) = delete;
  Uses& operator=(const Uses&) = delete;

  void add(const c10::IValue& argument) {
    if (argument.isTensor()) {
      add(argument.toTensor());
    } else if (argument.isTensorList()) {
      for (const at::Tensor& tensor : argument.toTensorVector()) add(tensor);
    }
  }

 private:
  void add(const at::Tensor& tensor) {
    if (!tensor.defined() || !chunks_.is_transient(tensor)) return;
    chunks_.before_use(tensor);
    used_.push_back(tensor);
  }

  ChunkEngine& chunks_;
  std::vector<at::Tensor> used_;
};

// While its thread has a FetchOnDispatch, every operator call comes here first. Operators that it
// calls in turn do not.
void call_with_weights(const c10::OperatorHandle& op, c10::DispatchKeySet,
                       torch::jit::Stack* stack) {
  const c10::impl::ExcludeDispatchKeyGuard inside(kWrapper);
  if (!chunks_of_thread) return op.callBoxed(stack);
  Uses uses(*chunks_of_thread);
  for (const c10::IValue& argument : torch::jit::last(*stack, op.schema().arguments().size())) {
    uses.add(argument);
  }
  op.callBoxed(stack);
}

TORCH_LIBRARY_IMPL(_, TESTING_ONLY_GenericWrapper, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&call_with_weights>());
}

}  // namespace

FetchOnDispatch::FetchOnDispatch(ChunkEngine& chunks) : operators_(kWrapper) {
  chunks_of_thread = &chunks;
}

FetchOnDispatch::~FetchOnDispatch() {
  chunks_of_thread = nullptr;
}

}  // namespace colossal::memory
