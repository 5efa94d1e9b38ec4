#include "colossal/training/profiler.h"

#include <ATen/SequenceNumber.h>
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "colossal/base/error.h"
#include "colossal/report/output_file.h"
#include "colossal/report/trace.h"

namespace colossal {
namespace {

using Clock = std::chrono::steady_clock;
using Microseconds = std::chrono::duration<double, std::micro>;

constexpr int kNone = -1;
constexpr size_t kOperatorLines = 25;

// The calling thread's event in progress.
thread_local int current = kNone;

std::atomic<Profiler::Recording*> active{nullptr};

struct Context : at::ObserverContext {
  int event = kNone;
  int parent = kNone;
};

// Returns "blocks.*.mlp_up" for "blocks.3.mlp_up".
std::string kind_of(const std::string& layer) {
  std::string kind;
  for (size_t i = 0; i < layer.size(); ++i) {
    const bool digit = std::isdigit(static_cast<unsigned char>(layer[i])) != 0;
    if (!digit) {
      kind += layer[i];
    } else if (kind.empty() || kind.back() != '*') {
      kind += '*';
    }
  }
  return kind;
}

}  // namespace

struct Profiler::Recording {
  // A call of an operator, of an operator's gradient, or of a layer.
  struct Event {
    std::string name;
    at::RecordScope scope{};
    uint64_t thread = 0;
    int parent = kNone;  // the event that called this one, on the same thread
    // numbers of autograd nodes: a gradient's own node, or those that a layer makes
    int64_t sequence_begin = -1;
    int64_t sequence_end = -1;
    double begin = 0;  // microseconds from the start of the recording
    double duration = 0;
    double inside = 0;  // the part of `duration` in events that this event called
    double self() const { return duration - inside; }
  };

  std::mutex mutex;
  std::vector<Event> events;
  const Clock::time_point start = Clock::now();
  const uint64_t main_thread = at::RecordFunction::currentThreadId();

  double now() const { return Microseconds(Clock::now() - start).count(); }

  std::unique_ptr<at::ObserverContext> begin(const at::RecordFunction& function) {
    Event event;
    event.name = function.name();
    event.scope = function.scope();
    event.thread = at::RecordFunction::currentThreadId();
    event.parent = current;
    event.sequence_begin = event.scope == at::RecordScope::BACKWARD_FUNCTION
                               ? function.seqNr()
                               : static_cast<int64_t>(at::sequence_number::peek());
    auto context = std::make_unique<Context>();
    context->parent = current;
    const std::lock_guard lock(mutex);
    event.begin = now();
    current = context->event = static_cast<int>(events.size());
    events.push_back(std::move(event));
    return context;
  }

  void end(const Context& context) {
    current = context.parent;
    const std::lock_guard lock(mutex);
    Event& event = events[context.event];
    event.duration = now() - event.begin;
    event.sequence_end = static_cast<int64_t>(at::sequence_number::peek());
    if (event.parent != kNone) events[event.parent].inside += event.duration;
  }

  // Returns the layer to which a gradient belongs: the innermost layer that made its node.
  std::string layer_of_node(int64_t sequence) const {
    const Event* found = nullptr;
    for (const int index : layers) {
      const Event& layer = events[index];
      const bool inside = layer.sequence_begin <= sequence && sequence < layer.sequence_end;
      if (inside && (!found || layer.begin >= found->begin)) found = &layer;
    }
    return found ? found->name : "elsewhere";
  }

  struct Place {
    std::string layer;
    bool backward = false;
  };
  Place place_of(const Event& event) {
    for (const Event* at = &event;; at = &events[at->parent]) {
      if (at->scope == at::RecordScope::BACKWARD_FUNCTION && at->sequence_begin >= 0) {
        auto& known = nodes[at->sequence_begin];
        if (known.empty()) known = layer_of_node(at->sequence_begin);
        return {known, true};
      }
      if (at->scope == at::RecordScope::USER_SCOPE)
        return {at->name, at->name.starts_with("backward")};
      if (at->parent == kNone) return {"elsewhere", false};
    }
  }

