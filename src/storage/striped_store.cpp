#include "storage/striped_store.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "base/thread.h"
#include "base/units.h"
#include "io/retrying_io.h"

namespace teraio::storage {
namespace {

std::vector<int64_t> capacities(const std::vector<DriveSpec>& drives) {
  std::vector<int64_t> capacities_bytes;
  for (const DriveSpec& drive : drives) capacities_bytes.push_back(drive.capacity_bytes);
  return capacities_bytes;
}

bool is_page_aligned(const std::byte* memory) {
  return reinterpret_cast<uintptr_t>(memory) % io::kBlockBytes == 0;
}

// The bytes of a piece that contain data: the extent's last block may end with padding.
int64_t data_bytes(const Piece& piece, int64_t extent_size_bytes) {
  return std::min(piece.size_bytes, extent_size_bytes - piece.extent_offset_bytes);
}

}  // namespace

StripedStore::Drive::Drive(DriveSpec spec, const StripedStoreOptions& options, const Clock& clock)
    : name(spec.name),
      staging_bytes(spec.staging_bytes),
      file(std::move(spec.file)),
      io(spec.chunk_io != nullptr
             ? std::move(spec.chunk_io)
             : std::make_unique<io::RetryingIo>(std::move(spec.io), spec.name,
                                                2 * options.queue_depth, clock)),
      queue(options.request_bytes, options.queue_depth, options.planned_write_depth),
      meter(name, io->description(),
            {options.queue_depth, std::min(options.queue_depth, options.planned_write_depth)}),
      slowdowns(spec.rates),
      temperature(std::move(spec.temperature)) {
  meter.set_gpu_direct_off(std::move(spec.gpu_direct_off));
}

StripedStore::StripedStore(std::vector<DriveSpec> drives, StripedStoreOptions options,
                           const Clock& clock)
    : options_(std::move(options)),
      clock_(clock),
      extents_(capacities(drives), {.store_name = options_.name,
                                    .chunk_bytes = options_.request_bytes,
                                    .checksum = options_.checksum}) {
  TERAIO_CHECK(!drives.empty());
  TERAIO_CHECK(options_.request_bytes > 0 && options_.request_bytes % io::kBlockBytes == 0);
  TERAIO_CHECK(options_.queue_depth > 0 && options_.planned_write_depth > 0);
  for (DriveSpec& spec : drives) {
    extents_.set_weight(static_cast<int32_t>(drives_.size()), spec.weight);
    drives_.push_back(std::make_unique<Drive>(std::move(spec), options_, clock_));
  }
  start_status_ = start_threads();
}

Status StripedStore::start_threads() {
  for (int32_t i = 0; i < extents_.drive_count(); ++i) {
    Result<std::thread> thread = start_thread([this, i] { run(i); });
    if (!thread.ok()) return thread.status().with_context("drive " + drives_[i]->name);
    drives_[i]->thread = std::move(*thread);
  }
  return {};
}

Result<std::unique_ptr<TierStore>> StripedStore::open(std::vector<DriveSpec> drives,
                                                      StripedStoreOptions options,
                                                      const Clock& clock) {
  auto store = std::make_unique<StripedStore>(std::move(drives), std::move(options), clock);
  TERAIO_RETURN_IF_ERROR(store->start_status());
  return std::unique_ptr<TierStore>(std::move(store));
}

StripedStore::~StripedStore() {
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
    cancel_waiting();
    for (const auto& drive : drives_) wake(*drive);
  }
  for (const auto& drive : drives_)
    if (drive->thread.joinable()) drive->thread.join();
}

Result<Extent> StripedStore::reserve(int64_t size_bytes) {
  const std::lock_guard lock(mutex_);
  return extents_.reserve(size_bytes);
}

void StripedStore::release(const Extent& extent) {
  const std::lock_guard lock(mutex_);
  extents_.release(extent);
}

Status StripedStore::lay_out(std::span<const PlannedCopy> copies) {
  const std::lock_guard lock(mutex_);
  return extents_.lay_out(copies);
}

std::optional<Extent> StripedStore::reserve_planned(size_t copy) {
  const std::lock_guard lock(mutex_);
  return extents_.reserve_planned(copy);
}

