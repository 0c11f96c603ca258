#include "testing/stepped_device.h"

#include <cstring>
#include <utility>

#include "base/check.h"

namespace teraio::testing {
namespace {

constexpr int kPoison = 0xCD;

}  // namespace

SteppedDevice::SteppedDevice(SteppedDeviceOptions options)
    : options_(options), random_(options.seed) {
  auto memory = FakeMemory::create(options.budget_bytes);
  TERAIO_CHECK(memory.ok());
  memory_ = std::move(*memory);
}

SteppedDevice::~SteppedDevice() = default;

// --- Work ---------------------------------------------------------------------------------------

void SteppedDevice::launch(std::function<void()> run) {
  const std::lock_guard lock(mutex_);
  work_[std::nullopt].push_back({std::move(run), {}, {}});
}

void SteppedDevice::launch_on(void* stream, std::function<void()> run, device::Event after) {
  const std::lock_guard lock(mutex_);
  work_[stream].push_back({std::move(run), after, {}});
}

Result<device::Event> SteppedDevice::record_point(Stream stream) {
  const std::lock_guard lock(mutex_);
  const device::Event event{++last_event_};
  work_[stream].push_back({{}, {}, event});
  return event;
}

Status SteppedDevice::make_wait(Stream stream, device::Event event) {
  const std::lock_guard lock(mutex_);
  work_[stream].push_back({{}, event, {}});
  return {};
}

bool SteppedDevice::is_past(device::Event event) const {
  const std::lock_guard lock(mutex_);
  if (options_.progress == Progress::kOnWait) const_cast<SteppedDevice*>(this)->step_locked();
  return passed(event);
}

Status SteppedDevice::wait_for(device::Event event) {
  std::unique_lock lock(mutex_);
  if (options_.progress == Progress::kManual) changed_.wait(lock, [&] { return passed(event); });
  while (!passed(event))
    if (!step_locked()) return Status(ErrorCode::kInternal, "stepped: would wait for ever");
  return event.id == failed_.id ? Status(ErrorCode::kIoError, "stepped: copy failed") : Status();
}

// --- Memory -------------------------------------------------------------------------------------

std::byte* SteppedDevice::allocate_block(int64_t size_bytes, device::Effort /*effort*/,
                                         const device::Tenant& /*tenant*/) {
  const std::lock_guard lock(mutex_);
  return memory_->allocate(size_bytes);
}

void SteppedDevice::release_block(std::byte* memory) {
  const std::lock_guard lock(mutex_);
  memory_->release(memory);
}

void SteppedDevice::change_budget(int64_t budget_bytes) {
  const std::lock_guard lock(mutex_);
  memory_->account().set_budget_bytes(budget_bytes);
}

void SteppedDevice::count_outside(int64_t size_bytes) {
  const std::lock_guard lock(mutex_);
  memory_->account().add_outside_bytes(size_bytes);
}

void SteppedDevice::forget_peaks() {
  const std::lock_guard lock(mutex_);
  memory_->account().reset_peak();
}

Status SteppedDevice::move_within(std::byte* to, const std::byte* from, int64_t size_bytes) {
  launch([=, this] { std::memmove(bytes(to), bytes(from), static_cast<size_t>(size_bytes)); });
  return {};
}

Status SteppedDevice::fill(std::byte* memory, int64_t size_bytes, int value) {
  launch([=, this] { std::memset(bytes(memory), value, static_cast<size_t>(size_bytes)); });
  return {};
}

Status SteppedDevice::Pinning::pin(std::byte* host, int64_t size_bytes) {
  const std::lock_guard lock(mutex_);
  sizes_bytes_[host] = size_bytes;
  return {};
}

void SteppedDevice::Pinning::unpin(std::byte* host) {
  const std::lock_guard lock(mutex_);
  TERAIO_CHECK(sizes_bytes_.erase(host) == 1);
}

int64_t SteppedDevice::Pinning::pinned_bytes() const {
  const std::lock_guard lock(mutex_);
  int64_t sum_bytes = 0;
  for (const auto& [host, size_bytes] : sizes_bytes_) sum_bytes += size_bytes;
  return sum_bytes;
}

// --- Copies -------------------------------------------------------------------------------------

Result<device::Event> SteppedDevice::start_copy(const Copy& copy) {
  const std::lock_guard lock(mutex_);
  ++copy_count_;
  changed_.notify_all();
  if (copy_count_ == options_.refused_copy)
    return Status(ErrorCode::kIoError, "stepped: copy refused");
  const device::Event end{++last_event_};
  if (copy_count_ == options_.failing_copy) failed_ = end;
  copies_.push_back({copy, end});
  return end;
}

void SteppedDevice::begin_copy(PendingCopy& pending) {
  pending.has_begun = true;
  const Copy& copy = pending.copy;
  const std::byte* from = bytes(copy.from);
  pending.bytes.assign(from, from + copy.size_bytes);
  std::memset(bytes(copy.to), kPoison, static_cast<size_t>(copy.size_bytes));
}

void SteppedDevice::end_copy(std::list<PendingCopy>::iterator pending) {
  const device::Event end = pending->end;
  if (end.id != failed_.id)
    std::memcpy(bytes(pending->copy.to), pending->bytes.data(), pending->bytes.size());
  copies_.erase(pending);
  pass(end);
}

// --- Order --------------------------------------------------------------------------------------

void SteppedDevice::pass(device::Event event) {
  if (event.id != 0) passed_.insert(event.id);
  changed_.notify_all();
}

bool SteppedDevice::step() {
  const std::lock_guard lock(mutex_);
  return step_locked();
}

void SteppedDevice::run_all() {
  while (step()) continue;
}

bool SteppedDevice::step_locked() {
  std::vector<std::function<void()>> possible;
  for (auto& [stream, work] : work_)
    if (!work.empty() && passed(work.front().after))
      possible.push_back([this, &work] { advance(work); });
  for (auto copy = copies_.begin(); copy != copies_.end(); ++copy) {
    if (copy->has_begun)
      possible.push_back([this, copy] { end_copy(copy); });
    else if (passed(copy->copy.after))
      possible.push_back([this, copy] { begin_copy(*copy); });
  }
  if (possible.empty()) return false;
  possible[random_() % possible.size()]();
  return true;
}

void SteppedDevice::advance(Work& work) {
  const WorkItem item = std::move(work.front());
  work.pop_front();
  if (item.run) item.run();
  pass(item.mark);
}

// --- What the test asks -------------------------------------------------------------------------

int64_t SteppedDevice::copies_under_way() const {
  const std::lock_guard lock(mutex_);
  return static_cast<int64_t>(copies_.size());
}

void SteppedDevice::wait_for_copies(int64_t count) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return copy_count_ >= count; });
}

int64_t SteppedDevice::pinned_bytes() const { return pinning_.pinned_bytes(); }

}  // namespace teraio::testing
