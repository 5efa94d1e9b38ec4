// Reads the messages of a chat from stdin: in a terminal with line editing and history (libedit),
// otherwise line by line. Lines have no limit.
#pragma once

#include <histedit.h>

#include <memory>
#include <optional>
#include <string>

#include "colossal/cluster/signal_queue.h"

namespace colossal::cli {

// A message is one line, or several:
//   - A line that ends with a backslash goes on with the next line.
//   - Lines between """ and """.
//   - In a terminal, lines that are pasted at once.
class MessageReader {
 public:
  // interrupts: a queue of SIGINT, which ends a wait; must outlive the object.
  explicit MessageReader(cluster::SignalQueue& interrupts);

  // Waits for a message. draft: text that the line begins with and that the user can edit; only in
  // a terminal. Returns nothing at the end of the input, and an empty text at an interrupt.
  std::optional<std::string> read(const std::string& draft = "");
  // Returns whether an interrupt has ended the last read().
  bool is_interrupted() const { return event_ == Event::interrupt; }
  // Returns whether stdin is a terminal.
  bool is_terminal() const { return editor_ != nullptr; }

 private:
  // How reading a line, or waiting for input, has ended.
  enum class Event { input, interrupt, end };

  // Reads a line without its line break into *line.
  Event read_line(const char* prompt, std::string* line);
  Event read_plain_line(std::string* line);
  Event read_edited_line(const char* prompt, std::string* line);
  // Waits until stdin has bytes.
  Event wait_for_input();
  // Returns whether stdin has bytes already, or gets them at once.
  bool has_input() const;
  // libedit's function to read a character.
  static int get_character(EditLine* editor, wchar_t* character);
  static const char* prompt_of(EditLine* editor);

  cluster::SignalQueue& interrupts_;
  std::string held_;  // bytes of stdin after the last line, without a terminal
  std::unique_ptr<EditLine, void (*)(EditLine*)> editor_;  // null without a terminal
  std::unique_ptr<History, void (*)(History*)> history_;
  const char* prompt_ = "";
  Event event_ = Event::input;  // of the last character, and of the last read()
};

}  // namespace colossal::cli
