// Session: a training run whose program is PyTorch's, and PyTorch's hooks while the session is on.
//
// Threads: one thread at a time may call open(), start(), stop(), discard() and is_running(), and
// destroy the session; any thread may call the rest. No code waits for the GIL while it holds a
// lock of the run, so that a caller may hold the GIL.
#pragma once

#include <c10/core/StorageImpl.h>
#include <c10/util/intrusive_ptr.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "runtime/run_options.h"
#include "runtime/training_run.h"
#include "session/torch_framework.h"
#include "storages/active_session.h"

namespace teraio::pytorch {

struct SessionOptions {
  std::string device = "cpu";  // as for find_backend()
  runtime::RunOptions run;
  bool checks_schemas = false;              // as ActiveSession's
  std::filesystem::path system_root = "/";  // has proc and sys; another one for tests
};

class Session {
 public:
  // Opens the run, as TrainingRun::open() does. PyTorch is not changed before start().
  static Result<std::unique_ptr<Session>> open(SessionOptions options);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // Makes PyTorch allocate through the session and observes the ops of the calling thread and of
  // the autograd threads that work for it; others call observe_this_thread(). Fails with
  // kInvalidArgument when a session is active in the process, or when this one has been started
  // before.
  Status start();
  // From now on, ops move storages that are older than the session into its memory. Call it after
  // start(), when no op that began before it uses them.
  void begin_adoption();
  // Returns the storages that the session would move and that share memory with others (see
  // escapes/aliases.h). Call it before start(), with the GIL.
  std::vector<c10::intrusive_ptr<c10::StorageImpl>> find_aliases() const;
  // Lifts the device budget, restores all tensors, turns the hooks off and closes the tiers. Ops
  // that other threads begin meanwhile wait until the tensors are back. Has no effect when the
  // session does not run. Returns kOutOfMemory and goes on if the system has too little memory for
  // all tensors, and kInterrupted and goes on if the user has interrupted a replay; stop() may be
  // called again. After other failures the hooks are off, and the tiers keep the bytes that could
  // not be restored. kInterrupted: the user has ended the wait for a drive that hangs. What such a
  // drive may still use (memory, files, threads) is kept until the process ends. Call it on the
  // thread that called start(), without the GIL, because it waits for I/O.
  Status stop();
  // Stops the session without restoring tensors, in a process that is exiting. The bytes of
  // offloaded tensors are lost, and an access to them raises the error of TorchStorageSwap. Does
  // not wait for a drive that hangs. Has no effect when the session does not run.
  void discard();
  bool is_running() const;

  runtime::TrainingRun& run() { return *run_; }
  runtime::Runtime& runtime() { return *run_->runtime(); }
  // Before every optimizer step: the backward passes are over.
  void begin_step();
  // After every optimizer step: Runtime::end_step().
  void end_step(uint64_t optimizer);

 private:
  Session() = default;
  void take_hooks_off();

  std::unique_ptr<runtime::TrainingRun> run_;
  TorchFramework* framework_ = nullptr;  // the run's
  bool checks_schemas_ = false;
  std::shared_ptr<ActiveSession> active_;
};

}  // namespace teraio::pytorch
