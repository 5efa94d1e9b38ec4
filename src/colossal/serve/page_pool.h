// Allocates pages of keys and values, counts the users of each page, and finds full pages by the
// text prefix that they hold (prefix cache).
#pragma once

#include <cstdint>
#include <list>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

namespace colossal::serve {

class PagePool {
 public:
  // Identifies a prefix of a text that fills whole pages; 0: the empty prefix.
  using Prefix = uint64_t;

  // A cached page.
  struct KeptPage {
    int64_t page = 0;
    Prefix prefix = 0;  // the prefix that ends with this page
  };

  explicit PagePool(int64_t pages);

  int64_t size() const { return std::ssize(pages_); }
  // Number of pages that take() can return: pages without users.
  int64_t available() const { return std::ssize(free_) + std::ssize(idle_); }
  int64_t in_use() const { return size() - available(); }

  // Returns a page with one user and undefined contents. If there is no other page without users,
  // evicts the cached page that has been without users for longest. Requires available() > 0.
  int64_t take();
  // share() adds a user to a page that has users or is cached; release() removes one. A cached page
  // without users keeps its contents until take() evicts it.
  void share(int64_t page);
  void release(int64_t page);

  // Returns the cached page that holds `tokens` after the prefix `before`; nullopt if there is
  // none. Does not add a user. Texts with different salts never share pages.
  std::optional<KeptPage> find(Prefix before, const std::string& salt,
                               std::span<const int32_t> tokens) const;
  // Caches a page in use, which holds `tokens` after the prefix `before`, unless another page is
  // cached for the same prefix and tokens. Returns the number of the prefix that ends with
  // `tokens`, which is the same for both pages.
  Prefix keep(int64_t page, Prefix before, const std::string& salt,
              std::span<const int32_t> tokens);

 private:
  // Holds the tokens themselves, so that texts with equal hashes are not confused. Prefixes of
  // different salts have different numbers, so only the key of a first page needs the salt.
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
    const Key* key = nullptr;  // its key in kept_; null: not cached
    std::list<int64_t>::iterator place_in_idle{};
  };

  static Key make_key(Prefix before, const std::string& salt, std::span<const int32_t> tokens);
  void forget(int64_t page);

  std::vector<Page> pages_;
  std::vector<int64_t> free_;  // pages without users that are not cached
  std::list<int64_t> idle_;    // cached pages without users, longest unused first
  std::unordered_map<Key, KeptPage, KeyHash> kept_;
  Prefix last_prefix_ = 0;
};

}  // namespace colossal::serve
