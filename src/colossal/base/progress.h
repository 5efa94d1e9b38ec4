// A line that says how far long work has come:
//
//   training  412/1,000 steps  41 %  1m23s, 1m58s left  4.96 steps/s  loss 2.31 | 612 MiB
//
// On a terminal it is rewritten in place and cut to the width; elsewhere it comes as plain lines,
// often at first and once a minute in the end, or each time that so many more are done.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace colossal {

// Where a progress line goes, and by which clock. Tests put their own in.
struct ProgressOutput {
  std::function<void(std::string_view)> write;
  std::function<std::chrono::steady_clock::time_point()> now;
  bool terminal = false;
  std::function<int()> width;  // columns of the terminal
};

// stderr, as it is.
ProgressOutput standard_progress_output();

class ProgressLine {
 public:
  // `done` is what a resumed run has done already: it counts in "412/1,000" but not in the rate.
  // With `total` 0 the end is unknown, and the line says nothing of what is left. With
  // `plain_every` a plain line comes whenever that many more are done.
  ProgressLine(std::string title, int64_t done, int64_t total, std::string unit,
               ProgressOutput output = standard_progress_output(),
               std::optional<int64_t> plain_every = {});
  // Ends the line where it is, if finish() was not reached.
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  // Returns what else the line shows. It is given the rate that the line shows, so that figures
  // derived from the rate agree with it.
  using Extra = std::function<std::string(double per_second)>;

  // Cheap enough for each step: most calls write nothing.
  void update(int64_t done, Extra extra = {});
  // Writes the last state, if that is not what stands there, and ends the line.
  void finish();

 private:
  using Duration = std::chrono::duration<double>;

  bool is_due(Duration now) const;
  std::string text(Duration elapsed) const;
  void draw(Duration elapsed);
  Duration elapsed() const;

  std::string title_;
  int64_t first_done_;
  int64_t done_;
  int64_t total_;
  std::string unit_;
  Extra extra_;
  ProgressOutput output_;
  std::optional<int64_t> plain_every_;
  std::chrono::steady_clock::time_point start_;
  Duration next_draw_{0};
  std::optional<int64_t> drawn_done_;  // what the last line written says
  bool finished_ = false;
};

}  // namespace colossal
