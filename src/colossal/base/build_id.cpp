#include "colossal/base/build_id.h"

#include <elf.h>
#include <fmt/format.h>
#include <link.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

namespace colossal {
namespace {

using Segments = std::span<const ElfW(Phdr)>;

bool holds(const dl_phdr_info& object, uintptr_t address) {
  for (const ElfW(Phdr) & segment : Segments(object.dlpi_phdr, object.dlpi_phnum)) {
    const uintptr_t begin = object.dlpi_addr + segment.p_vaddr;
    if (segment.p_type == PT_LOAD && address >= begin && address < begin + segment.p_memsz) {
      return true;
    }
  }
  return false;
}

size_t padded(size_t size) {
  return (size + 3) / 4 * 4;
}

// Returns the GNU build ID in `notes`, or "". A note is a header, its owner's name and its content;
// the last two are padded to 4 bytes.
std::string find_build_id(std::span<const std::byte> notes) {
  constexpr std::string_view kOwner("GNU", 4);
  ElfW(Nhdr) header;
  while (notes.size() >= sizeof header) {
    std::memcpy(&header, notes.data(), sizeof header);
    const size_t name = sizeof header, content = name + padded(header.n_namesz);
    const size_t end = content + padded(header.n_descsz);
    if (end > notes.size()) break;
    const std::string_view owner(reinterpret_cast<const char*>(&notes[name]), header.n_namesz);
    if (header.n_type == NT_GNU_BUILD_ID && owner == kOwner) {
      std::string id;
      for (const std::byte byte : notes.subspan(content, header.n_descsz)) {
        id += fmt::format("{:02x}", static_cast<int>(byte));
      }
      return id;
    }
    notes = notes.subspan(end);
  }
  return "";
}

int read_own_id(dl_phdr_info* object, size_t, void* found) {
  if (!holds(*object, reinterpret_cast<uintptr_t>(&build_id))) return 0;
  for (const ElfW(Phdr) & segment : Segments(object->dlpi_phdr, object->dlpi_phnum)) {
    if (segment.p_type != PT_NOTE) continue;
    const auto* notes = reinterpret_cast<const std::byte*>(object->dlpi_addr + segment.p_vaddr);
    const std::string id = find_build_id({notes, segment.p_memsz});
    if (!id.empty()) *static_cast<std::string*>(found) = id;
  }
  return 1;  // stop: no other object contains this function
}

}  // namespace

std::string build_id() {
  std::string id = "unknown";
  dl_iterate_phdr(read_own_id, &id);
  return id;
}

}  // namespace colossal
