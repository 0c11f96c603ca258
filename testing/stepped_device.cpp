#include "testing/stepped_device.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"

namespace teraio::testing {
namespace {

constexpr int kPoison = 0xCD;
constexpr std::nullopt_t kCompute = std::nullopt;  // its stream

using Bytes = SteppedDevice::Bytes;

bool any_overlaps(const std::vector<Bytes>& ranges, const Bytes& bytes) {
  return std::ranges::any_of(ranges, [&](const Bytes& range) { return range.overlaps(bytes); });
}

bool uses(const SteppedDevice::Compute& compute, const Bytes& bytes) {
  return any_overlaps(compute.reads, bytes) || any_overlaps(compute.writes, bytes);
}

}  // namespace

SteppedDevice::SteppedDevice(SteppedDeviceOptions options)
    : options_(options), random_(options.seed) {
  auto memory = FakeMemory::create(options.budget_bytes);
  TERAIO_CHECK(memory.ok());
  memory_ = std::move(*memory);
}

SteppedDevice::~SteppedDevice() = default;

// --- Compute ------------------------------------------------------------------------------------

void SteppedDevice::launch(Compute compute) {
  const std::lock_guard lock(mutex_);
  const Copies& awaited = work_[kCompute].awaited;
  check_allocated(compute);
  check_arrived(compute, awaited);
  for (PendingCopy& copy : copies_)
    if (copy.is_to_host && !awaited.contains(copy.end.id))
      tear_if(any_overlaps(compute.writes, copy.device()), copy);
  enqueue(kCompute, std::move(compute), device::Event{}, device::Event{});
}

void SteppedDevice::enqueue(Stream stream, Compute compute, device::Event after,
                            device::Event mark) {
  work_[stream].items.push_back({std::move(compute), after, mark, ++last_place_});
}

void SteppedDevice::launch_on(void* stream, Compute compute, device::Event after) {
  const std::lock_guard lock(mutex_);
  check_known(after);
  check_allocated(compute);
  Copies awaited = history_of(after).copies;
  awaited.insert(work_[stream].awaited.begin(), work_[stream].awaited.end());
  check_arrived(compute, awaited);
  enqueue(stream, std::move(compute), after, device::Event{});
}

bool SteppedDevice::is_used_elsewhere(const Bytes& bytes) const {
  for (const auto& [stream, work] : work_)
    for (const WorkItem& item : work.items)
      if (stream != kCompute && uses(item.compute, bytes)) return true;
  return false;
}

void SteppedDevice::check_allocated(const Compute& compute) {
  for (const auto* ranges : {&compute.reads, &compute.writes})
    for (const Bytes& range : *ranges)
      if (memory_->contains(range.begin) && !memory_->is_allocated(range.begin, range.size_bytes))
        note("compute on memory that is not allocated");
}

void SteppedDevice::check_arrived(const Compute& compute, const Copies& awaited) {
  for (const PendingCopy& copy : copies_)
    if (!copy.is_to_host && uses(compute, copy.device()) && !awaited.contains(copy.end.id))
      note("used before it arrived");
}

Result<device::Event> SteppedDevice::record_point(Stream stream) {
  const std::lock_guard lock(mutex_);
  History history;
  if (stream == kCompute) history = {last_place_ + 1, work_[kCompute].awaited};
  const device::Event event = new_event(std::move(history));
  enqueue(stream, {}, device::Event{}, event);
  return event;
}

Status SteppedDevice::make_wait(Stream stream, device::Event event) {
  const std::lock_guard lock(mutex_);
  check_known(event);
  if (passed(event)) return {};
  Copies& awaited = work_[stream].awaited;
  awaited.insert(event.id);
  awaited.merge(history_of(event).copies);
  enqueue(stream, {}, event, device::Event{});
  return {};
}

bool SteppedDevice::is_past(device::Event event) const {
  const std::lock_guard lock(mutex_);
  auto* self = const_cast<SteppedDevice*>(this);
  self->check_known(event);
  if (options_.progress == Progress::kOnWait) self->step_locked();
  return passed(event);
}

Status SteppedDevice::wait_for(device::Event event) {
  std::unique_lock lock(mutex_);
  check_known(event);
  if (options_.progress == Progress::kManual) changed_.wait(lock, [&] { return passed(event); });
  while (!passed(event))
    if (!step_locked()) return Status(ErrorCode::kInternal, "fake: would wait for ever");
  return events_.failed.contains(event.id) ? Status(ErrorCode::kIoError, "fake: copy failed")
                                           : Status();
}

// --- Memory -------------------------------------------------------------------------------------

std::byte* SteppedDevice::allocate_block(int64_t size_bytes, device::Effort /*effort*/,
                                         const device::Tenant& /*tenant*/) {
  const std::lock_guard lock(mutex_);
  std::byte* memory = memory_->allocate(size_bytes);
  if (memory == nullptr) return nullptr;
  const Bytes block = {memory, memory_->held_bytes(memory)};
  const bool is_still_used = std::ranges::any_of(
      work_[kCompute].items, [&](const WorkItem& item) { return uses(item.compute, block); });
  if (!is_still_used) std::memset(bytes(memory), kPoison, block.size_bytes);
  return memory;
}

void SteppedDevice::release_block(std::byte* memory) {
  const std::lock_guard lock(mutex_);
  const Bytes block = {memory, memory_->held_bytes(memory)};
  for (const PendingCopy& copy : copies_)
    if (copy.device().overlaps(block)) note("released before the copy ended");
  if (is_used_elsewhere(block)) note("released while another stream was at work on it");
  memory_->release(memory);
  const auto poison = [=, this] { std::memset(bytes(block.begin), kPoison, block.size_bytes); };
  std::deque<WorkItem>& items = work_[kCompute].items;
  const auto behind_last_use =
      std::find_if(items.rbegin(), items.rend(),
                   [&](const WorkItem& item) { return uses(item.compute, block); });
  if (behind_last_use == items.rend()) return poison();
  const uint64_t place = behind_last_use->place;
  items.insert(behind_last_use.base(), {{{}, {block}, poison}, {}, {}, place});
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
  launch({{{from, size_bytes}}, {{to, size_bytes}}, [=, this] {
            std::memmove(bytes(to), bytes(from), static_cast<size_t>(size_bytes));
          }});
  return {};
}

Status SteppedDevice::fill(std::byte* memory, int64_t size_bytes, int value) {
  launch({{}, {{memory, size_bytes}}, [=, this] {
            std::memset(bytes(memory), value, static_cast<size_t>(size_bytes));
          }});
  return {};
}

Status SteppedDevice::Pinning::pin(std::byte* host, int64_t size_bytes) {
  const std::lock_guard lock(device_.mutex_);
  pinned_.push_back({host, size_bytes});
  return {};
}

void SteppedDevice::Pinning::unpin(std::byte* host) {
  const std::lock_guard lock(device_.mutex_);
  const auto known = std::ranges::find(pinned_, host, &Bytes::begin);
  if (known == pinned_.end()) return device_.note("unpinned what was not pinned");
  for (const PendingCopy& copy : device_.copies_)
    if ((copy.is_to_host ? copy.target() : copy.source()).overlaps(*known))
      device_.note("unpinned before the copy ended");
  pinned_.erase(known);
}

// --- Copies -------------------------------------------------------------------------------------

Result<device::Event> SteppedDevice::start_copy(const Copy& requested) {
  const std::lock_guard lock(mutex_);
  check_known(requested.after);
  ++copy_count_;
  changed_.notify_all();
  if (copy_count_ == options_.refused_copy)
    return Status(ErrorCode::kIoError, "fake: copy refused");
  PendingCopy copy{requested};
  check_copy(copy);
  History history = history_of(copy.after);
  copy.end = new_event(history);
  events_.histories.at(copy.end.id).copies.insert(copy.end.id);
  if (copy_count_ == options_.failing_copy) events_.failed.insert(copy.end.id);
  copies_.push_back(copy);
  return copy.end;
}

void SteppedDevice::tear_if(bool is_changed, PendingCopy& copy) {
  if (!is_changed || copy.is_torn) return;
  copy.is_torn = true;
  ++torn_count_;
}

void SteppedDevice::check_copy(PendingCopy& copy) {
  const Bytes device = copy.device();
  if (memory_->contains(device.begin) && !memory_->is_allocated(device.begin, device.size_bytes))
    note("copied memory that is not allocated");
  if (is_used_elsewhere(device)) note("copied while another stream was at work on it");
  const History history = history_of(copy.after);
  for (const WorkItem& item : work_[kCompute].items) {
    if (item.place <= history.compute_place) continue;
    if (copy.is_to_host)
      tear_if(any_overlaps(item.compute.writes, device), copy);
    else if (uses(item.compute, device))
      note("copied before compute was there");
  }
  for (const PendingCopy& other : copies_)
    if (copy.conflicts_with(other) && !history.copies.contains(other.end.id))
      note("two copies of one place at once");
}

// --- Order --------------------------------------------------------------------------------------

SteppedDevice::History SteppedDevice::history_of(device::Event event) const {
  const auto found = events_.histories.find(event.id);
  return found == events_.histories.end() ? History() : found->second;
}

device::Event SteppedDevice::new_event(History history) {
  const device::Event event{++events_.last_id};
  events_.histories.emplace(event.id, std::move(history));
  return event;
}

void SteppedDevice::check_known(device::Event event) {
  if (event.id > events_.last_id) note("an event that was never recorded");
}

void SteppedDevice::pass(device::Event event) {
  if (event.id != 0) events_.passed.insert(event.id);
  events_.histories.erase(event.id);
  for (auto& [stream, work] : work_) work.awaited.erase(event.id);
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
    if (!work.items.empty() && passed(work.items.front().after))
      possible.push_back([this, &work] { advance(work); });
  for (auto copy = copies_.begin(); copy != copies_.end(); ++copy) {
    if (copy->has_begun)
      possible.push_back([this, copy] { end_copy(copy); });
    else if (passed(copy->after))
      possible.push_back([this, copy] { begin_copy(*copy); });
  }
  if (possible.empty()) return false;
  possible[random_() % possible.size()]();
  return true;
}

void SteppedDevice::advance(Work& work) {
  const WorkItem item = std::move(work.items.front());
  work.items.pop_front();
  if (item.compute.run) item.compute.run();
  pass(item.mark);
}

void SteppedDevice::begin_copy(PendingCopy& copy) {
  copy.has_begun = true;
  const std::byte* from = bytes(copy.from);
  copy.seen.assign(from, from + copy.size_bytes);
  std::memset(bytes(copy.to), kPoison, copy.size_bytes);
}

void SteppedDevice::end_copy(std::list<PendingCopy>::iterator copy) {
  const bool is_same = std::memcmp(copy->seen.data(), bytes(copy->from), copy->size_bytes) == 0;
  if (!is_same && !copy->is_torn) note("source changed during the copy");
  const bool is_good = !events_.failed.contains(copy->end.id) && !copy->is_torn;
  if (is_good) std::memcpy(bytes(copy->to), copy->seen.data(), copy->size_bytes);
  const device::Event end = copy->end;
  copies_.erase(copy);
  pass(end);
}

// --- What the test asks -------------------------------------------------------------------------

int64_t SteppedDevice::copies_waiting() const {
  const std::lock_guard lock(mutex_);
  return std::count_if(copies_.begin(), copies_.end(),
                       [](const PendingCopy& copy) { return !copy.has_begun; });
}

int64_t SteppedDevice::copies_under_way() const {
  const std::lock_guard lock(mutex_);
  return static_cast<int64_t>(copies_.size());
}

void SteppedDevice::wait_for_copies(int64_t count) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return copy_count_ >= count; });
}

int64_t SteppedDevice::pinned_bytes() const {
  const std::lock_guard lock(mutex_);
  int64_t sum_bytes = 0;
  for (const Bytes& bytes : pinning_.pinned()) sum_bytes += bytes.size_bytes;
  return sum_bytes;
}

int64_t SteppedDevice::torn_copies() const {
  const std::lock_guard lock(mutex_);
  return torn_count_;
}

std::vector<std::string> SteppedDevice::violations() const {
  const std::lock_guard lock(mutex_);
  return violations_;
}

}  // namespace teraio::testing
