// Decides which tokens of which sequences a step works on, and which pages they have.
//
// First come the sequences that generate, one token each, then chunks of those that are being read,
// then new ones, as far as the tokens of a step and the pages reach; in each group by priority and
// arrival. If a running sequence gets no pages, the last of all running ones gives its pages back
// and waits at its place in the order. What it had computed is computed again, except for pages
// that are still kept.
//
// The beams of a request count as its width from the time when it starts, and run whenever there
// are pages. Those that wait for others are not worked on.
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
  int64_t max_scored_tokens = 512;  // of a chunk whose log-probabilities are asked for
  bool prefix_cache = true;
  // Steps that may be under way at once: none of them takes more than its share of the sequences.
  int64_t steps_under_way = 1;
};

class Scheduler {
 public:
  // `count` tokens of a sequence from the position `begin` on, of which the last `drafts` are
  // guesses.
  struct Work {
    Sequence* sequence = nullptr;
    int64_t begin = 0;
    int64_t count = 0;
    int64_t drafts = 0;

    bool generates() const { return count - drafts == 1; }
  };

  // copy_page(from, to): copies keys and values.
  Scheduler(const SchedulerOptions& options, int64_t pages,
            std::function<void(int64_t, int64_t)> copy_page);

  void add(std::unique_ptr<Sequence> sequence);
  // Running sequences of which one token is to be computed in the next step, in their order.
  std::vector<Sequence*> generating() const;
  // Whether there may be work for one more step.
  bool has_more();
  // Takes free pages for guesses of such a sequence. Returns for how many guesses there is room, at
  // most `most`.
  int64_t reserve_for_drafts(Sequence& sequence, int64_t most);
  // Returns the work of a step: sequences that generate first, and within them and the rest, those
  // of one adapter together. Chunks of a prompt may be in several steps; a sequence that is in any
  // (Sequence::steps, which is counted up here) keeps its pages. Empty: nothing waits or runs but
  // in other steps, or those have all pages.
  std::vector<Work> schedule();
  // With the results of the step, for each work of a sequence that is still here: the keys and
  // values of its tokens, but for guesses, are in the pages.
  void finish(const Work& work);
  // Called when the sequence's first guess was right: it is now the last of the tokens, and has
  // keys and values.
  void accept_draft(Sequence& sequence);
  bool has(uint64_t id) const;
  // Adds another beam of the same text, which shares its full pages and has its own of the last
  // one.
  Sequence& fork(const Sequence& from, int64_t beam);
  // Takes a sequence out, its pages given back; null: there is none of this id (any more; a request
  // has one for each of its beams).
  std::unique_ptr<Sequence> remove(uint64_t id);
  std::unique_ptr<Sequence> remove(const Sequence& sequence);
  std::vector<uint64_t> ids() const;  // of all that run or wait

  bool empty() const { return running_.empty() && waiting_.empty(); }
  int64_t running() const { return std::ssize(running_); }
  int64_t waiting() const { return std::ssize(waiting_); }
  const PagePool& pages() const { return pages_; }
  int64_t preemptions() const { return preemptions_; }
  int64_t prefix_queries() const { return prefix_queries_; }
  int64_t prefix_hits() const { return prefix_hits_; }

 private:
  using Sequences = std::map<Sequence::Order, std::unique_ptr<Sequence>>;
  using Works = std::map<Sequence::Order, Work>;  // by the order of its sequence

  int64_t pages_for(int64_t tokens) const;
  // Gives a sequence the pages of its first `tokens` tokens; false: there are too few.
  bool reserve(Sequence& sequence, int64_t tokens);
  void release(Sequence& sequence);
  std::unique_ptr<Sequence> take_out(Sequences& sequences, Sequences::iterator found);
  void preempt(Sequence& sequence, Works& works);
  // How many sequences a step takes at most.
  size_t share_of_step() const;
  // Works on the next tokens of a running sequence, as far as `budget` goes.
  void continue_running(Sequence& sequence, int64_t& budget, Works& works);
  // The first that waits to be worked on and may run beside the others; the end: there is none.
  Sequences::iterator next_to_admit();
  // Whether it runs from now on.
  bool admit(Sequences::iterator next, int64_t& budget, Works& works);
  // The last that may give its pages back for this one, which may be this one itself; null: those
  // that come after it are in steps.
  Sequence* last_to_give_way(const Sequence& sequence) const;
  // How many of max_num_seqs those count as that have started.
  int64_t slots_in_use() const;
  void keep_full_pages(Sequence& sequence);
  void find_prefix(Sequence& sequence);
  // The token after what was found is computed into the last page, which others may use as well.
  void own_last_page(Sequence& sequence);
  // Of a fork: its next token is computed into the last page if that is not full.
  void own_open_page(Sequence& sequence);
  int64_t chunk_of(const Sequence& sequence, int64_t budget) const;

  SchedulerOptions options_;
  PagePool pages_;
  std::function<void(int64_t, int64_t)> copy_page_;
  Sequences running_, waiting_;
  int64_t preemptions_ = 0, prefix_queries_ = 0, prefix_hits_ = 0;
};

}  // namespace colossal::serve
