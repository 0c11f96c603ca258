#include "own_memory.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <string>

#include "base/units.h"

namespace teraio::pytorch {
namespace {

constexpr size_t kPieceBytes = size_t{1} << 20;
constexpr uint64_t kMostBytes = 32 * kGiB;

// The memory of this process as a file.
class MemoryFile {
 public:
  MemoryFile() : fd_(open("/proc/self/mem", O_RDONLY | O_CLOEXEC)) {}
  ~MemoryFile() {
    if (fd_ >= 0) close(fd_);
  }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  bool is_open() const { return fd_ >= 0; }
  // Returns the number of bytes, 0 where nothing can be read.
  size_t read(uintptr_t address, void* to, size_t size_bytes) const {
    const ssize_t count = pread(fd_, to, size_bytes, static_cast<off_t>(address));
    return count < 0 ? 0 : static_cast<size_t>(count);
  }

 private:
  int fd_;
};

// Returns the private writable mappings without a file, but not the stacks of the main thread.
std::vector<AddressRange> allocated_ranges() {
  std::vector<AddressRange> ranges;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    unsigned long begin = 0, end = 0, inode = 0;
    char mode[5] = {}, name[8] = {};
    const int fields =
        std::sscanf(line.c_str(), "%lx-%lx %4s %*s %*s %lu %7s", &begin, &end, mode, &inode, name);
    if (fields < 4 || inode != 0 || std::string(mode) != "rw-p") continue;
    if (std::string(name) != "[stack]") ranges.push_back({begin, end});
  }
  return ranges;
}

// Returns the parts of `ranges` that are not in `left_out`. Both are sorted.
std::vector<AddressRange> difference(const std::vector<AddressRange>& ranges,
                                     const std::vector<AddressRange>& left_out) {
  std::vector<AddressRange> parts;
  for (const AddressRange& range : ranges) {
    uintptr_t begin = range.begin;
    for (const AddressRange& hole : left_out) {
      if (hole.end <= begin || hole.begin >= range.end) continue;
      if (hole.begin > begin) parts.push_back({begin, hole.begin});
      begin = hole.end;
    }
    if (begin < range.end) parts.push_back({begin, range.end});
  }
  return parts;
}

}  // namespace

bool find_words(std::span<const uintptr_t> wanted, std::vector<AddressRange> left_out,
                const std::function<void(uintptr_t address)>& found) {
  const MemoryFile memory;
  if (!memory.is_open()) return false;
  std::sort(left_out.begin(), left_out.end(),
            [](const AddressRange& a, const AddressRange& b) { return a.begin < b.begin; });
  std::vector<uintptr_t> piece(kPieceBytes / sizeof(uintptr_t));
  uint64_t read_bytes = 0;
  for (const AddressRange& range : difference(allocated_ranges(), left_out)) {
    uintptr_t address =
        (range.begin + sizeof(uintptr_t) - 1) / sizeof(uintptr_t) * sizeof(uintptr_t);
    for (; address < range.end; address += kPieceBytes) {
      const size_t count =
          memory.read(address, piece.data(), std::min<size_t>(kPieceBytes, range.end - address));
      for (size_t i = 0; i < count / sizeof(uintptr_t); ++i)
        for (const uintptr_t word : wanted)
          if (piece[i] == word) found(address + i * sizeof(uintptr_t));
      if ((read_bytes += count) > kMostBytes) return false;
    }
  }
  return true;
}

uintptr_t word_at(uintptr_t address) {
  uintptr_t word = 0;
  return MemoryFile().read(address, &word, sizeof(word)) == sizeof(word) ? word : 0;
}

}  // namespace teraio::pytorch
