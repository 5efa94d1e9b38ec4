// Decides which tokens of which sequences a step computes, and allocates their pages.
//
// Order within a step: sequences in the decode phase (one token each), then chunks of running
// sequences in prefill, then waiting sequences, until the step's tokens or the pages are used up;
// within each of these three, by priority and arrival. If a running sequence needs a page and none
// is free, the last running sequence that is in no step in flight is preempted: it releases its
// pages and waits again, at its place in the order. Later its keys and values are recomputed,
// except in pages that the prefix cache still has.
//
// A request with beam search counts as `width` sequences once it has started, and its beams run
// whenever there are pages. A beam that waits for the logits of other beams is not scheduled.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "colossal/serve/page_pool.h"
#include "colossal/serve/sequence.h"

namespace colossal::serve {

struct SchedulerOptions {
  int64_t page_size = 16;
  int64_t max_num_seqs = 64;
  int64_t max_batch_tokens = 512;
  // most tokens per chunk if prompt log-probabilities are requested
  int64_t max_scored_tokens = 512;
  bool prefix_cache = true;
  // Most steps in flight. A step takes at most its share of the sequences (their number divided by
  // max_steps_in_flight, rounded up), so that work is left for the other steps.
  int64_t max_steps_in_flight = 1;
};

class Scheduler {
 public:
  // Tokens [begin, begin + count) of a sequence, of which the last `drafts` are draft tokens.
  struct Work {
    Sequence* sequence = nullptr;
    int64_t begin = 0;
    int64_t count = 0;
    int64_t drafts = 0;

    bool generates() const { return count - drafts == 1; }
  };

  // pages: total number of pages. copy_page(from, to): called when the keys and values of a page
  // must be copied before the next step.
  Scheduler(const SchedulerOptions& options, int64_t pages,
            std::function<void(int64_t, int64_t)> copy_page);

  void add(std::unique_ptr<Sequence> sequence);
  // Returns the running sequences from which the next step may generate, in order: each has one
  // token to compute.
  std::vector<Sequence*> generating() const;
  // Whether another step could have work.
  bool has_more();
  // Reserves pages for draft tokens of a sequence from generating(), but leaves one free page for
  // each running sequence. Returns how many draft tokens have room, at most `most`.
  int64_t reserve_for_drafts(Sequence& sequence, int64_t most);
  // Returns the work of a step, sequences in the decode phase first. Within the decode phase, and
  // within prefill, sequences with the same adapter are adjacent. Several steps in flight may each
  // have a chunk of the same prompt. Increments Sequence::steps; while that is above 0, the
  // sequence is not preempted. Returns an empty list if steps in flight compute all there is to
  // compute, or hold all pages.
  std::vector<Work> schedule();
  // Call with each work of a step whose results have arrived, if its sequence has not ended: the
  // keys and values of its tokens, except draft tokens, are now in the pages.
  void finish(const Work& work);
  // Call when the first draft token of a sequence was accepted and appended to its tokens: the
  // draft token's keys and values are in the pages.
  void accept_draft(Sequence& sequence);
  bool has(uint64_t id) const;
  // Adds a beam with a copy of the text of `from`, and returns it. The two share their full pages.
  // A partly filled last page is copied, or computed again if no page is free.
  Sequence& fork(const Sequence& from, int64_t beam);
  // Remove a sequence, release its pages and return it; null if there is no such sequence. All
  // beams of a request have its id, so remove(id) removes one of them at each call.
  std::unique_ptr<Sequence> remove(uint64_t id);
  std::unique_ptr<Sequence> remove(const Sequence& sequence);
  std::vector<uint64_t> ids() const;  // of all running and waiting sequences

  bool empty() const { return running_.empty() && waiting_.empty(); }
  int64_t running() const { return std::ssize(running_); }
  int64_t waiting() const { return std::ssize(waiting_); }
  const PagePool& pages() const { return pages_; }
  int64_t preemptions() const { return preemptions_; }
  int64_t prefix_queries() const { return prefix_queries_; }
  int64_t prefix_hits() const { return prefix_hits_; }

 private:
  using Sequences = std::map<Sequence::Order, std::unique_ptr<Sequence>>;
  using Works = std::map<Sequence::Order, Work>;  // key: Sequence::order()

  int64_t pages_for(int64_t tokens) const;
  // Gives a sequence pages for its first `tokens` tokens; false if there are too few free pages.
  bool reserve(Sequence& sequence, int64_t tokens);
  void release(Sequence& sequence);
  std::unique_ptr<Sequence> take_out(Sequences& sequences, Sequences::iterator found);
  void preempt(Sequence& sequence, Works& works);
  // Returns the most sequences that a step may take.
  size_t share_of_step() const;
  // Schedules the next tokens of a running sequence, at most `budget`, and subtracts them from
  // `budget`.
  void continue_running(Sequence& sequence, int64_t& budget, Works& works);
  // Returns the first waiting sequence that may start running now; waiting_.end() if there is none.
  Sequences::iterator next_to_admit();
  // Makes a waiting sequence run and schedules its first chunk; false if there are too few pages.
  bool admit(Sequences::iterator next, int64_t& budget, Works& works);
  // Returns the last running sequence, possibly `sequence` itself, that may be preempted for pages
  // of `sequence`; null if all sequences from `sequence` on have steps in flight.
  Sequence* preemption_victim(const Sequence& sequence) const;
  // Returns how many of the max_num_seqs slots are in use; a started beam search uses `width`
  // slots.
  int64_t slots_in_use() const;
  void keep_full_pages(Sequence& sequence);
  void find_prefix(Sequence& sequence);
  // Called when the prefix cache holds the sequence's whole text. The last token must be computed
  // again for its logits. Because other sequences may share the last page, the sequence gets a copy
  // of it.
  void own_last_page(Sequence& sequence);
  // Called for a fork: replaces a partly filled last page by a copy, because the fork's next token
  // is written to it.
  void own_open_page(Sequence& sequence);
  int64_t chunk_of(const Sequence& sequence, int64_t budget) const;

  SchedulerOptions options_;
  PagePool pages_;
  std::function<void(int64_t, int64_t)> copy_page_;
  Sequences running_, waiting_;
  int64_t preemptions_ = 0, prefix_queries_ = 0, prefix_hits_ = 0;
};

}  // namespace colossal::serve