std::vector<Piece> StripedStore::pieces(const Extent& extent) const {
  const std::lock_guard lock(mutex_);
  const ExtentRecord* record = extents_.find(extent);
  return record == nullptr ? std::vector<Piece>() : record->pieces;
}

Status StripedStore::why_refused(const Transfer& transfer) {
  const auto refuse = [&](std::string_view why) {
    return Status(ErrorCode::kInvalidArgument,
                  fmt::format("{}: transfer of {} bytes at {}: {}", options_.name,
                              transfer.extent.size_bytes, transfer.extent.id, why));
  };
  const ExtentRecord* extent = extents_.find(transfer.extent);
  if (extent == nullptr) return refuse("not an extent of this store");
  if (transfer.memory == nullptr && extent->size_bytes > 0) return refuse("no memory given");
  if (!is_page_aligned(transfer.memory)) return refuse("memory has to be page-aligned");
  if (extent->write_under_way) return refuse("a write of it is under way");
  if (transfer.direction == io::Direction::kWrite && extent->reads_under_way > 0)
    return refuse("a read of it is under way");
  if (transfer.direction == io::Direction::kRead && !extent->holds_bytes)
    return refuse("it was never written, or its last write failed");
  if (is_stopping_) return refuse("the store is closing");
  return silence_of_drives(*extent, transfer.direction);
}

Status StripedStore::silence_of_drives(const ExtentRecord& extent, io::Direction direction) const {
  for (const Piece& piece : extent.pieces)
    TERAIO_RETURN_IF_ERROR(drives_[piece.drive]->silence_in(direction));
  return {};
}

TransferId StripedStore::submit(Transfer transfer) {
  const int64_t now_ns = clock_.now_ns();
  const std::lock_guard lock(mutex_);
  const TransferId id = ++last_id_;
  if (Status refusal = why_refused(transfer); !refusal.ok()) {
    end_later({std::move(transfer.done), {std::move(refusal), 0, now_ns, now_ns, now_ns, false}});
    return id;
  }
  start_job(id, std::move(transfer), now_ns);
  return id;
}

void StripedStore::start_job(TransferId id, Transfer transfer, int64_t now_ns) {
  ExtentRecord& extent = *extents_.find(transfer.extent);
  const bool is_write = transfer.direction == io::Direction::kWrite;
  QueuePlace place{true, is_write ? 0 : transfer.deadline, id};
  if (transfer.priority == Priority::kUrgent) place = {false, ++urgent_count_, id};
  if (is_write) {
    extent.write_under_way = true;
    extent.holds_bytes = false;
  } else {
    ++extent.reads_under_way;
  }
  Job& job = jobs_[id];
  job.extent = &extent;
  job.place = place;
  job.bytes_left = extent.size_bytes;
  job.completion.submit_ns = now_ns;
  job.transfer = std::move(transfer);
  if (extent.size_bytes == 0) {
    job.completion.start_ns = now_ns;
    end_later(end_job(id, now_ns));
    return;
  }
  for (size_t i = 0; i < extent.pieces.size(); ++i) {
    const Piece& piece = extent.pieces[i];
    Drive& drive = *drives_[piece.drive];
    drive.queue.push(job.transfer.direction, place, static_cast<int32_t>(i),
                     data_bytes(piece, extent.size_bytes));
    if (drive.queue.can_start()) wake(drive);
  }
}

bool StripedStore::cancel(TransferId id) {
  const std::lock_guard lock(mutex_);
  const auto it = jobs_.find(id);
  if (it == jobs_.end() || it->second.has_started) return false;
  Job& job = it->second;
  withdraw(job);
  job.completion.status = Status(ErrorCode::kCancelled, options_.name + ": transfer cancelled");
  end_later(end_job(id, clock_.now_ns()));
  return true;
}

void StripedStore::cancel_waiting() {
  std::vector<TransferId> waiting;
  for (const auto& [id, job] : jobs_)
    if (!job.has_started) waiting.push_back(id);
  for (const TransferId id : waiting) {
    Job& job = jobs_.at(id);
    withdraw(job);
    job.completion.status = Status(ErrorCode::kCancelled, options_.name + ": the store closed");
    end_later(end_job(id, clock_.now_ns()));
  }
}

