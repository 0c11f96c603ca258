#include "testing/faulty_drives/faulty_drives.h"

#include <dlfcn.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <tuple>
#include <vector>

namespace {

constexpr size_t kBlockBytes = 4096;
constexpr std::string_view kFolder = "/drive";
constexpr unsigned kUnusedMajor = 250;  // for experiments: no device has it

using Read = ssize_t (*)(int, void*, size_t, off_t);
using Write = ssize_t (*)(int, const void*, size_t, off_t);

Read real_read() {
  static const auto function = reinterpret_cast<Read>(dlsym(RTLD_NEXT, "pread"));
  return function;
}

Write real_write() {
  static const auto function = reinterpret_cast<Write>(dlsym(RTLD_NEXT, "pwrite"));
  return function;
}

// From kPassingError on in the order of FaultyDrivesFault::kind.
enum class Fate : int32_t {
  kNone = -1,
  kPassingError,
  kPartial,
  kLate,
  kReadError,
  kWriteError,
  kFull,
  kFlippedByRead,
  kFlippedByWrite,
  kLost,
  kMisdirected,
  kTorn,
  kDead,
};

struct Request {
  int drive = 0;
  bool is_write = false;
  size_t size_bytes = 0;
  off_t offset = 0;
};

struct Verdict {
  Fate fate = Fate::kNone;
  std::mt19937_64 random;  // for the details
  off_t other_offset = 0;  // of the chunk that a misdirected write replaces
};

// Which drive the file is on; nullopt: on none of ours.
std::optional<int> drive_of(int fd) {
  char path[512];
  const ssize_t length =
      readlink(("/proc/self/fd/" + std::to_string(fd)).c_str(), path, sizeof(path));
  if (length <= 0) return std::nullopt;
  const std::string_view name(path, static_cast<size_t>(length));
  const size_t file = name.rfind("/.teraio-");
  if (file == std::string_view::npos || file < kFolder.size() + 1) return std::nullopt;
  const size_t folder = name.rfind('/', file - 1);
  if (folder == std::string_view::npos || name.substr(folder, kFolder.size()) != kFolder)
    return std::nullopt;
  return name[folder + kFolder.size()] - '0';
}

class Schedule {
 public:
  void start(uint64_t seed, const FaultyDrivesRates& rates, int dead_drive, int64_t dies_at,
             int64_t heals_at) {
    const std::lock_guard lock(mutex_);
    seed_ = seed;
    rates_ = rates;
    dead_drive_ = dead_drive;
    dies_at_ = dies_at;
    heals_at_ = heals_at;
    requests_of_dead_drive_ = 0;
    hanging_count_since_start_ = 0;
    use_counts_.clear();
    written_.clear();
    repeated_.reset();
    faults_.clear();
    is_on_ = true;
  }

  void repeat(uint64_t seed, const FaultyDrivesFault* faults, int64_t count) {
    start(seed, {}, -1, 0, 0);
    const std::lock_guard lock(mutex_);
    repeated_.emplace();
    for (const FaultyDrivesFault* fault = faults; fault != faults + count; ++fault)
      repeated_->emplace(
          Use(fault->drive, fault->is_write != 0, fault->offset_bytes, fault->use_count),
          static_cast<Fate>(fault->kind));
  }

  int64_t faults(FaultyDrivesFault* copies, int64_t room) {
    const std::lock_guard lock(mutex_);
    const auto count = static_cast<int64_t>(faults_.size());
    std::copy_n(faults_.begin(), std::min(room, count), copies);
    return count;
  }

  int64_t stop() {
    const std::lock_guard lock(mutex_);
    is_on_ = false;
    release_locked();
    return static_cast<int64_t>(faults_.size()) + hanging_count_since_start_;
  }

  void hang(int drive, int32_t direction, int64_t count) {
    const std::lock_guard lock(mutex_);
    hanging_drive_ = drive;
    hanging_direction_ = direction;
    requests_before_hang_ = count;
    requests_before_release_ = kNever;
  }

  void release_after(int64_t count) {
    const std::lock_guard lock(mutex_);
    requests_before_release_ = count;
  }

  void release() {
    const std::lock_guard lock(mutex_);
    release_locked();
  }

