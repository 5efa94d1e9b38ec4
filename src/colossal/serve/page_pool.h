// Keeps track of pages of keys and values: which are free, how many users the others have, and
// which beginnings of texts they hold for reuse.
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
  // A beginning of a text that fills whole pages; 0: the empty one.
  using Prefix = uint64_t;

  struct KeptPage {
    int64_t page = 0;
    Prefix prefix = 0;  // the beginning that ends with this page
  };

  explicit PagePool(int64_t pages);

  int64_t size() const { return std::ssize(pages_); }
  // Pages that take() can give: those that nobody uses.
  int64_t available() const { return std::ssize(free_) + std::ssize(idle_); }
  int64_t in_use() const { return size() - available(); }

  // Takes a page for one user; its contents are undefined. Among kept pages the one unused for
  // longest goes first.
  int64_t take();
  // share() adds a user, release() removes one. A kept page keeps its contents until it is taken.
  void share(int64_t page);
  void release(int64_t page);

  // The page that continues `before` with these tokens, if it is kept. `salt` tells texts apart
  // that must not share pages.
  std::optional<KeptPage> find(Prefix before, const std::string& salt,
                               std::span<const int32_t> tokens) const;
  // Keeps a page, in use, that holds these tokens after `before`, unless another one does already.
  // Returns the beginning that ends with it.
  Prefix keep(int64_t page, Prefix before, const std::string& salt,
              std::span<const int32_t> tokens);

 private:
  // The tokens themselves, so that no two texts are ever mistaken for each other. Beginnings of
  // other salts have other numbers, so that only first pages need the salt.
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
    const Key* key = nullptr;  // that it is kept by; null: it is not
    std::list<int64_t>::iterator place_in_idle{};
  };

  static Key make_key(Prefix before, const std::string& salt, std::span<const int32_t> tokens);
  void forget(int64_t page);

  std::vector<Page> pages_;
  std::vector<int64_t> free_;  // nobody uses them, and they are not kept
  std::list<int64_t> idle_;    // nobody uses them, but they are kept; longest unused first
  std::unordered_map<Key, KeptPage, KeyHash> kept_;
  Prefix last_prefix_ = 0;
};

}  // namespace colossal::serve
