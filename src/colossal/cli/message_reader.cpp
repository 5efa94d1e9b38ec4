#include "colossal/cli/message_reader.h"

#include <langinfo.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <clocale>
#include <cstdio>
#include <cstring>
#include <cwchar>

#include "colossal/base/error.h"

namespace colossal::cli {
namespace {

constexpr char kBlock[] = "\"\"\"";  // begins and ends a message of several lines
constexpr int kRemembered = 1000;    // messages of the history
// How long the next line of a pasted text may take.
constexpr int kPasteMilliseconds = 20;

void end_editor(EditLine* editor) {
  if (editor) el_end(editor);
}

void end_history(History* history) {
  if (history) history_end(history);
}

// The editor counts columns by the characters of the locale.
void use_utf8() {
  std::setlocale(LC_CTYPE, "");
  if (std::strcmp(nl_langinfo(CODESET), "UTF-8") != 0) std::setlocale(LC_CTYPE, "C.UTF-8");
}

// Reads one character. Returns 0 at the end of the input.
int read_character(wchar_t* character) {
  std::mbstate_t state{};
  while (true) {
    char byte = 0;
    const ssize_t count = ::read(STDIN_FILENO, &byte, 1);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return 0;
    const size_t length = std::mbrtowc(character, &byte, 1, &state);
    if (length == static_cast<size_t>(-2)) continue;  // more bytes of the character follow
    if (length == static_cast<size_t>(-1)) {          // no character begins so
      state = {};
      continue;
    }
    return 1;
  }
}

// Takes the end of the input (Ctrl-D) that was typed while the terminal read lines by itself. The
// editor would read it as an unknown character. Returns whether there was one.
bool take_end_of_input() {
  pollfd polled{STDIN_FILENO, POLLIN, 0};
  int num_characters = 0;  // before it
  if (poll(&polled, 1, 0) <= 0 || ioctl(STDIN_FILENO, FIONREAD, &num_characters) != 0) return false;
  char nothing = 0;
  return num_characters == 0 && ::read(STDIN_FILENO, &nothing, 1) == 0;
}

}  // namespace

MessageReader::MessageReader(cluster::SignalQueue& interrupts)
    : interrupts_(interrupts), editor_(nullptr, &end_editor), history_(nullptr, &end_history) {
  if (isatty(STDIN_FILENO) == 0) return;
  use_utf8();
  editor_.reset(el_init("colossal", stdin, stdout, stderr));
  history_.reset(history_init());
  if (!editor_ || !history_) throw Error("the terminal cannot be used for a chat");
  HistEvent event;
  history(history_.get(), &event, H_SETSIZE, kRemembered);
  history(history_.get(), &event, H_SETUNIQUE, 1);
  EditLine* const editor = editor_.get();
  el_set(editor, EL_CLIENTDATA, this);
  el_set(editor, EL_SIGNAL, 1);  // the terminal is restored when a signal ends or stops the program
  el_set(editor, EL_EDITOR, "emacs");
  el_set(editor, EL_HIST, history, history_.get());
  el_set(editor, EL_PROMPT, &prompt_of);
  el_set(editor, EL_GETCFN, &get_character);
  el_set(editor, EL_BIND, "^R", "em-inc-search-prev", nullptr);
  el_source(editor, nullptr);  // the user's ~/.editrc
}

const char* MessageReader::prompt_of(EditLine* editor) {
  MessageReader* self = nullptr;
  el_get(editor, EL_CLIENTDATA, &self);
  return self->prompt_;
}

int MessageReader::get_character(EditLine* editor, wchar_t* character) {
  MessageReader* self = nullptr;
  el_get(editor, EL_CLIENTDATA, &self);
  self->event_ = self->wait_for_input();
  if (self->event_ == Event::interrupt) return -1;
  const int count = read_character(character);
  if (count == 0) self->event_ = Event::end;
  return count;
}

MessageReader::Event MessageReader::wait_for_input() {
  pollfd polled[] = {{STDIN_FILENO, POLLIN, 0}, {interrupts_.fd(), POLLIN, 0}};
  while (poll(polled, 2, -1) < 0 && errno == EINTR) {
  }
  if (polled[1].revents == 0) return Event::input;
  interrupts_.take();
  return Event::interrupt;
}

bool MessageReader::has_input() const {
  pollfd polled{STDIN_FILENO, POLLIN, 0};
  return poll(&polled, 1, kPasteMilliseconds) > 0 && (polled.revents & POLLIN) != 0;
}

MessageReader::Event MessageReader::read_plain_line(std::string* line) {
  while (true) {
    if (const size_t end = held_.find('\n'); end != std::string::npos) {
      *line = held_.substr(0, end);
      held_.erase(0, end + 1);
      return Event::input;
    }
    if (wait_for_input() == Event::interrupt) return Event::interrupt;
    char buffer[4096];
    const ssize_t count = ::read(STDIN_FILENO, buffer, sizeof buffer);
    if (count > 0) {
      held_.append(buffer, static_cast<size_t>(count));
    } else if (held_.empty()) {
      return Event::end;
    } else {
      held_ += '\n';
    }
  }
}

MessageReader::Event MessageReader::read_edited_line(const char* prompt, std::string* line) {
  if (take_end_of_input()) return Event::end;
  prompt_ = prompt;
  event_ = Event::input;
  // Before the prompt: what is typed at it would else be read as a line of the terminal, which
  // keeps 4096 bytes.
  el_set(editor_.get(), EL_PREP_TERM, 1);
  int count = 0;
  const char* const text = el_gets(editor_.get(), &count);
  if (text && count > 0) {
    line->assign(text, static_cast<size_t>(count));
    if (line->ends_with('\n')) line->pop_back();
    return Event::input;
  }
  return event_ == Event::interrupt ? Event::interrupt : Event::end;
}

MessageReader::Event MessageReader::read_line(const char* prompt, std::string* line) {
  return editor_ ? read_edited_line(prompt, line) : read_plain_line(line);
}

std::optional<std::string> MessageReader::read(const std::string& draft) {
  if (editor_ && !draft.empty()) el_push(editor_.get(), draft.c_str());
  std::string message;
  Event event = read_line("> ", &message);
  const auto go_on = [&] {
    std::string line;
    event = read_line(". ", &line);
    message += "\n" + line;
    return event == Event::input;
  };
  if (event == Event::input && message.starts_with(kBlock)) {
    message.erase(0, sizeof kBlock - 1);
    while (!message.ends_with(kBlock) && go_on()) {
    }
    if (message.ends_with(kBlock)) message.erase(message.size() - (sizeof kBlock - 1));
    if (message.starts_with('\n')) message.erase(0, 1);
    if (message.ends_with('\n')) message.pop_back();
  }
  while (event == Event::input && message.ends_with('\\')) {
    message.pop_back();
    go_on();
  }
  while (event == Event::input && editor_ && has_input()) go_on();
  event_ = event;
  if (event == Event::interrupt) return "";
  if (event == Event::end && message.empty()) return std::nullopt;
  if (editor_ && !message.empty()) {
    HistEvent entered;
    history(history_.get(), &entered, H_ENTER, message.c_str());
  }
  return message;
}

}  // namespace colossal::cli
