// DrySession: runs the observer and the recorder on a program whose tensors are fake.
//
// The device counts bytes without a limit, the clock advances only by the durations that spend()
// gets, and no tensor moves. The result is an ordinary trace.
//
// Threads: one thread at a time may start and stop the session; any thread may call the rest, with
// or without the GIL.
#pragma once

#include <c10/core/StorageImpl.h>

#include <memory>
#include <optional>

#include "base/status.h"
#include "engine/iteration_log.h"
#include "observe/fake_autograd.h"
#include "runtime/runtime.h"
#include "storages/active_session.h"
#include "trace/trace.h"

namespace teraio::pytorch {

struct DrySessionOptions {
  // The memory of the device that the run predicts. It determines the size of the slices in which
  // list ops run, as the device budget does in a Session, and does not limit allocations.
  int64_t device_memory_bytes = 0;
};

// An iteration. A value type.
struct DryTrace {
  trace::Trace trace;
  engine::IterationRecord iteration;
};

class DrySession {
 public:
  explicit DrySession(const DrySessionOptions& options);
  ~DrySession();
  DrySession(const DrySession&) = delete;
  DrySession& operator=(const DrySession&) = delete;

  // Observes the ops of the calling thread and of the autograd threads that work for it. Fails with
  // kInvalidArgument when a session is active in the process. Call it once.
  Status start();
  // Turns the hooks off. Has no effect when the session does not run.
  Status stop();

  // Registers `storage` as created now, by the running op or between ops. Storages that are not
  // fake, are empty, or are registered already are ignored.
  void add_birth(c10::StorageImpl& storage);
  // Registers that the program has changed the size of `storage` without an op.
  void resize(c10::StorageImpl& storage);
  // Lets `duration_ns` pass, and allocates and frees `workspace_bytes`. Both count for the running
  // op of the calling thread.
  Status spend(int64_t duration_ns, int64_t workspace_bytes);

  // Before every optimizer step: the backward passes are over.
  void begin_step();
  // After every optimizer step: Runtime::end_step().
  void end_step(uint64_t optimizer);
  runtime::Runtime& runtime() { return *runtime_; }
  // Returns the last iteration that repeated the one before it, nullopt when none has. To know all
  // of them, call it when an iteration has ended: `iteration` is the one that ended last.
  std::optional<DryTrace> trace() const;
  // Returns the iteration that ended last, whether or not it repeated another one.
  std::optional<DryTrace> last_trace() const;

 private:
  struct Machine;  // what storages need after the session has ended

  std::optional<DryTrace> with_record(std::optional<trace::Trace> trace) const;

  std::shared_ptr<Machine> machine_;
  std::shared_ptr<runtime::Runtime> runtime_;  // shares the machine's ownership
  std::shared_ptr<ActiveSession> active_;
  std::optional<RunningNodes> running_nodes_;  // from start() to stop()
};

}  // namespace teraio::pytorch
