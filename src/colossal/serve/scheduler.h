// The scheduler of the inference engine: decides which tokens of which sequences a step (one
// forward pass) computes, and allocates pages of the KV cache for them. Used by EngineCore. A
// running sequence has pages and takes part in steps; a waiting sequence has no pages.
//
// A step takes sequences in this order: first, running sequences in the decode phase, with one
// token and draft tokens each; then running sequences in the prefill phase, with a chunk of the
// prompt each; then waiting sequences, which thereby start to run. Within each of the three,
// sequences are ordered by priority, then by arrival. The step is full when it has max_batch_tokens
// tokens or its share of the sequences (max_steps_in_flight). Waiting sequences start until the
// first one whose tokens need more pages than are free.
//
// If a running sequence needs a page and none is free, the scheduler preempts the last running
// sequence, by priority and arrival, that comes after it and is in no step in flight. The sequence
// itself is preempted only if it is the last running sequence and in no step in flight. If no
// sequence can be preempted, the step goes without the one that needs the page. A preempted
// sequence releases its pages and waits again. When it runs again, its keys and values are
// recomputed, except in pages that are still in the prefix cache. A step that preempts a sequence
// takes a waiting sequence only if it would be empty otherwise and no step is in flight.
//
// A request with beam search has one sequence per beam. Once it has started, it counts as `width`
// (BeamSearchOptions) sequences against max_num_seqs; a preempted beam runs again as soon as there
// are pages. A beam that waits for the logits of other beams (Sequence::waits) is not scheduled.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "colossal/serve/page_pool.h"
#include "colossal/serve/sequence.h"

namespace colossal::serve {

// See also EngineOptions (engine.h), from which most options come.
struct SchedulerOptions {
  int64_t page_size = 16;          // tokens per page
  int64_t max_num_seqs = 64;       // most running sequences
  int64_t max_batch_tokens = 512;  // most tokens of a step
  // Most tokens of a prompt's chunk if log-probabilities of the prompt are requested.
  int64_t max_scored_tokens = 512;
  bool prefix_cache = true;  // whether sequences with equal prefixes share pages
  // Whether a step computes a prompt as a whole, even if it has more than max_batch_tokens tokens
  // (it is then alone in the step): in an encoder, a token attends to those after it.
  bool whole_prompts = false;
  // Most steps in flight, i.e. steps that were scheduled and whose results have not arrived. A step
  // takes at most n / max_steps_in_flight sequences, rounded up, so that sequences are left for the
  // other steps. n: number of running and waiting sequences, without those that wait for the logits
  // of other beams, but at most max_num_seqs.
  int64_t max_steps_in_flight = 1;
};

// Owns all sequences that have not ended. Not thread-safe.
class Scheduler {
 public:
  // What a step computes of one sequence: tokens [begin, begin + count), of which the last `drafts`
  // are draft tokens.
  struct Work {
    Sequence* sequence = nullptr;
    int64_t begin = 0;   // position in the sequence
    int64_t count = 0;   // number of tokens, draft tokens included
    int64_t drafts = 0;  // number of draft tokens

    // Whether the step computes exactly one token of the sequence besides draft tokens: in the
    // decode phase, or if a chunk in the prefill phase has one token.
    bool generates() const { return count - drafts == 1; }
  };

  // pages: total number of pages. copy_page(from, to): called when the contents of page `from` must
  // be copied to page `to` before the next step.
  Scheduler(const SchedulerOptions& options, int64_t pages,
            std::function<void(int64_t, int64_t)> copy_page);

  void add(std::unique_ptr<Sequence> sequence);  // adds a waiting sequence
  // Returns the running sequences in the decode phase that the next step may compute, in order of
  // priority and arrival. Each has one token to compute and can have draft tokens.
  std::vector<Sequence*> generating() const;
  // Whether a running sequence is left out of steps until its constraint is ready.
  bool awaits_constraint() const;
  // Whether another step could compute something: a running sequence has tokens that no step in
  // flight computes, or a waiting sequence may start to run.
  bool has_more();
  // Allocates pages for up to `most` draft tokens of a sequence that generating() returned, but
  // leaves one free page for each running sequence. Returns the number of draft tokens for which
  // the sequence now has pages. The caller puts at most so many tokens in Sequence::drafts;
  // schedule() then includes them.
  int64_t reserve_for_drafts(Sequence& sequence, int64_t most);
  // Returns the work of the next step: first all elements with Work::generates(), then the other
  // elements; within both, elements with the same adapter are adjacent. Empty if steps in flight
  // already compute all remaining tokens, or if no remaining token can get a page. Several
  // steps in flight may have chunks of the same prompt. Increments Sequence::steps of each sequence
  // of the step; the caller decrements it when the step is over. While it is above 0, the sequence
  // is not preempted.
  std::vector<Work> schedule();
  // To be called for each element of schedule()'s result when the results of that step have
  // arrived, unless the sequence has ended. Records that the keys and values of the element's
  // tokens, except draft tokens, are in the pages, and caches pages that are full.
  void finish(const Work& work);
  // To be called, after finish(), each time a draft token was accepted and appended to
  // Sequence::tokens. Records that the keys and values of that token are in the pages.
  void accept_draft(Sequence& sequence);
  // Whether a running or waiting sequence has this id.
  bool has(uint64_t id) const;
  // Adds a copy of the sequence `from` as a new beam of its request and returns the copy. beam:
  // Sequence::beam of the copy. The copy is running if `from` is running, else waiting; it is in no
  // step in flight. The two sequences share their full pages. A partly filled last page is copied;
  // if no page is free for that, the copy's tokens in it are computed again.
  Sequence& fork(const Sequence& from, int64_t beam);
  // Remove a sequence, release its pages and return it; null if there is no such sequence. All
  // beams of a request have the id of the request; remove(id) removes one beam per call.
  std::unique_ptr<Sequence> remove(uint64_t id);
  std::unique_ptr<Sequence> remove(const Sequence& sequence);
  // Returns the ids of all running and waiting sequences, once per beam.
  std::vector<uint64_t> ids() const;

