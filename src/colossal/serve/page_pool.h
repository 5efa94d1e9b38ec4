// The pool of pages of a paged KV cache. Allocates pages and counts the users of each page. As a
// prefix cache, finds full pages by the text prefix whose keys and values they hold. Handles page
// numbers only; nn::PagedKeyValueStore has the memory. Used by Scheduler.
#pragma once

#include <cstdint>
#include <list>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

namespace colossal::serve {

// A user of a page is a sequence that has the page. A cached page is a full page that find() can
// find, whether it has users or not. Not thread-safe.
class PagePool {
 public:
  // A number that identifies a prefix of a text: all tokens from the text's beginning to the end of
  // a full page. Equal tokens of texts with different salts (Sequence::salt) are different
  // prefixes. 0: the empty prefix of every text.
  using Prefix = uint64_t;

  // A cached page.
  struct CachedPage {
    int64_t page = 0;
    Prefix prefix = 0;  // the prefix whose last tokens are in this page
  };

  // pages: total number of pages; they are numbered from 0.
  explicit PagePool(int64_t pages);

  int64_t size() const { return std::ssize(pages_); }
  // Returns the number of pages without users, cached or not. take() can return all of them.
  int64_t available() const { return std::ssize(free_) + std::ssize(idle_); }
  // Returns the number of pages with users.
  int64_t in_use() const { return size() - available(); }

  // Allocates a page for one user; the contents are undefined. If all pages without users are
  // cached, evicts the one that has been without users for longest. Throws InternalError if
  // available() is 0.
  int64_t take();
  // Adds a user to a page. Throws InternalError if the page has no users and is not cached.
  void share(int64_t page);
  // Removes a user from a page. A cached page without users stays cached until take() evicts it.
  // Throws InternalError if the page has no users.
  void release(int64_t page);

  // Returns the cached page that holds keys and values of `tokens`, a full page of tokens that
  // follow the prefix `before`; nullopt if there is none. Does not add a user. salt:
  // Sequence::salt; a page that was cached with a different salt is not found.
  std::optional<CachedPage> find(Prefix before, const std::string& salt,
                                 std::span<const int32_t> tokens) const;
  // Caches a page in use that holds keys and values of `tokens`, a full page of tokens that follow
  // the prefix `before`. Returns the prefix that ends with `tokens`. If a page with this
  // `before`, `salt` and `tokens` is already cached, does not cache `page`, and returns the prefix
  // of the cached page.
  Prefix keep(int64_t page, Prefix before, const std::string& salt,
              std::span<const int32_t> tokens);

 private:
  // Identifies a cached page. Has the tokens themselves and not only their hash, so that texts with
  // equal hashes are not confused. salt: set only for the first page of a text (before = 0); for
  // later pages, `before` already depends on the salt.
  struct Key {
    Prefix before;
    std::string salt;
    std::vector<int32_t> tokens;
    bool operator==(const Key&) const = default;
  };
  struct KeyHash {
    size_t operator()(const Key& key) const;
  };
  struct Page {
    int64_t users = 0;
    const Key* key = nullptr;                      // the page's key in kept_; null: not cached
    std::list<int64_t>::iterator idle_iterator{};  // set if the page is in idle_
  };

  static Key make_key(Prefix before, const std::string& salt, std::span<const int32_t> tokens);
  void forget(int64_t page);  // evicts a cached page without users

  std::vector<Page> pages_;
  std::vector<int64_t> free_;  // pages without users that are not cached
  std::list<int64_t> idle_;    // cached pages without users, longest unused first
  std::unordered_map<Key, CachedPage, KeyHash> kept_;  // all cached pages
  Prefix last_prefix_ = 0;                             // greatest prefix number used so far
};

}  // namespace colossal::serve
