#include "tests/support/fake_nccl/pipes.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace colossal::fake_nccl {
namespace {

constexpr size_t kAlignment = 64;

}  // namespace

size_t Pipe::write(const std::byte* from, size_t size) {
  const uint64_t written = written_.load(std::memory_order_relaxed);
  const size_t room = kSize - (written - read_.load(std::memory_order_acquire));
  const size_t moved = std::min(size, room);
  for (size_t done = 0; done < moved;) {
    const size_t at = (written + done) % kSize;
    const size_t part = std::min(moved - done, kSize - at);
    std::memcpy(bytes_ + at, from + done, part);
    done += part;
  }
  written_.store(written + moved, std::memory_order_release);
  return moved;
}

size_t Pipe::read(std::byte* to, size_t size) {
  const uint64_t position = read_.load(std::memory_order_relaxed);
  const size_t there = written_.load(std::memory_order_acquire) - position;
  const size_t moved = std::min(size, there);
  for (size_t done = 0; done < moved;) {
    const size_t at = (position + done) % kSize;
    const size_t part = std::min(moved - done, kSize - at);
    std::memcpy(to + done, bytes_ + at, part);
    done += part;
  }
  read_.store(position + moved, std::memory_order_release);
  return moved;
}

Pipes::Pipes(const std::string& name, int ranks)
    : ranks_(ranks), size_(kAlignment + sizeof(Pipe) * ranks * ranks) {
  const int file = shm_open(name.c_str(), O_RDWR | O_CREAT, 0600);
  if (file < 0 || ftruncate(file, static_cast<off_t>(size_)) != 0) std::abort();
  void* const at = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (at == MAP_FAILED) std::abort();
  close(file);
  shared_ = static_cast<Shared*>(at);
  if (++shared_->arrived == ranks) shm_unlink(name.c_str());
}

Pipes::~Pipes() {
  munmap(shared_, size_);
}

bool Pipes::all_have_come() const {
  return shared_->arrived == ranks_;
}

Pipe& Pipes::pipe(int from, int to) {
  auto* const first = reinterpret_cast<std::byte*>(shared_) + kAlignment;
  return reinterpret_cast<Pipe*>(first)[from * ranks_ + to];
}

void Pipes::break_off() {
  shared_->broken = 1;
}

bool Pipes::is_broken() const {
  return shared_->broken != 0;
}

}  // namespace colossal::fake_nccl
