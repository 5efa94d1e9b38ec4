// Random texts of grammars.
#pragma once

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "colossal/text/grammar/automaton.h"

namespace colossal::text::grammar {

// Draws a random text of the grammar, which ends once it has `length` bytes and may end.
inline std::string draw(Automaton& automaton, std::mt19937& random, size_t length) {
  std::string text;
  Automaton::State state = automaton.start();
  automaton.begin_work();
  while (!automaton.must_end(state)) {
    if (automaton.may_end(state) && text.size() > length) break;
    std::vector<unsigned char> possible;
    for (int byte = 0; byte < 256; ++byte) {
      if (automaton.next(state, static_cast<unsigned char>(byte)) != Automaton::kDead) {
        possible.push_back(static_cast<unsigned char>(byte));
      }
    }
    if (possible.empty()) break;
    // Prefers bytes that close over bytes that open, so that the text ends soon.
    unsigned char byte = possible[random() % possible.size()];
    for (const char close : {'"', '}', ']', '>'}) {
      if (random() % 2 && std::ranges::count(possible, static_cast<unsigned char>(close))) {
        byte = static_cast<unsigned char>(close);
      }
    }
    text += static_cast<char>(byte);
    state = automaton.next(state, byte);
  }
  return text;
}

}  // namespace colossal::text::grammar