void StripedStore::expedite(TransferId id) {
  const std::lock_guard lock(mutex_);
  const auto it = jobs_.find(id);
  if (it == jobs_.end() || !it->second.place.is_planned) return;
  Job& job = it->second;
  const QueuePlace urgent{false, ++urgent_count_, id};
  for (const auto& drive : drives_) {
    drive->queue.move(job.transfer.direction, job.place, urgent);
    if (drive->queue.can_start()) wake(*drive);
  }
  job.place = urgent;
}

void StripedStore::withdraw(const Job& job) {
  for (const auto& drive : drives_) drive->queue.remove(job.transfer.direction, job.place);
}

StripedStore::Ending StripedStore::end_job(TransferId id, int64_t now_ns) {
  Job& job = jobs_.at(id);
  ExtentRecord& extent = *job.extent;
  const bool is_ok = job.completion.status.ok();
  if (job.transfer.direction == io::Direction::kWrite) {
    extent.write_under_way = false;
    extent.holds_bytes = is_ok;
  } else {
    --extent.reads_under_way;
  }
  job.completion.transferred_bytes = extent.size_bytes - job.bytes_left;
  job.completion.end_ns = now_ns;
  job.completion.status = with_extent(job);
  Ending ending{std::move(job.transfer.done), std::move(job.completion)};
  jobs_.erase(id);
  return ending;
}

Status StripedStore::with_extent(const Job& job) const {
  const Status& status = job.completion.status;
  if (status.ok() || status.code() == ErrorCode::kCancelled) return status;
  return status
      .with_context(fmt::format("{}: extent of {} bytes at {}", options_.name,
                                job.extent->size_bytes, job.transfer.extent.id))
      .with_details(details(job));
}

std::vector<std::string> StripedStore::details(const Job& job) const {
  std::vector<std::string> lines = {fmt::format(
      "transfer: {} of {} bytes, {} not moved, {}, tier {}",
      job.transfer.direction == io::Direction::kRead ? "read" : "write", job.extent->size_bytes,
      job.bytes_left, job.transfer.priority == Priority::kUrgent ? "urgent" : "planned",
      options_.name)};
  constexpr size_t kPiecesNamed = 8;
  const std::span<const Piece> pieces = job.extent->pieces;
  for (const Piece& piece : pieces.first(std::min(kPiecesNamed, pieces.size())))
    lines.push_back(fmt::format("piece: {} bytes at offset {} of drive {}", piece.size_bytes,
                                piece.drive_offset_bytes, drives_[piece.drive]->name));
  return lines;
}

void StripedStore::end_later(Ending ending) {
  endings_.push_back(std::move(ending));
  wake(*drives_.front());
}

void StripedStore::wake(Drive& drive) {
  if (!drive.is_asleep) return;
  drive.is_asleep = false;
  drive.io->wake();
}

void StripedStore::run(int32_t drive_index) {
  Drive& drive = *drives_[drive_index];
  Round round;
  while (begin_round(drive_index, round)) {
    for (const Slowdown& slowdown : round.slowdowns) report(drive, slowdown);
    for (const EnqueuedRead& transfer : round.enqueued_reads) transfer.tell(transfer.arrivals);
    for (const io::Chunk& chunk : round.chunks) submit(drive, chunk);
    for (const Ending& ending : round.endings)
      if (ending.done) ending.done(ending.completion);
    round.clear();
    drive.io->wait(round.results);
  }
}

void StripedStore::submit(Drive& drive, io::Chunk chunk) {
  device::Event arrival;
  if (chunk.direction == io::Direction::kRead) chunk.arrival = &arrival;
  drive.io->submit(chunk);
  if (arrival.id == 0) return;
  std::optional<EnqueuedRead> transfer;
  {
    const std::lock_guard lock(mutex_);
    transfer = note_arrival(chunk, arrival);
  }
  if (transfer) transfer->tell(transfer->arrivals);
}

std::optional<StripedStore::EnqueuedRead> StripedStore::note_arrival(const io::Chunk& chunk,
                                                                     device::Event arrival) {
  Job& job = jobs_.at(chunk.transfer);
  job.arrivals.push_back(arrival);
  job.enqueued_bytes += chunk.size_bytes;
  const bool is_whole = job.enqueued_bytes == job.extent->size_bytes;
  if (!is_whole || !job.completion.status.ok() || !job.transfer.on_copies_enqueued)
    return std::nullopt;
  return EnqueuedRead{std::exchange(job.transfer.on_copies_enqueued, nullptr),
                      std::move(job.arrivals)};
}