  void wait_for_hang() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return hanging_count_ > 0; });
  }

  // Returns when the request may go on.
  void pass(const Request& request) {
    std::unique_lock lock(mutex_);
    if (hanging_count_ > 0 && request.drive != hanging_drive_ && --requests_before_release_ == 0)
      release_locked();
    if (!hangs(request)) return;
    ++hanging_count_since_start_;
    ++hanging_count_;
    changed_.notify_all();
    changed_.wait(lock, [&, period = release_count_] { return release_count_ != period; });
    --hanging_count_;
  }

  Verdict judge(const Request& request) {
    const std::lock_guard lock(mutex_);
    if (!is_on_) return {};
    const int64_t use_count = use_counts_[{request.drive, request.is_write, request.offset}]++;
    std::seed_seq seeds{
        seed_, static_cast<uint64_t>(request.drive), static_cast<uint64_t>(request.is_write),
        static_cast<uint64_t>(request.offset / kBlockBytes), static_cast<uint64_t>(use_count)};
    std::mt19937_64 random(seeds);
    Verdict verdict{.random = std::mt19937_64(random())};
    verdict.fate = choose(request, use_count, random);
    if (verdict.fate == Fate::kMisdirected) misdirect(request, verdict);
    if (request.is_write) written_[request.drive][request.offset] = request.size_bytes;
    if (verdict.fate != Fate::kNone)
      faults_.push_back({request.drive, request.is_write, static_cast<int32_t>(verdict.fate),
                         request.offset, use_count});
    return verdict;
  }

 private:
  using Use = std::tuple<int, bool, off_t, int64_t>;

  static constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

  Fate choose(const Request& request, int64_t use_count, std::mt19937_64& random) {
    if (!repeated_) return is_dead(request) ? Fate::kDead : draw(request, random);
    const auto fault =
        repeated_->find({request.drive, request.is_write, request.offset, use_count});
    return fault == repeated_->end() ? Fate::kNone : fault->second;
  }

  bool hangs(const Request& request) {
    if (request.drive != hanging_drive_) return false;
    const int32_t direction = request.is_write ? kFaultyWrites : kFaultyReads;
    if (hanging_direction_ != kFaultyReadsAndWrites && hanging_direction_ != direction)
      return false;
    return --requests_before_hang_ < 0;
  }

  void release_locked() {
    hanging_drive_ = -1;
    ++release_count_;
    changed_.notify_all();
  }

  bool is_dead(const Request& request) {
    if (request.drive != dead_drive_) return false;
    const int64_t number = requests_of_dead_drive_++;
    return number >= dies_at_ && number < heals_at_;
  }

  Fate draw(const Request& request, std::mt19937_64& random) const {
    const std::vector<std::pair<Fate, double>> chances = {
        {Fate::kPassingError, rates_.passing_error},
        {Fate::kPartial, request.size_bytes > kBlockBytes ? rates_.partial : 0},
        {Fate::kLate, rates_.late},
        {Fate::kReadError, request.is_write ? 0 : rates_.read_error},
        {Fate::kWriteError, request.is_write ? rates_.write_error : 0},
        {Fate::kFull, request.is_write ? rates_.full : 0},
        {Fate::kFlippedByRead, request.is_write ? 0 : rates_.flipped_by_read},
        {Fate::kFlippedByWrite, request.is_write ? rates_.flipped_by_write : 0},
        {Fate::kLost, request.is_write ? rates_.lost : 0},
        {Fate::kMisdirected, request.is_write ? rates_.misdirected : 0},
        {Fate::kTorn, request.is_write && request.size_bytes > kBlockBytes ? rates_.torn : 0},
    };
    for (const auto& [fate, chance] : chances)
      if (std::bernoulli_distribution(chance)(random)) return fate;
    return Fate::kNone;
  }

  // Another chunk that holds as many bytes; without one, the write is lost.
  void misdirect(const Request& request, Verdict& verdict) const {
    verdict.fate = Fate::kLost;
    const auto chunks = written_.find(request.drive);
    if (chunks == written_.end()) return;
    std::vector<off_t> others;
    for (const auto& [offset, size_bytes] : chunks->second)
      if (offset != request.offset && size_bytes >= request.size_bytes) others.push_back(offset);
    if (others.empty()) return;
    verdict.fate = Fate::kMisdirected;
    verdict.other_offset = others[verdict.random() % others.size()];
  }

  std::mutex mutex_;
  bool is_on_ = false;
  uint64_t seed_ = 0;
  FaultyDrivesRates rates_ = {};
  int dead_drive_ = -1;
  int64_t dies_at_ = 0;
  int64_t heals_at_ = 0;
  int64_t requests_of_dead_drive_ = 0;
  std::condition_variable changed_;
  int hanging_drive_ = -1;
  int32_t hanging_direction_ = kFaultyReads;
  int64_t requests_before_hang_ = 0;
  int64_t requests_before_release_ = kNever;
  int64_t hanging_count_ = 0;  // now
  int64_t hanging_count_since_start_ = 0;
  int64_t release_count_ = 0;
  std::map<std::tuple<int, bool, off_t>, int64_t> use_counts_;
  std::optional<std::map<Use, Fate>> repeated_;  // instead of what rates would bring
  std::vector<FaultyDrivesFault> faults_;
  std::map<int, std::map<off_t, size_t>> written_;
};

Schedule& schedule() {
  static auto* instance = new Schedule();  // requests come until the process ends
  return *instance;
}

ssize_t fail(int error_number) {
  errno = error_number;
  return -1;
}

size_t some_blocks(size_t size_bytes, std::mt19937_64& random) {
  return kBlockBytes * (1 + random() % (size_bytes / kBlockBytes));
}

void flip_a_bit(std::byte* memory, size_t size_bytes, std::mt19937_64& random) {
  const uint64_t bit = random() % (size_bytes * 8);
  memory[bit / 8] ^= static_cast<std::byte>(uint8_t{1} << (bit % 8));
}

