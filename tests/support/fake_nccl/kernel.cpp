#include "tests/support/fake_nccl/kernel.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

#include "tests/support/emulated_gpu/settings.h"

namespace colossal::fake_nccl {
namespace {

constexpr int kSystemError = 2, kRemoteError = 6;  // of NCCL

void pause() {
  std::this_thread::sleep_for(std::chrono::microseconds(20));
}

std::atomic<int> resident_kernels{16};

// The room of a device of this process for kernels that wait for other ranks. They start in the
// order of their launches if NCCL_LAUNCH_ORDER_IMPLICIT says so.
struct Room {
  std::mutex mutex;
  std::set<int64_t> waiting;  // kernels that have not started, numbered by launch
  int64_t launched = 0;
  int running = 0;

  int64_t launch() {
    const std::lock_guard lock(mutex);
    waiting.insert(++launched);
    return launched;
  }
  bool starts(int64_t kernel) {
    static const char* const in_order = std::getenv("NCCL_LAUNCH_ORDER_IMPLICIT");
    const std::lock_guard lock(mutex);
    if (running >= resident_kernels) return false;
    if (in_order && in_order[0] == '1' && *waiting.begin() != kernel) return false;
    waiting.erase(kernel);
    ++running;
    return true;
  }
  void leave(int64_t kernel) {
    const std::lock_guard lock(mutex);
    if (waiting.erase(kernel) == 0) --running;
  }
};
std::array<Room, emulated_gpu::kMaxDevices> rooms;

std::atomic<int> failing_rank{-1};
std::atomic<int64_t> failing_number{0};

// The messages to or from one rank, one after the other.
class Lane {
 public:
  void add(const Message& message) { messages_.push_back(message); }
  bool is_done() const { return messages_.empty(); }

  // Moves what can be moved with `move`, which takes memory and bytes and returns the bytes that it
  // has moved; a header first. If it is not the expected one, nothing moves any more. Returns
  // whether anything was moved.
  template <typename Move>
  bool advance(const Move& move) {
    if (messages_.empty() || is_stuck_) return false;
    Message& message = messages_.front();
    size_t moved = 0;
    if (header_done_ < sizeof(Header)) {
      if (header_done_ == 0) header_ = message.header;
      moved = move(reinterpret_cast<std::byte*>(&header_) + header_done_,
                   sizeof(Header) - header_done_);
      header_done_ += moved;
      if (header_done_ < sizeof(Header)) return moved > 0;
      is_stuck_ = !(header_ == message.header);
      if (is_stuck_) return false;
    }
    const size_t of_data = move(message.memory + done_, message.header.bytes - done_);
    done_ += of_data;
    if (done_ == message.header.bytes) {
      messages_.pop_front();
      done_ = header_done_ = 0;
    }
    return moved + of_data > 0;
  }

 private:
  std::deque<Message> messages_;
  Header header_;
  bool is_stuck_ = false;
  size_t header_done_ = 0, done_ = 0;
};

std::map<int, Lane> lanes_of(const std::vector<Message>& messages) {
  std::map<int, Lane> lanes;
  for (const Message& message : messages) lanes[message.peer].add(message);
  return lanes;
}

// Returns false if the communicator was aborted or has failed.
bool move_messages(const Kernel& kernel, Communicator& communicator) {
  std::map<int, Lane> sends = lanes_of(kernel.sends), receives = lanes_of(kernel.receives);
  const auto all_done = [](const auto& lanes) {
    return std::ranges::all_of(lanes, [](const auto& lane) { return lane.second.is_done(); });
  };
  while (!all_done(sends) || !all_done(receives)) {
    bool moved = false;
    for (auto& [peer, lane] : sends) {
      Pipe& pipe = communicator.pipes.pipe(communicator.rank, peer);
      moved |= lane.advance([&](std::byte* from, size_t size) { return pipe.write(from, size); });
    }
    for (auto& [peer, lane] : receives) {
      Pipe& pipe = communicator.pipes.pipe(peer, communicator.rank);
      moved |= lane.advance([&](std::byte* to, size_t size) { return pipe.read(to, size); });
    }
    if (communicator.aborted) return false;
    if (communicator.pipes.is_broken()) {
      int none = 0;
      communicator.error.compare_exchange_strong(none, kRemoteError);
      return false;
    }
    if (!moved) pause();
  }
  return true;
}

// place: of the kernel among those of the device.
void run(const Kernel& kernel, Communicator& communicator, int64_t number, int64_t place) {
  Room& room = rooms[communicator.device];
  while (!communicator.aborted && !room.starts(place)) pause();
  if (is_planted(communicator.rank, number)) {
    communicator.error = kSystemError;
    communicator.pipes.break_off();
  } else if (!communicator.aborted && move_messages(kernel, communicator)) {
    kernel.finish();
  }
  room.leave(place);
}

}  // namespace

void Kernel::add(Kernel other) {
  const auto join = [](auto& all, const auto& more) {
    all.insert(all.end(), more.begin(), more.end());
  };
  join(sends, other.sends);
  join(receives, other.receives);
  join(reads, other.reads);
  join(writes, other.writes);
  finish = [first = std::move(finish), second = std::move(other.finish)] {
    first();
    second();
  };
}

void launch(Kernel kernel, const std::shared_ptr<Communicator>& communicator,
            emulated_gpu::Stream& stream) {
  const int64_t number = ++communicator->launched;
  emulated_gpu::Kernel launched{
      .name = "an NCCL kernel", .reads = kernel.reads, .writes = kernel.writes, .run = nullptr};
  launched.run = [kernel = std::move(kernel), communicator, number,
                  place = rooms[communicator->device].launch()] {
    run(kernel, *communicator, number, place);
    ++communicator->ended;
  };
  stream.launch(std::move(launched));
}

void set_resident_kernels(int count) {
  resident_kernels = count;
}

void plant_failure(int rank, int64_t number) {
  failing_rank = rank;
  failing_number = number;
}

bool is_planted(int rank, int64_t number) {
  return failing_rank == rank && failing_number == number;
}

}  // namespace colossal::fake_nccl