  std::vector<int> layers;  // indices of layers' events on the main thread
  std::map<int64_t, std::string> nodes;
};

Profiler::Profiler(std::filesystem::path directory, int rank, c10::Device device)
    : directory_(std::move(directory)),
      rank_(rank),
      kernels_(device.is_cuda() ? std::make_unique<KernelTimes>(device) : nullptr),
      recording_(std::make_unique<Recording>()) {
  Recording* none = nullptr;
  COLOSSAL_CHECK(active.compare_exchange_strong(none, recording_.get()),
                 "rank {} began a profile while another was under way", rank);
  callback_ = at::addGlobalCallback(
      at::RecordFunctionCallback(
          [](const at::RecordFunction& function) -> std::unique_ptr<at::ObserverContext> {
            Recording* recording = active;
            return recording ? recording->begin(function) : nullptr;
          },
          [](const at::RecordFunction&, at::ObserverContext* context) {
            Recording* recording = active;
            if (recording && context) recording->end(static_cast<Context&>(*context));
          })
          .scopes({at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION,
                   at::RecordScope::USER_SCOPE}));
}

Profiler::~Profiler() {
  if (active.exchange(nullptr)) at::removeCallback(callback_);
}

namespace {

using Event = Profiler::Recording::Event;

void write_trace(const std::filesystem::path& path, const Profiler::Recording& recording,
                 int rank) {
  report::TraceWriter trace(path);
  for (const Event& event : recording.events) {
    const bool layer = event.scope == at::RecordScope::USER_SCOPE;
    const bool main = event.thread == recording.main_thread;
    trace.write({.name = event.name,
                 .category = !main                                      ? "other thread"
                             : layer                                    ? "layer"
                             : event.scope == at::RecordScope::FUNCTION ? "operator"
                                                                        : "gradient",
                 .start_microseconds = event.begin,
                 .duration_microseconds = event.duration,
                 .rank = rank,
                 .thread = main ? "compute" : fmt::format("thread {}", event.thread),
                 .arguments = {}});
  }
  trace.close();
}

std::string table_by_operator(const Profiler::Recording& recording, double total, int64_t steps) {
  struct Line {
    int64_t calls = 0;
    double time = 0;
  };
  std::map<std::string, Line> lines;
  for (const Event& event : recording.events) {
    if (event.thread != recording.main_thread) continue;
    if (event.scope == at::RecordScope::USER_SCOPE) continue;
    Line& line = lines[event.name];
    ++line.calls;
    line.time += event.self();
  }
  std::vector<std::pair<std::string, Line>> sorted(lines.begin(), lines.end());
  std::sort(sorted.begin(), sorted.end(),
            [](const auto& a, const auto& b) { return a.second.time > b.second.time; });
  const size_t shown = std::min(kOperatorLines, sorted.size());
  std::string text = fmt::format("{:<56} {:>8} {:>12} {:>7}\n", "operator (time of its own)",
                                 "calls", "ms a step", "share");
  for (const auto& [name, line] : std::vector(sorted.begin(), sorted.begin() + shown)) {
    text +=
        fmt::format("{:<56} {:>8} {:>12.2f} {:>6.1f}%\n", name.substr(0, 56), line.calls / steps,
                    line.time / 1e3 / static_cast<double>(steps), 100 * line.time / total);
  }
  return text;
}

std::string table_by_layer(Profiler::Recording& recording, double total, int64_t steps) {
  std::map<std::string, std::pair<double, double>> lines;  // {forward, backward}
  double rest = total;
  for (const Event& event : recording.events) {
    if (event.thread != recording.main_thread) continue;
    const auto place = recording.place_of(event);
    auto& line = lines[kind_of(place.layer)];
    (place.backward ? line.second : line.first) += event.self();
    rest -= event.self();
  }
  std::vector<std::pair<std::string, std::pair<double, double>>> sorted(lines.begin(), lines.end());
  const auto sum = [](const auto& line) { return line.second.first + line.second.second; };
  std::sort(sorted.begin(), sorted.end(),
            [&](const auto& a, const auto& b) { return sum(a) > sum(b); });
  const double per_step = 1e3 * static_cast<double>(steps);
  std::string text = fmt::format("{:<40} {:>14} {:>14} {:>7}\n", "layer (* : all of a kind)",
                                 "forward ms", "backward ms", "share");
  for (const auto& line : sorted) {
    text += fmt::format("{:<40} {:>14.2f} {:>14.2f} {:>6.1f}%\n", line.first.substr(0, 40),
                        line.second.first / per_step, line.second.second / per_step,
                        100 * sum(line) / total);
  }
  return text + fmt::format("{:<40} {:>29.2f} {:>6.1f}%\n", "(waiting, and between operators)",
                            rest / per_step, 100 * rest / total);
}

}  // namespace

std::string Profiler::stop(int64_t steps) {
  const double total = recording_->now();
  active = nullptr;
  at::removeCallback(callback_);
  // Calls in progress on other threads are not recorded.
  const std::lock_guard lock(recording_->mutex);
  for (int index = 0; index < static_cast<int>(recording_->events.size()); ++index) {
    const Event& event = recording_->events[index];
    if (event.scope == at::RecordScope::USER_SCOPE && event.thread == recording_->main_thread) {
      recording_->layers.push_back(index);
    }
  }
  write_trace(directory_ / fmt::format("trace-rank-{}.json", rank_), *recording_, rank_);
  std::string tables = fmt::format(
      "{} steps, {:.1f} ms a step\n\n{}\n{}", steps, total / 1e3 / static_cast<double>(steps),
      table_by_layer(*recording_, total, steps), table_by_operator(*recording_, total, steps));
  if (kernels_) tables += "\n" + kernels_->stop(total / 1e3, steps);
  if (rank_ == 0) {
    report::OutputFile file(directory_ / "profile.txt");
    file.write(tables);
    file.close();
  }
  return tables;
}

}  // namespace colossal