bool StripedStore::begin_round(int32_t drive_index, Round& round) {
  Drive& drive = *drives_[drive_index];
  const std::lock_guard lock(mutex_);
  const int64_t now_ns = clock_.now_ns();  // under the mutex: after every submit() that it sees
  drive.is_asleep = false;
  for (const io::ChunkResult& result : round.results) settle(drive_index, result, now_ns, round);
  if (drive_index == 0) {
    std::move(endings_.begin(), endings_.end(), std::back_inserter(round.endings));
    endings_.clear();
  }
  take_chunks(drive, now_ns, round.chunks);
  note_load(drive, now_ns, round);
  drive.is_asleep = true;
  if (!is_stopping_ || !jobs_.empty()) return true;
  // The last transfer has ended. All threads, this one included, must check again.
  for (const auto& each : drives_) wake(*each);
  return !endings_.empty() || !round.endings.empty();
}

void StripedStore::take_chunks(Drive& drive, int64_t now_ns, std::vector<io::Chunk>& chunks) {
  while (const auto request = drive.queue.next()) {
    Job& job = jobs_.at(request->transfer);
    if (!job.has_started) job.completion.start_ns = now_ns;
    job.has_started = true;
    part_of(job, job.extent->pieces[static_cast<size_t>(request->piece)].drive, now_ns);
    ++job.chunks_in_flight;
    const io::Chunk& chunk = chunks.emplace_back(chunk_of(job, *request));
    const device::Event after = options_.device == nullptr ? device::Event() : chunk.after;
    drive.in_flight.add(
        {chunk.transfer, chunk.direction, chunk.offset_bytes, chunk.size_bytes, now_ns, after});
  }
}

// Transfers have a part on few drives.
DrivePart& StripedStore::part_of(Job& job, int32_t drive, int64_t now_ns) {
  std::vector<DrivePart>& parts = job.completion.parts;
  for (DrivePart& part : parts)
    if (part.drive == drive) return part;
  return parts.emplace_back(DrivePart{.drive = drive, .start_ns = now_ns, .end_ns = now_ns});
}

std::vector<std::string> StripedStore::unanswered(int64_t at_least_ns) const {
  const std::lock_guard lock(mutex_);
  const int64_t now_ns = clock_.now_ns();
  std::vector<std::string> requests;
  for (const auto& drive : drives_) {
    if (options_.device != nullptr) drive->in_flight.look_at(*options_.device, now_ns);
    const std::optional<RequestInFlight> oldest = drive->in_flight.oldest();
    if (oldest && now_ns - oldest->start_ns >= at_least_ns)
      requests.push_back(describe_request(*drive, *oldest, now_ns));
  }
  return requests;
}

std::string StripedStore::describe_request(const Drive& drive, const RequestInFlight& request,
                                           int64_t now_ns) const {
  return fmt::format("{} has not answered a {} of {} at offset {} for {}", drive.name,
                     request.direction == io::Direction::kRead ? "read" : "write",
                     format_size(request.size_bytes), request.offset_bytes,
                     format_duration(now_ns - request.start_ns));
}

void StripedStore::fail_unanswered() {
  if (options_.io_timeout_ns == 0) return;
  std::vector<Ending> endings;
  {
    const std::lock_guard lock(mutex_);
    const int64_t now_ns = clock_.now_ns();
    for (int32_t i = 0; i < extents_.drive_count(); ++i)
      for (const io::Direction direction : {io::Direction::kRead, io::Direction::kWrite})
        check_answers(i, direction, now_ns, endings);
  }
  // A thread of this store may be one that does not come back from the drive.
  for (const Ending& ending : endings)
    if (ending.done) ending.done(ending.completion);
}

bool StripedStore::takes_writes(const Extent& extent) const {
  const std::lock_guard lock(mutex_);
  const ExtentRecord* record = extents_.find(extent);
  return record == nullptr || silence_of_drives(*record, io::Direction::kWrite).ok();
}

