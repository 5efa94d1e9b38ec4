#include "colossal/serve/scheduler.h"

#include <algorithm>
#include <set>

#include "colossal/base/error.h"
#include "colossal/serve/beam_group.h"

namespace colossal::serve {

Scheduler::Scheduler(const SchedulerOptions& options, int64_t pages,
                     std::function<void(int64_t, int64_t)> copy_page)
    : options_(options), pages_(pages), copy_page_(std::move(copy_page)) {}

void Scheduler::add(std::unique_ptr<Sequence> sequence) {
  const auto order = sequence->order();
  waiting_.emplace(order, std::move(sequence));
}

std::vector<Scheduler::Work> Scheduler::schedule() {
  int64_t budget = options_.max_batch_tokens;
  const size_t most = share_of_step();
  Works works;
  const int64_t preemptions_before = preemptions_;
  // First sequences in the decode phase, then sequences in the prefill phase.
  for (const bool single : {true, false}) {
    std::vector<Sequence*> in_order;
    for (const auto& [order, sequence] : running_) {
      if (sequence->is_schedulable() && sequence->generates() == single) {
        in_order.push_back(sequence.get());
      }
    }
    for (Sequence* sequence : in_order) {
      if (works.size() >= most) break;
      // An earlier iteration may have preempted this sequence.
      if (running_.contains(sequence->order())) continue_running(*sequence, budget, works);
    }
  }
  // Admits no waiting sequences after a preemption: the released pages are for sequences that come
  // first.
  if (preemptions_ == preemptions_before) {
    while (budget > 0 && works.size() < most) {
      const auto next = next_to_admit();
      if (next == waiting_.end() || !admit(next, budget, works)) break;
    }
  }
  // If nothing can be computed, all running sequences may be beams that wait for a preempted beam.
  // Preempts running sequences until that beam has pages.
  const auto is_in_step = [](const auto& entry) { return entry.second->steps > 0; };
  while (works.empty() && !running_.empty() && std::ranges::none_of(running_, is_in_step) &&
         !awaits_constraint()) {
    const auto next = next_to_admit();
    if (next == waiting_.end() || admit(next, budget, works)) break;
    preempt(*running_.rbegin()->second, works);
  }
  std::vector<Work> chosen;
  for (const auto& [order, work] : works) {
    ++work.sequence->steps;
    work.sequence->tokens_in_flight += work.count - work.drafts;
    chosen.push_back(work);
  }
  std::ranges::stable_sort(chosen, {}, [](const Work& work) {
    return std::pair(!work.generates(), work.sequence->adapter_number());
  });
  return chosen;
}

bool Scheduler::awaits_constraint() const {
  return std::ranges::any_of(running_,
                             [](const auto& entry) { return entry.second->awaits_constraint(); });
}

size_t Scheduler::share_of_step() const {
  int64_t sequences = 0;
  for (const Sequences* all : {&running_, &waiting_}) {
    sequences +=
        std::ranges::count_if(*all, [](const auto& entry) { return !entry.second->waits; });
  }
  sequences = std::min(sequences, options_.max_num_seqs);
  return (sequences + options_.max_steps_in_flight - 1) / options_.max_steps_in_flight;
}

bool Scheduler::has_more() {
  const auto is_schedulable = [](const auto& entry) { return entry.second->is_schedulable(); };
  return std::ranges::any_of(running_, is_schedulable) || next_to_admit() != waiting_.end();
}

void Scheduler::continue_running(Sequence& sequence, int64_t& budget, Works& works) {
  if (budget == 0) return;
  const int64_t count = chunk_of(sequence, budget);
  sequence.drafts.resize(std::max<int64_t>(0, count - sequence.remaining()));
  const int64_t begin = sequence.computed + sequence.tokens_in_flight;
  while (!reserve(sequence, begin + count)) {
    Sequence* const last = preemption_victim(sequence);
    if (!last) return;
    if (const auto work = works.find(last->order()); work != works.end()) {
      budget += work->second.count;
    }
    preempt(*last, works);
    if (last == &sequence) return;
  }
  budget -= count;
  works[sequence.order()] = {&sequence, begin, count, std::ssize(sequence.drafts)};
}

Sequence* Scheduler::preemption_victim(const Sequence& sequence) const {
  for (auto last = running_.rbegin(); last->second.get() != &sequence; ++last) {
    if (last->second->steps == 0) return last->second.get();
  }
  Sequence* const last = running_.rbegin()->second.get();
  return last == &sequence && last->steps == 0 ? last : nullptr;
}

int64_t Scheduler::slots_in_use() const {
  int64_t slots = 0;
  std::set<const BeamGroup*> groups;
  for (const Sequences* sequences : {&running_, &waiting_}) {
    for (const auto& [order, sequence] : *sequences) {
      if (!sequence->group) {
        slots += sequences == &running_ ? 1 : 0;
      } else if (sequence->has_started && groups.insert(sequence->group.get()).second) {
        slots += sequence->request.beams.width;
      }
    }
  }
  return slots;
}

auto Scheduler::next_to_admit() -> Sequences::iterator {
  int64_t slots = options_.max_num_seqs - slots_in_use();
  return std::ranges::find_if(waiting_, [&](const auto& entry) {
    const Sequence& sequence = *entry.second;
    if (sequence.waits) return false;
    if (sequence.group && sequence.has_started) return true;
    if ((sequence.group ? sequence.request.beams.width : 1) <= slots) return true;
    slots = 0;  // later sequences must not overtake this one
    return false;
  });
}

bool Scheduler::admit(Sequences::iterator next, int64_t& budget, Works& works) {
  Sequence& sequence = *next->second;
  if (options_.prefix_cache && !sequence.wants_whole_prompt()) find_prefix(sequence);
  if (options_.whole_prompts && sequence.remaining() > budget && !works.empty()) return false;
  const int64_t missing = pages_for(sequence.size() + 1) - std::ssize(sequence.pages);
  if (missing > pages_.available()) {
    release(sequence);
    return false;
  }
  if (!sequence.has_started) {
    sequence.has_started = true;
    sequence.started = Sequence::Clock::now();
    sequence.usage.cached_tokens = sequence.computed;
    if (options_.prefix_cache) prefix_queries_ += sequence.prompt_size();
    prefix_hits_ += sequence.computed;
  }
  const int64_t count = chunk_of(sequence, budget);
  COLOSSAL_CHECK(reserve(sequence, sequence.computed + count), "{} pages for {} tokens",
                 pages_.available(), count);
  budget -= count;
  works[sequence.order()] = {&sequence, sequence.computed, count};
  running_.insert(waiting_.extract(next));
  return true;
}

// Does not use cached pages for the last token, because its logits are needed.
void Scheduler::find_prefix(Sequence& sequence) {
  const int64_t size = options_.page_size;
  const std::span<const int32_t> tokens(sequence.tokens);
  while (sequence.computed + size <= sequence.size()) {
    const auto found =
        pages_.find(sequence.prefix(), sequence.salt, tokens.subspan(sequence.computed, size));
    if (!found) break;
    pages_.share(found->page);
    sequence.pages.push_back(found->page);
    sequence.kept.push_back(found->prefix);
    sequence.computed += size;
    if (sequence.computed == sequence.size()) copy_last_page(sequence);
  }
}

void Scheduler::copy_last_page(Sequence& sequence) {
  const int64_t shared = sequence.pages.back();
  sequence.pages.pop_back();
  sequence.kept.pop_back();
  sequence.computed -= options_.page_size;
  if (pages_.available() > 0) {
    const int64_t own = pages_.take();
    copy_page_(shared, own);
    sequence.pages.push_back(own);
    sequence.computed = sequence.size() - 1;
  }
  pages_.release(shared);
}

int64_t Scheduler::chunk_of(const Sequence& sequence, int64_t budget) const {
  if (options_.whole_prompts) return sequence.remaining();
  const int64_t most =
      sequence.wants_prompt_logprobs() ? std::min(budget, options_.max_scored_tokens) : budget;
  return std::min(most, sequence.remaining() + std::ssize(sequence.drafts));
}

void Scheduler::finish(const Work& work) {
  Sequence& sequence = *work.sequence;
  sequence.computed += work.count - work.drafts;
  sequence.tokens_in_flight -= work.count - work.drafts;
  keep_full_pages(sequence);
}

void Scheduler::accept_draft(Sequence& sequence) {
  ++sequence.computed;
  keep_full_pages(sequence);
}

void Scheduler::keep_full_pages(Sequence& sequence) {
  if (!options_.prefix_cache) return;
  const int64_t size = options_.page_size;
  const std::span<const int32_t> tokens(sequence.tokens);
  for (int64_t page = std::ssize(sequence.kept); (page + 1) * size <= sequence.computed; ++page) {
    sequence.kept.push_back(pages_.keep(sequence.pages[page], sequence.prefix(), sequence.salt,
                                        tokens.subspan(page * size, size)));
  }
}

std::vector<Sequence*> Scheduler::generating() const {
  std::vector<Sequence*> all;
  const size_t most = share_of_step();
  for (const auto& [order, sequence] : running_) {
    if (all.size() >= most) break;
    if (sequence->is_schedulable() && sequence->generates()) all.push_back(sequence.get());
  }
  return all;
}

int64_t Scheduler::reserve_for_drafts(Sequence& sequence, int64_t most) {
  // Each running sequence may need a page for its next token.
  const int64_t spare = std::max<int64_t>(0, pages_.available() - running());
  const int64_t free = (std::ssize(sequence.pages) + spare) * options_.page_size - sequence.size();
  const int64_t drafts = std::clamp<int64_t>(free, 0, most);
  const bool has_room = reserve(sequence, sequence.size() + drafts);
  return has_room ? drafts : 0;
}

bool Scheduler::has(uint64_t id) const {
  const auto is_it = [&](const auto& entry) { return entry.second->id == id; };
  return std::ranges::any_of(running_, is_it) || std::ranges::any_of(waiting_, is_it);
}

Sequence& Scheduler::fork(const Sequence& from, int64_t beam) {
  auto made = std::make_unique<Sequence>(from);
  made->beam = beam;
  made->steps = 0;
  for (const int64_t page : made->pages) pages_.share(page);
  copy_partial_last_page(*made);
  Sequences& sequences = running_.contains(from.order()) ? running_ : waiting_;
  const auto order = made->order();
  return *sequences.emplace(order, std::move(made)).first->second;
}

void Scheduler::copy_partial_last_page(Sequence& sequence) {
  if (sequence.computed % options_.page_size == 0) return;
  const int64_t shared = sequence.pages.back();
  sequence.pages.pop_back();
  if (pages_.available() > 0) {
    sequence.pages.push_back(pages_.take());
    copy_page_(shared, sequence.pages.back());
  } else {
    sequence.computed -= sequence.computed % options_.page_size;
  }
  pages_.release(shared);
}

std::unique_ptr<Sequence> Scheduler::remove(const Sequence& sequence) {
  for (Sequences* sequences : {&running_, &waiting_}) {
    const auto found = sequences->find(sequence.order());
    if (found != sequences->end()) return take_out(*sequences, found);
  }
  return nullptr;
}

std::unique_ptr<Sequence> Scheduler::remove(uint64_t id) {
  for (Sequences* sequences : {&running_, &waiting_}) {
    const auto found =
        std::ranges::find_if(*sequences, [&](const auto& entry) { return entry.second->id == id; });
    if (found != sequences->end()) return take_out(*sequences, found);
  }
  return nullptr;
}

std::unique_ptr<Sequence> Scheduler::take_out(Sequences& sequences, Sequences::iterator found) {
  std::unique_ptr<Sequence> sequence = std::move(found->second);
  sequences.erase(found);
  release(*sequence);
  return sequence;
}

std::vector<uint64_t> Scheduler::ids() const {
  std::vector<uint64_t> all;
  for (const Sequences* sequences : {&running_, &waiting_}) {
    for (const auto& [order, sequence] : *sequences) all.push_back(sequence->id);
  }
  return all;
}

int64_t Scheduler::pages_for(int64_t tokens) const {
  return (tokens + options_.page_size - 1) / options_.page_size;
}

bool Scheduler::reserve(Sequence& sequence, int64_t tokens) {
  const int64_t missing = pages_for(tokens) - std::ssize(sequence.pages);
  if (missing > pages_.available()) return false;
  for (int64_t page = 0; page < missing; ++page) sequence.pages.push_back(pages_.take());
  return true;
}

// Releases the last page first: the pool evicts first what was released first, and the pages of a
// text are of no use without the pages before them.
void Scheduler::release(Sequence& sequence) {
  for (; !sequence.pages.empty(); sequence.pages.pop_back()) pages_.release(sequence.pages.back());
  sequence.computed = 0;
  sequence.drafts.clear();
  sequence.drafted = 0;
  sequence.states = at::Tensor();
  sequence.kept.clear();
}

void Scheduler::preempt(Sequence& sequence, Works& works) {
  ++preemptions_;
  works.erase(sequence.order());
  release(sequence);
  waiting_.insert(running_.extract(sequence.order()));
}

}  // namespace colossal::serve
