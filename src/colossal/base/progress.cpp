#include "colossal/base/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "colossal/base/units.h"

namespace colossal {
namespace {

using Duration = std::chrono::duration<double>;

constexpr Duration kTerminalInterval{0.1};

// Returns the time until the next line when stderr is not a terminal: a quarter of the elapsed
// time, at least 2 s and at most a minute.
Duration plain_interval(Duration elapsed) {
  return std::clamp(elapsed / 4, Duration(2), Duration(60));
}

int terminal_width() {
  winsize size{};
  const bool known = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return known ? size.ws_col : 80;
}

// Returns the first `width` characters of UTF-8 text.
std::string_view cut(std::string_view text, int width) {
  int characters = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool starts_character = (static_cast<unsigned char>(text[i]) & 0xC0) != 0x80;
    if (starts_character && ++characters > width) return text.substr(0, i);
  }
  return text;
}

}  // namespace

ProgressOutput standard_progress_output() {
  return {.write = [](std::string_view text) { std::fwrite(text.data(), 1, text.size(), stderr); },
          .now = [] { return std::chrono::steady_clock::now(); },
          .terminal = isatty(STDERR_FILENO) != 0,
          .width = terminal_width};
}

ProgressLine::ProgressLine(std::string title, int64_t done, int64_t total, std::string unit,
                           ProgressOutput output, std::optional<int64_t> plain_every)
    : title_(std::move(title)),
      first_done_(done),
      done_(done),
      total_(total),
      unit_(std::move(unit)),
      output_(std::move(output)),
      plain_every_(plain_every),
      start_(output_.now()) {}

ProgressLine::~ProgressLine() {
  if (!finished_ && drawn_done_ && output_.terminal) output_.write("\n");
}

bool ProgressLine::is_due(Duration now) const {
  if (output_.terminal || !plain_every_) return now >= next_draw_;
  return done_ / *plain_every_ != drawn_done_.value_or(first_done_) / *plain_every_;
}

void ProgressLine::update(int64_t done, Extra extra) {
  done_ = done;
  extra_ = std::move(extra);
  const Duration now = elapsed();
  if (!is_due(now)) return;
  draw(now);
  next_draw_ = now + (output_.terminal ? kTerminalInterval : plain_interval(now));
}

void ProgressLine::finish() {
  if (finished_) return;
  finished_ = true;
  if (output_.terminal || drawn_done_ != done_) draw(elapsed());
  if (output_.terminal) output_.write("\n");
}

std::string ProgressLine::text(Duration elapsed) const {
  std::string line = title_ + "  " + format_count(done_);
  if (total_ > 0) line += "/" + format_count(total_);
  line += " " + unit_;
  if (total_ > 0) line += fmt::format("  {:.0f} %", 100.0 * done_ / total_);
  line += "  " + format_duration(elapsed);
  const double rate = static_cast<double>(done_ - first_done_) / std::max(elapsed.count(), 1e-9);
  if (done_ > first_done_) {
    if (total_ > done_) line += ", " + format_duration(Duration((total_ - done_) / rate)) + " left";
    line += "  " + format_rate(rate, unit_);
  }
  if (extra_) line += "  " + extra_(rate);
  return line;
}

void ProgressLine::draw(Duration elapsed) {
  const std::string line = text(elapsed);
  if (output_.terminal) {
    // One column stays free: a full line would move the cursor to the next line.
    output_.write(fmt::format("\r{}\033[K", cut(line, output_.width() - 1)));
  } else {
    output_.write(line + "\n");
  }
  drawn_done_ = done_;
}

ProgressLine::Duration ProgressLine::elapsed() const {
  return output_.now() - start_;
}

}  // namespace colossal
