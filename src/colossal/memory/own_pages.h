// Memory in pages of its own, all of which goes back to the system when it is freed.
#pragma once

#include <cstddef>

namespace colossal::memory {

// `bytes` > 0, in huge pages as far as the system has them; zeros. Throws std::bad_alloc.
void* map_pages(size_t bytes);
void unmap_pages(void* begin, size_t bytes);

}  // namespace colossal::memory
