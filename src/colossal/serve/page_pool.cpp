#include "colossal/serve/page_pool.h"

#include "colossal/base/error.h"

namespace colossal::serve {

PagePool::PagePool(int64_t pages) : pages_(pages) {
  for (int64_t page = pages; page-- > 0;) free_.push_back(page);
}

int64_t PagePool::take() {
  COLOSSAL_CHECK(available() > 0, "all of {} pages are in use", size());
  if (free_.empty()) forget(idle_.front());
  const int64_t page = free_.back();
  free_.pop_back();
  pages_[page].users = 1;
  return page;
}

void PagePool::forget(int64_t page) {
  kept_.erase(kept_.find(*pages_[page].key));
  pages_[page].key = nullptr;
  idle_.erase(pages_[page].idle_iterator);
  free_.push_back(page);
}

void PagePool::share(int64_t page) {
  Page& shared = pages_.at(page);
  COLOSSAL_CHECK(shared.users > 0 || shared.key, "page {} is nobody's to share", page);
  if (shared.users++ == 0) idle_.erase(shared.idle_iterator);
}

void PagePool::release(int64_t page) {
  Page& released = pages_.at(page);
  COLOSSAL_CHECK(released.users > 0, "page {} is not in use", page);
  if (--released.users > 0) return;
  if (released.key) {
    released.idle_iterator = idle_.insert(idle_.end(), page);
  } else {
    free_.push_back(page);
  }
}

std::optional<PagePool::CachedPage> PagePool::find(Prefix before, const std::string& salt,
                                                   std::span<const int32_t> tokens) const {
  const auto found = kept_.find(make_key(before, salt, tokens));
  if (found == kept_.end()) return std::nullopt;
  return found->second;
}

PagePool::Prefix PagePool::keep(int64_t page, Prefix before, const std::string& salt,
                                std::span<const int32_t> tokens) {
  const auto [entry, is_new] =
      kept_.try_emplace(make_key(before, salt, tokens), CachedPage{page, last_prefix_ + 1});
  if (!is_new) return entry->second.prefix;
  pages_.at(page).key = &entry->first;
  return ++last_prefix_;
}

PagePool::Key PagePool::make_key(Prefix before, const std::string& salt,
                                 std::span<const int32_t> tokens) {
  return {before, before == 0 ? salt : "", {tokens.begin(), tokens.end()}};
}

size_t PagePool::KeyHash::operator()(const Key& key) const {
  uint64_t hash = key.before * 0x9E3779B97F4A7C15 + std::hash<std::string>{}(key.salt);
  for (const int32_t token : key.tokens) {
    hash = (hash ^ static_cast<uint32_t>(token)) * 0xD6E8FEB86659FD93;
    hash ^= hash >> 32;
  }
  return hash;
}

}  // namespace colossal::serve
