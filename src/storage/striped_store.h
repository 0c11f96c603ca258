// StripedStore: the TierStore over drives of any kind.
//
// Each drive has a thread that submits its requests, receives their results and calls `done`. One
// mutex protects all bookkeeping. It is held briefly, and never during I/O, checksums or `done`.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "base/rates.h"
#include "drives/drive_facts.h"
#include "io/chunk_io.h"
#include "io/drive_io.h"
#include "io/extent_file.h"
#include "storage/drive_meter.h"
#include "storage/drive_queue.h"
#include "storage/extent_table.h"
#include "storage/requests_in_flight.h"
#include "storage/slowdown_detector.h"
#include "storage/striping.h"
#include "storage/tier_store.h"

namespace teraio::storage {

struct DriveSpec {
  std::string name;
  int64_t capacity_bytes = 0;  // a multiple of kBlockBytes
  double weight = 1.0;         // of its share in an extent, until rates are measured
  Rates rates;                 // the expected ones: below four fifths of them the store warns
  std::function<std::optional<drives::Temperature>()> temperature;  // empty: not reported
  io::ExtentFile file;                    // the file that `io` uses; empty for drives in memory
  std::unique_ptr<io::DriveIo> io;        // created for 2 * queue_depth requests in flight
  std::unique_ptr<io::ChunkIo> chunk_io;  // replaces `io` and RetryingIo
  std::string gpu_direct_off;             // the reason; empty: on, or not applicable
  int64_t staging_bytes = 0;              // host memory that `chunk_io` holds
};

struct StripedStoreOptions {
  std::string name = "ssd";
  int64_t request_bytes = int64_t{1} << 20;  // a multiple of kBlockBytes
  int32_t queue_depth = 8;                   // per drive and direction
  int32_t planned_write_depth = 2;           // of these, planned writes
  bool checksum = false;
  int64_t io_timeout_ns = 0;  // for each request, see fail_unanswered(); 0: no limit
  const device::DeviceOrder* device = nullptr;  // whose compute requests wait for; null: for none
  const device::MemorySegments* segments = nullptr;  // counted in counters(); outlives the store
};

class StripedStore final : public TierStore {
 public:
  // Starts a thread per drive. If start_status() is not ok, the store must not be used.
  StripedStore(std::vector<DriveSpec> drives, StripedStoreOptions options, const Clock& clock);
  ~StripedStore() override;

  // Constructs a store and returns its start_status() if that is not ok.
  static Result<std::unique_ptr<TierStore>> open(std::vector<DriveSpec> drives,
                                                 StripedStoreOptions options, const Clock& clock);

  // Fails if the system refused a drive's thread.
  const Status& start_status() const { return start_status_; }

  std::string_view name() const override { return options_.name; }
  Result<Extent> reserve(int64_t size_bytes) override;
  void release(const Extent& extent) override;
  Status lay_out(std::span<const PlannedCopy> copies) override;
  std::optional<Extent> reserve_planned(size_t copy) override;
  TransferId submit(Transfer transfer) override;
  bool cancel(TransferId id) override;
  void expedite(TransferId id) override;
  TierCounters counters() const override;
  void fail_unanswered() override;
  bool takes_writes(const Extent& extent) const override;
  std::vector<std::string> unanswered(int64_t at_least_ns) const override;

  // The pieces of an extent; empty if this store has no such extent. For tests and reports.
  std::vector<Piece> pieces(const Extent& extent) const;

 private:
  struct Job {
    Transfer transfer;
    ExtentRecord* extent = nullptr;
    QueuePlace place;
    int64_t bytes_left = 0;  // not yet moved
    int32_t chunks_in_flight = 0;
    bool has_started = false;
    bool is_unanswered = false;  // has failed; `done` has been called for the first time
    Completion completion;
    std::vector<device::Event> arrivals;  // of chunks that end with a copy on the device
    int64_t enqueued_bytes = 0;           // bytes whose copies are enqueued
  };

  // A call of on_copies_enqueued, to make without the mutex.
  struct EnqueuedRead {
    std::function<void(std::span<const device::Event>)> tell;
    std::vector<device::Event> arrivals;
  };