void StripedStore::check_answers(int32_t drive_index, io::Direction direction, int64_t now_ns,
                                 std::vector<Ending>& endings) {
  Drive& drive = *drives_[drive_index];
  if (options_.device != nullptr) drive.in_flight.look_at(*options_.device, now_ns);
  const std::optional<RequestInFlight> oldest = drive.in_flight.oldest(direction);
  if (!oldest || !drive.silence_in(direction).ok()) return;
  if (now_ns - oldest->start_ns < options_.io_timeout_ns) return;
  const Status silence(ErrorCode::kIoError, "drive " + describe_request(drive, *oldest, now_ns));
  spdlog::error(
      "{}: {}: it is left alone until it answers. Writes go to the other drives; reads of what is "
      "only there fail. Check the drive with `teraio doctor --ssd DIR`",
      options_.name, silence.message());
  drive.meter.add_unanswered();
  extents_.set_weight(drive_index, 0);
  give_up_on(drive, direction, silence, now_ns, endings);
  // Bytes that are written there could not be read.
  if (direction == io::Direction::kRead && drive.silence_in(io::Direction::kWrite).ok())
    give_up_on(drive, io::Direction::kWrite, silence, now_ns, endings);
}

void StripedStore::give_up_on(Drive& drive, io::Direction direction, const Status& silence,
                              int64_t now_ns, std::vector<Ending>& endings) {
  drive.silence_in(direction) = silence;
  std::vector<TransferId> failed;
  for (const auto& [id, job] : jobs_)
    if (job.transfer.direction == direction && !job.is_unanswered &&
        (drive.in_flight.has(id) || drive.queue.has(direction, job.place)))
      failed.push_back(id);
  std::sort(failed.begin(), failed.end());
  for (const TransferId id : failed) {
    Job& job = jobs_.at(id);
    withdraw(job);
    if (job.completion.status.ok()) job.completion.status = silence;
    if (job.chunks_in_flight == 0) {
      endings.push_back(end_job(id, now_ns));
      continue;
    }
    job.is_unanswered = true;
    job.completion.end_ns = now_ns;
    Completion completion = job.completion;
    completion.status = with_extent(job);
    completion.is_unanswered = true;
    endings.push_back({job.transfer.done, std::move(completion)});
  }
}

io::Chunk StripedStore::chunk_of(Job& job, const QueuedRequest& request) const {
  const auto index = static_cast<size_t>(request.piece);
  const Piece& piece = job.extent->pieces[index];
  io::Chunk chunk;
  chunk.direction = job.transfer.direction;
  chunk.memory = job.transfer.memory + piece.extent_offset_bytes + request.offset_bytes;
  chunk.offset_bytes = piece.drive_offset_bytes + request.offset_bytes;
  chunk.size_bytes = request.size_bytes;
  if (!job.extent->checksums.empty())
    chunk.checksum = &job.extent->checksums[index][request.offset_bytes / options_.request_bytes];
  chunk.transfer = request.transfer;
  chunk.is_urgent = request.is_urgent;
  chunk.after = job.transfer.ready;
  return chunk;
}

void StripedStore::settle(int32_t drive_index, const io::ChunkResult& result, int64_t now_ns,
                          Round& round) {
  Drive& drive = *drives_[drive_index];
  note_answer(drive, result.chunk);
  if (result.are_copies_enqueued) {
    std::optional<EnqueuedRead> transfer = note_arrival(result.chunk, result.arrival);
    if (transfer) round.enqueued_reads.push_back(std::move(*transfer));
    return;
  }
  const io::Direction direction = result.chunk.direction;
  drive.queue.finish(direction, result.chunk.is_urgent);
  Job& job = jobs_.at(result.chunk.transfer);
  --job.chunks_in_flight;
  // The event has passed, so nothing needs to wait for it.
  std::erase_if(job.arrivals, [&](device::Event event) { return event.id == result.arrival.id; });
  if (!result.gpu_direct_failure.ok())
    drive.meter.set_gpu_direct_off(result.gpu_direct_failure.message());
  DrivePart& part = part_of(job, drive_index, now_ns);
  part.end_ns = now_ns;
  if (result.status.ok()) {
    part.moved_bytes += result.chunk.size_bytes;
    job.bytes_left -= result.chunk.size_bytes;
    drive.meter.add_bytes(direction, result.chunk.size_bytes, result.was_gpu_direct);
  } else {
    note_failure(drive_index, job, result.status);
  }
  const bool is_over = job.bytes_left == 0 || !job.completion.status.ok();
  if (is_over && job.chunks_in_flight == 0)
    round.endings.push_back(end_job(result.chunk.transfer, now_ns));
}

