#include "testing/cuda_emulation/nccl/communicator.h"

#include <cinttypes>
#include <cstdio>
#include <functional>
#include <utility>

#include "testing/cuda_emulation/launch.h"
#include "testing/cuda_emulation/nccl/last_error.h"

namespace teraio::testing::emulated_nccl {
namespace {

using emulated_cuda::launch;
using emulated_cuda::launch_wait;
using emulated_cuda::pass_point;

Outcome outcome_of(int error) {
  if (error == cudaSuccess) return {};
  return {ncclUnhandledCudaError, cudaGetErrorName(static_cast<cudaError_t>(error))};
}

// The device of the communicator is the calling thread's for a while.
class DeviceGuard {
 public:
  explicit DeviceGuard(int device) {
    cudaGetDevice(&before_);
    cudaSetDevice(device);
  }
  ~DeviceGuard() { cudaSetDevice(before_); }
  DeviceGuard(const DeviceGuard&) = delete;
  DeviceGuard& operator=(const DeviceGuard&) = delete;

 private:
  int before_ = 0;
};

Outcome check_not_captured(const std::set<cudaStream_t>& streams) {
  for (const cudaStream_t stream : streams) {
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    if (const Outcome outcome = outcome_of(cudaStreamIsCapturing(stream, &status));
        !outcome.is_ok())
      return outcome;
    if (status != cudaStreamCaptureStatusNone)
      return {ncclInvalidUsage, "the emulated NCCL cannot be captured in a graph"};
  }
  return {};
}

std::string text_of(const Label& label) {
  return "kind " + std::to_string(label.call) + ", type " + std::to_string(label.type) +
         ", reduction " + std::to_string(label.reduction) + ", root " + std::to_string(label.root) +
         ", " + std::to_string(label.size_bytes) + " bytes";
}

}  // namespace

Communicator::Communicator(std::string name, int rank, int count)
    : name_(std::move(name)),
      rank_(rank),
      count_(count),
      mesh_(name_, rank, count, *this),
      peers_(count) {
  cudaGetDevice(&device_);
}

Outcome Communicator::connect() {
  const DeviceGuard guard(device_);
  const Outcome made = outcome_of(cudaEventCreateWithFlags(&last_, cudaEventDisableTiming));
  if (!made.is_ok()) return made;
  const std::string failure = mesh_.connect();
  if (failure.empty()) return {};
  return {ncclSystemError,
          "rank " + std::to_string(rank_) + " cannot reach the others: " + failure};
}

std::string Communicator::next_name(int color) {
  const std::lock_guard lock(mutex_);
  const std::string made_of =
      name_ + "/" + std::to_string(child_count_++) + "/" + std::to_string(color);
  char hash[17];
  std::snprintf(hash, sizeof(hash), "%016" PRIx64, uint64_t{std::hash<std::string>()(made_of)});
  return name_.substr(0, 32) + "-" + hash;
}

Outcome Communicator::error() const {
  const std::lock_guard lock(mutex_);
  return error_;
}

// --- Submission ---------------------------------------------------------------------------------

Outcome Communicator::submit(const std::vector<Call>& calls,
                             const std::set<cudaStream_t>& streams) {
  const DeviceGuard guard(device_);
  if (const Outcome failed = error(); !failed.is_ok()) return failed;
  if (const Outcome captured = check_not_captured(streams); !captured.is_ok()) return captured;
  return enqueue(std::make_shared<Operation>(calls, rank_, count_), calls.front().name, streams);
}

Outcome Communicator::enqueue(const std::shared_ptr<Operation>& operation, const char* name,
                              const std::set<cudaStream_t>& streams) {
  const cudaStream_t stream = *streams.begin();
  const auto self = shared_from_this();
  int error = cudaSuccess;
  const auto then = [&](int result) { error = error == cudaSuccess ? result : error; };
  then(cudaStreamWaitEvent(stream, last_, 0));
  for (const cudaStream_t other : streams) {
    if (other == stream) continue;
    then(cudaEventRecord(last_, other));
    then(cudaStreamWaitEvent(stream, last_, 0));
  }
  then(launch(stream, name, [self, operation] { self->begin(operation); }));
  then(launch_wait(stream, name, operation->may_read));
  then(launch(stream, name, [self, operation] { self->read(*operation); }));
  then(launch_wait(stream, name, operation->has_data));
  then(launch(stream, name, [self, operation] { self->finish(*operation); }));
  then(cudaEventRecord(last_, stream));
  for (const cudaStream_t other : streams)
    if (other != stream) then(cudaStreamWaitEvent(other, last_, 0));
  return outcome_of(error);
}

// --- The steps of an operation ------------------------------------------------------------------

void Communicator::begin(const std::shared_ptr<Operation>& operation) {
  {
    const std::lock_guard lock(mutex_);
    current_ = operation;
    if (is_aborted_) return open_gates();
  }
  operation->spoil_outputs();
  const std::lock_guard lock(mutex_);
  operation->phase = Operation::Phase::kHasBegun;
  for (const Operation::Received& each : operation->receives)
    post(each.peer, {Message::kReady, each.label, nullptr, 0});
  advance();
}

void Communicator::read(Operation& operation) {
  {
    const std::lock_guard lock(mutex_);
    if (is_aborted_) return;
  }
  operation.read_inputs();
  const std::lock_guard lock(mutex_);
  operation.phase = Operation::Phase::kHasRead;
  advance();
}

void Communicator::finish(Operation& operation) {
  {
    const std::lock_guard lock(mutex_);
    current_ = nullptr;
    if (is_aborted_ || operation.phase != Operation::Phase::kHasData) return;
  }
  operation.write_outputs();
}

void Communicator::post(int peer, Message message) {
  if (peer == rank_) return store(peer, std::move(message));
  mesh_.post(peer, std::move(message));
}

void Communicator::store(int peer, Message message) {
  Peer& from = peers_[peer];
  if (message.kind == Message::kReady)
    from.ready.push_back(std::move(message));
  else if (message.kind == Message::kData)
    from.data.push_back(std::move(message));
  else
    from.on_host.push_back(std::move(message));
}

void Communicator::advance() {
  if (current_ == nullptr || is_aborted_ || !error_.is_ok()) return;
  Operation& operation = *current_;
  if (operation.phase == Operation::Phase::kHasBegun && is_awaited(operation)) {
    operation.phase = Operation::Phase::kMayRead;
    pass_point(*operation.may_read);
  }
  if (operation.phase != Operation::Phase::kHasRead) return;
  const bool is_all = send_what_is_awaited(operation) && take_data(operation);
  if (!is_all || !mesh_.is_flushed()) return;
  operation.phase = Operation::Phase::kHasData;
  pass_point(*operation.has_data);
}

// Another rank is ready for what the operation sends, or nothing is sent to another.
bool Communicator::is_awaited(const Operation& operation) {
  bool is_sent_to_others = false;
  bool is_other_ready = false;
  for (const Operation::Sent& each : operation.sends) {
    if (each.peer == rank_) continue;
    const Peer& peer = peers_[each.peer];
    is_sent_to_others = true;
    is_other_ready |= !peer.ready.empty();
    if (peer.ready.empty() && peer.is_lost) fail_for_loss_of(each.peer);
  }
  return (is_other_ready || !is_sent_to_others) && error_.is_ok();
}

// Sends to each rank what it is ready for, in order; true when that was all.
bool Communicator::send_what_is_awaited(Operation& operation) {
  std::set<int> waiting;
  for (Operation::Sent& each : operation.sends) {
    Peer& peer = peers_[each.peer];
    if (each.is_sent || waiting.count(each.peer) > 0) continue;
    if (peer.ready.empty()) {
      waiting.insert(each.peer);
      if (peer.is_lost) fail_for_loss_of(each.peer);
    } else if (peer.ready.front().label != each.message.label) {
      fail_for_labels(each, peer.ready.front().label);
      return false;
    } else {
      peer.ready.pop_front();
      post(each.peer, each.message);
      each.is_sent = true;
    }
  }
  return waiting.empty();
}

// Takes what is there, in the order of each rank; true when that is all.
bool Communicator::take_data(Operation& operation) {
  bool is_all = true;
  for (Operation::Received& each : operation.receives) {
    if (each.message.bytes != nullptr) continue;
    Peer& peer = peers_[each.peer];
    if (!peer.data.empty()) {
      each.message = std::move(peer.data.front());
      peer.data.pop_front();
      continue;
    }
    is_all = false;
    if (peer.is_lost) fail_for_loss_of(each.peer);
  }
  return is_all;
}

// --- What the mesh tells ------------------------------------------------------------------------

void Communicator::receive(int peer, Message message) {
  const std::lock_guard lock(mutex_);
  store(peer, std::move(message));
  changed_.notify_all();
  advance();
}

void Communicator::lose(int peer) {
  const std::lock_guard lock(mutex_);
  peers_[peer].is_lost = true;
  changed_.notify_all();
  advance();
}

void Communicator::note_flushed() {
  const std::lock_guard lock(mutex_);
  advance();
}

// --- On the host --------------------------------------------------------------------------------

Outcome Communicator::gather_on_host(const Bytes& own, std::vector<Bytes>& all) {
  Message message = {Message::kOnHost, {}, std::make_shared<Bytes>(own), 0};
  message.label.size_bytes = own.size();
  std::unique_lock lock(mutex_);
  for (int peer = 0; peer < count_; ++peer) post(peer, message);
  for (Peer& peer : peers_) {
    changed_.wait(lock, [&] { return !peer.on_host.empty() || peer.is_lost || is_aborted_; });
    if (peer.on_host.empty()) return {ncclRemoteError, "a rank has ended"};
    all.push_back(*peer.on_host.front().bytes);
    peer.on_host.pop_front();
  }
  return {};
}

// --- The end ------------------------------------------------------------------------------------

void Communicator::fail_for_loss_of(int peer) {
  fail(ncclRemoteError, "rank " + std::to_string(peer) + " has ended");
}

void Communicator::fail_for_labels(const Operation::Sent& sent, const Label& wanted) {
  fail(ncclInvalidUsage, "rank " + std::to_string(sent.peer) + " waits for (" + text_of(wanted) +
                             "), rank " + std::to_string(rank_) + " sends (" +
                             text_of(sent.message.label) + ")");
}

void Communicator::fail(ncclResult_t result, std::string text) {
  if (!error_.is_ok()) return;
  error_ = {result, std::move(text)};
  set_last_error(error_.text);
  changed_.notify_all();
  if (!is_ending_) return;
  is_aborted_ = true;
  open_gates();
}

void Communicator::open_gates() {
  if (current_ == nullptr) return;
  pass_point(*current_->may_read);
  pass_point(*current_->has_data);
}

Outcome Communicator::finalize() {
  {
    const std::lock_guard lock(mutex_);
    is_ending_ = true;
    if (!error_.is_ok()) is_aborted_ = true;
    if (is_aborted_) open_gates();
  }
  const DeviceGuard guard(device_);
  const Outcome waited = outcome_of(cudaEventSynchronize(last_));
  return waited.is_ok() ? error() : waited;
}

void Communicator::abort() {
  const std::lock_guard lock(mutex_);
  is_aborted_ = true;
  if (error_.is_ok()) error_ = {ncclInvalidUsage, "the communicator was aborted"};
  changed_.notify_all();
  open_gates();
}

void Communicator::close() {
  bool is_aborted = false;
  {
    const std::lock_guard lock(mutex_);
    is_aborted = is_aborted_;
  }
  mesh_.close(/*flushes=*/!is_aborted);
  if (cudaEvent_t last = std::exchange(last_, nullptr)) cudaEventDestroy(last);
}

}  // namespace teraio::testing::emulated_nccl