  // A call of `done`, to make without the mutex.
  struct Ending {
    std::function<void(const Completion&)> done;
    Completion completion;
  };

  struct Drive {
    Drive(DriveSpec spec, const StripedStoreOptions& options, const Clock& clock);

    Status& silence_in(io::Direction direction) { return silence[static_cast<size_t>(direction)]; }

    std::string name;
    int64_t staging_bytes;
    io::ExtentFile file;
    std::unique_ptr<io::ChunkIo> io;
    DriveQueue queue;
    RequestsInFlight in_flight;
    DriveMeter meter;
    SlowdownDetector slowdowns;
    std::function<std::optional<drives::Temperature>()> temperature;
    std::array<Status, 2> silence;  // by direction; not ok: it gets no requests until it answers
    bool is_asleep = false;         // its thread waits for I/O and needs a wake for new work
    std::thread thread;
  };

  // What a drive's thread handles between two waits.
  struct Round {
    std::vector<io::ChunkResult> results;
    std::vector<io::Chunk> chunks;
    std::vector<EnqueuedRead> enqueued_reads;
    std::vector<Ending> endings;
    std::vector<Slowdown> slowdowns;  // that began in this round

    void clear() {
      results.clear();
      chunks.clear();
      enqueued_reads.clear();
      endings.clear();
      slowdowns.clear();
    }
  };

  Status start_threads();
  // The function of the drive's thread.
  void run(int32_t drive_index);
  // Processes the results and collects what to do next. Returns false if the thread must end.
  bool begin_round(int32_t drive_index, Round& round);
  // Call without the mutex.
  void submit(Drive& drive, io::Chunk chunk);
  // Call without the mutex: reads the drive's temperature.
  void report(Drive& drive, Slowdown slowdown);
  int64_t written_bytes(const Drive& drive) const;

  // The callers hold the mutex.
  Status why_refused(const Transfer& transfer);
  Status silence_of_drives(const ExtentRecord& extent, io::Direction direction) const;
  void check_answers(int32_t drive_index, io::Direction direction, int64_t now_ns,
                     std::vector<Ending>& endings);
  // The drive has not answered in time: it gets nothing more in this direction.
  void give_up_on(Drive& drive, io::Direction direction, const Status& silence, int64_t now_ns,
                  std::vector<Ending>& endings);
  std::string describe_request(const Drive& drive, const RequestInFlight& request,
                               int64_t now_ns) const;
  void start_job(TransferId id, Transfer transfer, int64_t now_ns);
  void withdraw(const Job& job);
  Ending end_job(TransferId id, int64_t now_ns);
  // The status of a job that ends, for people.
  Status with_extent(const Job& job) const;
  std::vector<std::string> details(const Job& job) const;
  void end_later(Ending ending);
  void cancel_waiting();
  void wake(Drive& drive);
  void take_chunks(Drive& drive, int64_t now_ns, std::vector<io::Chunk>& chunks);
  // What the drive does for the job, from `now_ns` on.
  static DrivePart& part_of(Job& job, int32_t drive, int64_t now_ns);
  io::Chunk chunk_of(Job& job, const QueuedRequest& request) const;
  // Returns what to call once all copies of the chunk's transfer are enqueued.
  std::optional<EnqueuedRead> note_arrival(const io::Chunk& chunk, device::Event arrival);
  void settle(int32_t drive_index, const io::ChunkResult& result, int64_t now_ns, Round& round);
  void note_answer(Drive& drive, const io::Chunk& chunk);
  void note_failure(int32_t drive_index, Job& job, const Status& status);
  void note_load(Drive& drive, int64_t now_ns, Round& round);
  // Sets the weights of later extents from the measured rates, once all drives have them.
  void follow_rates();

  const StripedStoreOptions options_;
  const Clock& clock_;
  mutable std::mutex mutex_;
  ExtentTable extents_;
  std::vector<std::unique_ptr<Drive>> drives_;
  Status start_status_;
  std::unordered_map<TransferId, Job> jobs_;
  std::vector<Ending> endings_;  // of transfers that ended without I/O; drive 0's thread calls them
  TransferId last_id_ = 0;
  int64_t urgent_count_ = 0;
  bool is_stopping_ = false;
};

}  // namespace teraio::storage