  bool empty() const { return running_.empty() && waiting_.empty(); }
  // Return the numbers of running and of waiting sequences.
  int64_t running() const { return std::ssize(running_); }
  int64_t waiting() const { return std::ssize(waiting_); }
  const PagePool& pages() const { return pages_; }
  // Counters, as in EngineStatistics.
  int64_t preemptions() const { return preemptions_; }
  int64_t prefix_queries() const { return prefix_queries_; }
  int64_t prefix_hits() const { return prefix_hits_; }

 private:
  // Keys: Sequence::order().
  using Sequences = std::map<Sequence::Order, std::unique_ptr<Sequence>>;
  using Works = std::map<Sequence::Order, Work>;

  int64_t pages_for(int64_t tokens) const;  // returns how many pages `tokens` tokens fill
  // Allocates the pages that a sequence lacks for its first `tokens` tokens. Returns false, and
  // allocates none, if too few pages are free.
  bool reserve(Sequence& sequence, int64_t tokens);
  // Releases all pages of a sequence, so that its tokens have to be computed again.
  void release(Sequence& sequence);
  // Removes the sequence at `found`, releases its pages and returns it.
  std::unique_ptr<Sequence> take_out(Sequences& sequences, Sequences::iterator found);
  // Makes a running sequence wait, and removes it from `works`.
  void preempt(Sequence& sequence, Works& works);
  // Returns the most sequences of a step; see SchedulerOptions::max_steps_in_flight.
  size_t share_of_step() const;
  // Adds to `works` the next tokens of a running sequence, at most `budget`, and subtracts their
  // number from `budget`. Preempts other sequences if pages are missing.
  void continue_running(Sequence& sequence, int64_t& budget, Works& works);
  // Returns the first waiting sequence that may start running now; waiting_.end() if there is none.
  Sequences::iterator next_to_admit();
  // Makes a waiting sequence run and adds its first chunk to `works`. Returns false, and leaves the
  // sequence waiting, if too few pages are free.
  bool admit(Sequences::iterator next, int64_t& budget, Works& works);
  // Returns the sequence to preempt so that `sequence` gets its pages: the last running sequence
  // that comes after `sequence` and is in no step in flight; or `sequence` itself, if it is the
  // last running sequence and in no step in flight. Null if there is none.
  Sequence* preemption_victim(const Sequence& sequence) const;
  // Returns how many of max_num_seqs sequences run; a request with beam search that has started
  // counts as `width`.
  int64_t slots_in_use() const;
  // Caches the sequence's pages that have become full (PagePool::keep()).
  void keep_full_pages(Sequence& sequence);
  // Gives a waiting sequence the cached pages that hold the beginning of its text.
  void find_prefix(Sequence& sequence);
  // Called when find_prefix() has found pages for the whole text. The last token must be computed
  // again for its logits, which writes to the last page. Because other sequences may share that
  // page, replaces it by a copy; if no page is free for that, its tokens are computed again.
  void copy_last_page(Sequence& sequence);
  // Called for a forked sequence: replaces a partly filled last page by a copy, because the next
  // token of the forked sequence will be written to it.
  void copy_partial_last_page(Sequence& sequence);
  // Returns how many tokens of a sequence a step computes next, draft tokens included, at most
  // `budget`.
  int64_t chunk_of(const Sequence& sequence, int64_t budget) const;

  SchedulerOptions options_;
  PagePool pages_;
  std::function<void(int64_t, int64_t)> copy_page_;
  Sequences running_, waiting_;
  int64_t preemptions_ = 0, prefix_queries_ = 0, prefix_hits_ = 0;
};

}  // namespace colossal::serve