void StripedStore::note_answer(Drive& drive, const io::Chunk& chunk) {
  drive.in_flight.remove(chunk.transfer, chunk.offset_bytes);
  if (drive.silence_in(chunk.direction).ok() || drive.in_flight.oldest(chunk.direction)) return;
  spdlog::warn(
      "{}: drive {} answers {} again: what is on it can be used, and it gets new tensors when the "
      "other drives are full. If that repeats, check it with `teraio doctor --ssd DIR`",
      options_.name, drive.name, chunk.direction == io::Direction::kRead ? "reads" : "writes");
  drive.silence_in(chunk.direction) = Status();
  if (!drive.in_flight.oldest()) drive.silence = {};
}

void StripedStore::note_failure(int32_t drive_index, Job& job, const Status& status) {
  Drive& drive = *drives_[drive_index];
  const bool is_of_device = status.code() == ErrorCode::kDeviceFailed;
  if (!is_of_device) drive.meter.add_error();
  // Later extents use the other drives while they have room. Who asked for a transfer tells why it
  // failed.
  const bool is_of_drive = !is_of_device && status.code() != ErrorCode::kOutOfSpace;
  if (is_of_drive && extents_.weight(drive_index) > 0) {
    spdlog::error(
        "{}: {}: new tensors go to the other drives while they have room. Check this one with "
        "`teraio doctor --ssd DIR`{}",
        options_.name, status.message(), detail_lines(status));
    extents_.set_weight(drive_index, 0);
  } else {
    spdlog::debug("{}: {}", options_.name, status.message());
  }
  if (!job.completion.status.ok()) return;
  job.completion.status = status;
  withdraw(job);
}

void StripedStore::note_load(Drive& drive, int64_t now_ns, Round& round) {
  bool has_new_rate = false;
  for (const io::Direction direction : {io::Direction::kRead, io::Direction::kWrite}) {
    if (!drive.meter.note(direction, drive.queue.in_flight(direction), now_ns)) continue;
    if (const auto slowdown = drive.slowdowns.compare(drive.meter, direction))
      round.slowdowns.push_back(*slowdown);
    has_new_rate = true;
  }
  if (has_new_rate) follow_rates();
}

void StripedStore::report(Drive& drive, Slowdown slowdown) {
  if (drive.temperature) slowdown.temperature = drive.temperature();
  slowdown.bytes_written = written_bytes(drive);
  const std::string text = describe(slowdown);
  spdlog::warn("{}: drive {} {}", options_.name, drive.name, text);
  const std::lock_guard lock(mutex_);
  drive.meter.set_slowdown(slowdown.direction, text);
}

int64_t StripedStore::written_bytes(const Drive& drive) const {
  const std::lock_guard lock(mutex_);
  return drive.meter.counters(clock_.now_ns()).bytes_written;
}

void StripedStore::follow_rates() {
  for (const auto& drive : drives_)
    if (drive->meter.round_trip_rate() <= 0) return;
  for (int32_t i = 0; i < extents_.drive_count(); ++i) {
    const bool has_failed = extents_.weight(i) <= 0;
    if (!has_failed) extents_.set_weight(i, drives_[i]->meter.round_trip_rate());
  }
}

TierCounters StripedStore::counters() const {
  const int64_t now_ns = clock_.now_ns();
  const std::lock_guard lock(mutex_);
  TierCounters counters;
  extents_.count(counters);
  for (const auto& drive : drives_) {
    const DriveCounters& own = counters.drives.emplace_back(drive->meter.counters(now_ns));
    counters.bytes_read += own.bytes_read;
    counters.bytes_written += own.bytes_written;
    counters.staging_bytes += drive->staging_bytes;
  }
  if (options_.segments != nullptr) counters.segments = options_.segments->counters();
  return counters;
}

}  // namespace teraio::storage