// Aligned, for direct I/O.
std::unique_ptr<std::byte, decltype(&std::free)> copy_of(const void* memory, size_t size_bytes) {
  auto* copy = static_cast<std::byte*>(std::aligned_alloc(kBlockBytes, size_bytes));
  std::memcpy(copy, memory, size_bytes);
  return {copy, &std::free};
}

void wait_up_to_20_ms(std::mt19937_64& random) {
  std::this_thread::sleep_for(std::chrono::microseconds(random() % 20'000));
}

}  // namespace

extern "C" {

void faulty_drives_start(uint64_t seed, const FaultyDrivesRates* rates, int32_t dead_drive,
                         int64_t dies_at, int64_t heals_at) {
  schedule().start(seed, *rates, dead_drive, dies_at, heals_at);
}

int64_t faulty_drives_faults(FaultyDrivesFault* faults, int64_t room) {
  return schedule().faults(faults, room);
}

void faulty_drives_repeat(uint64_t seed, const FaultyDrivesFault* faults, int64_t count) {
  schedule().repeat(seed, faults, count);
}

void faulty_drives_hang(int32_t drive, int32_t direction, int64_t count) {
  schedule().hang(drive, direction, count);
}

void faulty_drives_release_after(int64_t count) { schedule().release_after(count); }

void faulty_drives_release() { schedule().release(); }

void faulty_drives_wait_for_hang() { schedule().wait_for_hang(); }

int64_t faulty_drives_stop() { return schedule().stop(); }

__attribute__((visibility("default"))) int io_uring_queue_init(unsigned /*entries*/, void* /*ring*/,
                                                               unsigned /*flags*/) {
  return -ENOSYS;
}

// Each drive's folder is on a device of its own, or the product would take them for one drive.
__attribute__((visibility("default"))) int stat(const char* path, struct stat* info) {
  static const auto real_stat =
      reinterpret_cast<int (*)(const char*, struct stat*)>(dlsym(RTLD_NEXT, "stat"));
  const int result = real_stat(path, info);
  const std::string_view name(path);
  const size_t folder = name.rfind(kFolder);
  if (result == 0 && folder != std::string_view::npos && name.size() == folder + kFolder.size() + 1)
    info->st_dev = makedev(kUnusedMajor, name.back());
  return result;
}

__attribute__((visibility("default"))) ssize_t pread(int fd, void* memory, size_t size_bytes,
                                                     off_t offset) {
  const std::optional<int> drive = drive_of(fd);
  if (!drive) return real_read()(fd, memory, size_bytes, offset);
  schedule().pass({*drive, false, size_bytes, offset});
  Verdict verdict = schedule().judge({*drive, false, size_bytes, offset});
  switch (verdict.fate) {
    case Fate::kPassingError:
      return fail(verdict.random() % 2 == 0 ? EINTR : EAGAIN);
    case Fate::kReadError:
    case Fate::kDead:
      return fail(EIO);
    case Fate::kPartial:
      return real_read()(fd, memory, some_blocks(size_bytes, verdict.random), offset);
    case Fate::kLate:
      wait_up_to_20_ms(verdict.random);
      break;
    default:
      break;
  }
  const ssize_t moved = real_read()(fd, memory, size_bytes, offset);
  if (verdict.fate == Fate::kFlippedByRead && moved > 0)
    flip_a_bit(static_cast<std::byte*>(memory), static_cast<size_t>(moved), verdict.random);
  return moved;
}

__attribute__((visibility("default"))) ssize_t pwrite(int fd, const void* memory, size_t size_bytes,
                                                      off_t offset) {
  const std::optional<int> drive = drive_of(fd);
  if (!drive) return real_write()(fd, memory, size_bytes, offset);
  schedule().pass({*drive, true, size_bytes, offset});
  Verdict verdict = schedule().judge({*drive, true, size_bytes, offset});
  switch (verdict.fate) {
    case Fate::kPassingError:
      return fail(verdict.random() % 2 == 0 ? EINTR : EAGAIN);
    case Fate::kWriteError:
    case Fate::kDead:
      return fail(EIO);
    case Fate::kFull:
      return fail(ENOSPC);
    case Fate::kPartial:
      return real_write()(fd, memory, some_blocks(size_bytes, verdict.random), offset);
    case Fate::kLate:
      wait_up_to_20_ms(verdict.random);
      break;
    case Fate::kFlippedByWrite: {
      const auto copy = copy_of(memory, size_bytes);
      flip_a_bit(copy.get(), size_bytes, verdict.random);
      return real_write()(fd, copy.get(), size_bytes, offset);
    }
    case Fate::kLost:
      return static_cast<ssize_t>(size_bytes);
    case Fate::kMisdirected:
      return real_write()(fd, memory, size_bytes, verdict.other_offset);
    case Fate::kTorn: {
      const ssize_t stored =
          real_write()(fd, memory, size_bytes / 2 / kBlockBytes * kBlockBytes, offset);
      return stored < 0 ? stored : static_cast<ssize_t>(size_bytes);
    }
    default:
      break;
  }
  return real_write()(fd, memory, size_bytes, offset);
}

}  // extern "C"
