#include "colossal/text/tokenizer/special_text_guard.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "colossal/text/utf8.h"

namespace colossal::text {
namespace {

using nlohmann::ordered_json;

constexpr std::array<std::pair<std::string_view, std::string_view>, 8> kBrackets{{{"<|", "|>"},
                                                                                  {"</", ">"},
                                                                                  {"<", ">"},
                                                                                  {"[/", "]"},
                                                                                  {"[", "]"},
                                                                                  {"<｜", "｜>"},
                                                                                  {"<|", ">"},
                                                                                  {"<", "|>"}}};
// A template may build the token of a role, as in "<|" ~ role ~ "|>".
constexpr std::array<std::string_view, 12> kRoles{
    "system", "user",  "assistant",   "tool",        "developer", "function",
    "model",  "human", "environment", "observation", "ipython",   "chatbot"};

std::string without_marks(std::string_view text) {
  std::string kept;
  for (size_t at = 0; at < text.size();) {
    const size_t found = std::min(text.find(SpecialTextGuard::kMark, at), text.size());
    kept += text.substr(at, found - at);
    at = found + SpecialTextGuard::kMark.size();
  }
  return kept;
}

}  // namespace

SpecialTextGuard::SpecialTextGuard(const std::vector<std::string>& special,
                                   std::vector<std::string> literals) {
  for (const std::string& token : special) {
    if (token.empty()) continue;
    size_t length = 0;
    next_code_point(token, length);
    const std::string first = token.substr(0, length);
    if (std::ranges::find(first_characters_, first) == first_characters_.end()) {
      first_characters_.push_back(first);
    }
    for (const auto& [open, close] : kBrackets) {
      if (token.size() <= open.size() + close.size()) continue;
      if (!token.starts_with(open) || !token.ends_with(close)) continue;
      const std::string inner =
          token.substr(open.size(), token.size() - open.size() - close.size());
      // A template that knows the word looks for it.
      if (std::ranges::find(literals, inner) == literals.end()) inner_.insert(inner);
    }
  }
  for (std::string& literal : literals) {
    const bool touches = std::ranges::any_of(special, [&](const std::string& token) {
      return !token.empty() && (literal.find(token) != literal.npos || token.starts_with(literal));
    });
    const bool begins = std::ranges::any_of(
        first_characters_, [&](const std::string& first) { return literal.starts_with(first); });
    if (begins && !touches) literals_.push_back(std::move(literal));
  }
}

bool SpecialTextGuard::completes_token(std::string_view text) const {
  return inner_.contains(text) && std::ranges::find(kRoles, text) == kRoles.end();
}

std::string SpecialTextGuard::marked(std::string_view text) const {
  std::string made = completes_token(text) ? std::string(kMark) : "";
  for (size_t at = 0; at < text.size();) {
    const std::string_view rest = text.substr(at);
    const auto begins = [&](const std::string& what) { return rest.starts_with(what); };
    if (const auto literal = std::ranges::find_if(literals_, begins); literal != literals_.end()) {
      made += *literal;
      at += literal->size();
    } else if (const auto first = std::ranges::find_if(first_characters_, begins);
               first != first_characters_.end()) {
      made += *first;
      made += kMark;
      at += first->size();
    } else {
      made += text[at++];
    }
  }
  return made;
}

void SpecialTextGuard::mark(ordered_json& value) const {
  if (first_characters_.empty()) return;
  if (value.is_string()) {
    value = marked(without_marks(value.get_ref<const std::string&>()));
  } else if (value.is_array()) {
    for (auto& item : value) mark(item);
  } else if (value.is_object()) {
    ordered_json made = ordered_json::object();
    for (auto& [key, item] : value.items()) {
      mark(item);
      made[marked(without_marks(key))] = std::move(item);
    }
    value = std::move(made);
  }
}

std::vector<size_t> SpecialTextGuard::take_marks(std::string& text,
                                                 const std::vector<size_t*>& offsets) {
  std::vector<size_t> marks;
  std::string kept;
  size_t done = 0;
  for (size_t at = text.find(kMark); at != text.npos; at = text.find(kMark, done)) {
    kept.append(text, done, at - done);
    done = at + kMark.size();
    marks.push_back(kept.size());
  }
  if (marks.empty()) return marks;
  kept.append(text, done);
  // A mark takes as many bytes as its own length from all offsets behind it.
  for (size_t* offset : offsets) {
    size_t removed = 0;
    for (const size_t mark : marks) {
      if (mark + removed >= *offset) break;
      removed += kMark.size();
    }
    *offset -= std::min(removed, *offset);
  }
  text = std::move(kept);
  return marks;
}

}  // namespace colossal::text
