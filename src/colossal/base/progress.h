// ProgressLine: a line on stderr that shows the progress of long work:
//
//   training  412/1,000 steps  41 %  1m23s, 1m58s left  4.96 steps/s  loss 2.31 | 612 MiB
//
// On a terminal the line is rewritten in place and cut to the terminal's width. If stderr is not a
// terminal, new lines ("plain lines") are written instead: at intervals that grow from 2 seconds to
// a minute, or once per `plain_every` units of work. Not thread-safe.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace colossal {

// Destination and clock of a progress line. Tests replace them.
struct ProgressOutput {
  std::function<void(std::string_view)> write;
  std::function<std::chrono::steady_clock::time_point()> now;
  bool terminal = false;       // whether `write` writes to a terminal
  std::function<int()> width;  // returns the terminal's columns; called only if `terminal`
};

// Returns an output that writes to stderr, with the steady clock.
ProgressOutput standard_progress_output();

class ProgressLine {
 public:
  // title: the first word of the line, "training". unit: the unit of work in the plural, "steps".
  // done: work done by an earlier run that this run resumes. It counts in "412/1,000" but not in
  // the rate. total: all work, `done` included; 0 if unknown: the line then does not show what is
  // left. plain_every: if set, a plain line is written whenever the work done reaches or passes a
  // multiple of it, instead of at intervals of time.
  ProgressLine(std::string title, int64_t done, int64_t total, std::string unit,
               ProgressOutput output = standard_progress_output(),
               std::optional<int64_t> plain_every = {});
  // If finish() was not called: on a terminal, moves to a new line if a line was written. Does not
  // write the last state.
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  // A function that returns text to append to the line. per_second: the rate that the line shows,
  // in units of work per second, from which the function may derive other rates.
  using Extra = std::function<std::string(double per_second)>;

  // Shows new progress, if it is time. Cheap enough to call in each step: most calls write nothing.
  // done: all work done so far, including that of an earlier run. extra: kept until the next
  // update(), and called for each line that is written, also by finish(); empty: appends nothing.
  void update(int64_t done, Extra extra = {});
  // Does not count this time in the rate and in the time that is left: other work was done in it.
  void exclude(std::chrono::steady_clock::duration pause) { start_ += pause; }
  // Writes the last state, unless the last plain line shows it already, and ends the line.
  void finish();

 private:
  using Duration = std::chrono::duration<double>;

  bool is_due(Duration now) const;           // whether a line must be written now
  std::string text(Duration elapsed) const;  // the line
  void draw(Duration elapsed);               // writes the line
  Duration elapsed() const;                  // time since construction

  std::string title_;
  int64_t first_done_;  // `done` of the constructor
  int64_t done_;
  int64_t total_;
  std::string unit_;
  Extra extra_;
  ProgressOutput output_;
  std::optional<int64_t> plain_every_;
  std::chrono::steady_clock::time_point start_;
  Duration next_draw_{0};              // elapsed() from which a line is due
  std::optional<int64_t> drawn_done_;  // `done` of the last line written
  bool finished_ = false;
};

}  // namespace colossal
