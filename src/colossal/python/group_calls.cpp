#include "colossal/python/group_calls.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/ivalue_inl.h>
#include <c10/util/Exception.h>

#include <memory>
#include <utility>

#include "colossal/base/error.h"

namespace colossal::python {
namespace {

class CallWork final : public c10d::Work {
 public:
  explicit CallWork(const GroupCalls::Call& call)
      : Work(-1, call.type),
        results_(call.results),
        future_(c10::make_intrusive<c10::ivalue::Future>(
            c10::ListType::create(c10::TensorType::get()))) {}

  std::vector<at::Tensor> result() override { return results_; }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override { return future_; }

  void complete(const std::exception_ptr& error) {
    if (error) {
      future_->setError(error);
    } else {
      future_->markCompleted(c10::IValue(results_));
    }
    finish(error);
  }

 private:
  std::vector<at::Tensor> results_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;
};

}  // namespace

void translate_errors(const std::string& function, const std::function<void()>& body) {
  try {
    body();
  } catch (const CommError& error) {
    C10_THROW_ERROR(DistBackendError, fmt::format("{}: {}", function, error.what()));
  } catch (const ConfigError& error) {
    C10_THROW_ERROR(ValueError, fmt::format("{}: {}", function, error.what()));
  }
}

GroupCalls::GroupCalls(Connect connect) : connect_(std::move(connect)) {}

const comm::Group& GroupCalls::group() {
  {
    const std::lock_guard lock(mutex_);
    if (!aborted_.empty()) throw CommError(aborted_);
    if (connection_) return connection_->group;
  }
  GroupConnection connection = connect_(abandoned_);  // may wait for other ranks
  const std::lock_guard lock(mutex_);
  connection_ = std::move(connection);
  if (!aborted_.empty()) connection_->world->abort(aborted_);
  return connection_->group;
}

GroupCalls::WorkPointer GroupCalls::issue(Call call, Body body) {
  auto work = c10::make_intrusive<CallWork>(call);
  const auto run = [this, function = std::move(call.function)](const Body& body) {
    // As of other backends: what autograd knows of the tensors does not count.
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    translate_errors(function, [&] { body(group()); });
  };
  if (!call.asynchronous) {
    queue_.run([&] { run(body); });
    work->complete(nullptr);
    return work;
  }
  ++pending_;
  queue_.submit([this, work, run, body = std::move(body)]() mutable {
    std::exception_ptr error;
    try {
      run(body);
    } catch (...) {
      error = std::current_exception();
    }
    body = nullptr;  // releases its tensors before anyone learns that it is done
    work->complete(error);
    --pending_;
  });
  return work;
}

void GroupCalls::abort(const std::string& why) {
  const std::lock_guard lock(mutex_);
  aborted_ = why;
  abandoned_ = true;
  if (connection_) connection_->world->abort(why);
}

}  // namespace colossal::python
